"""What a cluster's settings must agree on, and what follows from them for the others.

Loaded only for a node of a cluster.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.server.config import EVERYWHERE, Config, problem_with
from goqueue.server.config_cluster import ETCD_PEER_PORT, PEER
from goqueue.server.config_kinds import Address, MismatchError
from goqueue.server.config_sources import shorten
from goqueue.server.security.exposure import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.server.config_table import Problem, Section

_MOST_NODES: Final = 7
"""Nodes of one list of peers; a longer one is refused."""
_LEAST_SECRET_CHARS: Final = 16
_MOST_SECRET_BYTES: Final = 4096
"""More of a secret's file is not a secret but some other file, and is refused."""
_DEFAULT_REPLICAS: Final = 3
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def with_defaults(config: Config) -> Config:
    """The same configuration with what follows from the list of peers where nothing was given."""
    nodes = len(config.cluster.peers)
    replicas = max(1, min(_DEFAULT_REPLICAS, nodes))
    config = _filled(config, "topics.replication_factor", replicas)
    in_sync = 2 if config.topics.replication_factor >= _DEFAULT_REPLICAS else 1
    config = _filled(config, "topics.min_insync_replicas", in_sync)
    own = _own_peer(config)
    return config if own is None else _filled(config, "listeners.internal", own)


def _filled(config: Config, name: str, value: Any) -> Config:
    if name in config.sources:
        return config
    section, attribute = name.split(".")
    old: Section = getattr(config, section)
    new = type(old)(**{**vars(old), attribute: value})
    return msgspec.structs.replace(config, **{section: new})


def _own_peer(config: Config) -> Address | None:
    """The address in the list that this node's number is of."""
    peers = config.cluster.peers
    return _peer(peers[config.broker_id - 1]) if 1 <= config.broker_id <= len(peers) else None


def _peer(text: str) -> Address | None:
    try:
        return PEER.parse(text)
    except MismatchError:
        return None


def read_secret(path: Path) -> bytes:
    """What the nodes know each other by; blanks around it do not count.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return file.read(_MOST_SECRET_BYTES + 1).strip()


def check_cluster(config: Config) -> Iterator[Problem]:
    """Every problem of a node's cluster settings."""
    yield from _check_peers(config)
    yield from _check_place(config)
    yield from _check_ports(config)
    yield from _check_encryption(config)
    yield from _check_secret(config)
    yield from _check_replicas(config)
    binary = config.cluster.etcd_binary
    if binary is not None and not (binary.is_file() and os.access(binary, os.X_OK)):
        yield problem_with(config, "cluster.etcd_binary", "a file that exists and can be executed")


def _check_peers(config: Config) -> Iterator[Problem]:
    peers = config.cluster.peers
    name = "cluster.peers"
    if not peers:
        expected = "host:port of every node, this one included, since cluster.enabled is true"
        yield problem_with(config, name, expected)
        return
    for text, count in Counter(peers).items():
        if _peer(text) is None:
            yield problem_with(config, name, PEER.expected, shorten(text))
        if count > 1:
            yield problem_with(config, name, "every node once", f"{text} {count} times")
    if len(peers) > _MOST_NODES or len(peers) % 2 == 0:
        expected = f"an odd number of nodes up to {_MOST_NODES}: an even one survives no more"
        yield problem_with(config, name, expected, f"{len(peers)} nodes")
    known = sorted({each for each in map(_peer, peers) if each is not None})
    for one, other in pairwise(known):
        if one.host == other.host and other.port - one.port <= ETCD_PEER_PORT:
            expected = f"ports at least {ETCD_PEER_PORT + 1} apart on one host, for etcd's two"
            yield problem_with(config, name, expected, f"{one} and {other}")


def _check_place(config: Config) -> Iterator[Problem]:
    """Which of the peers this node is."""
    cluster = config.cluster
    if not cluster.peers:
        return
    number, count = config.broker_id, len(cluster.peers)
    is_numbered = config.broker.id is not None or re.search(r"[0-9]$", config.broker.node_id)
    if not is_numbered or not 1 <= number <= count:
        setting = "broker.node_id" if config.broker.id is None else "broker.id"
        what = "a name that ends in" if config.broker.id is None else "a number that is"
        yield problem_with(config, setting, f"{what} this node's place in cluster.peers, 1-{count}")
        return
    own = _own_peer(config)
    if own is None:
        return
    place = f"{own}, which is number {number} in cluster.peers, since this is node {number}"
    listens = config.listeners.internal
    if cluster.advertise is not None:
        if cluster.advertise != own:
            yield problem_with(config, "cluster.advertise", place)
        elif listens.port != own.port:
            yield problem_with(config, "listeners.internal", f"the port of {place}")
    elif listens.host in EVERYWHERE:
        if listens.port != own.port:
            yield problem_with(config, "listeners.internal", f"the port of {place}")
    elif listens != own:
        yield problem_with(config, "listeners.internal", f"{place}; or set cluster.advertise to it")


def _check_ports(config: Config) -> Iterator[Problem]:
    internal = config.listeners.internal
    ports = range(internal.port, internal.port + ETCD_PEER_PORT + 1)
    if not 1 <= internal.port <= 65535 - ETCD_PEER_PORT:
        expected = f"a port from 1 to {65535 - ETCD_PEER_PORT}, since etcd uses the two after it"
        yield problem_with(config, "listeners.internal", expected)
    for name in ("kafka", "http", "grpc"):
        host, port = getattr(config.listeners, name)
        shared = host == internal.host or EVERYWHERE & {host, internal.host}
        if port in ports and shared:
            expected = f"a port that the nodes do not use; they use {ports[0]} to {ports[-1]}"
            yield problem_with(config, f"listeners.{name}", expected)


def _check_encryption(config: Config) -> Iterator[Problem]:
    cluster = config.cluster
    if cluster.tls_enabled:
        for what in ("cert", "key", "ca"):
            path: Path | None = getattr(cluster, f"tls_{what}_file")
            name = f"cluster.tls_{what}_file"
            if path is None:
                expected = "a PEM file, since cluster.tls_enabled is true"
                yield problem_with(config, name, expected)
            elif not path.is_file() or not os.access(path, os.R_OK):
                yield problem_with(config, name, "a file that exists and can be read")
    elif not cluster.allow_unencrypted:
        known = [_peer(each) for each in cluster.peers]
        hosts = {each.host for each in known if each is not None}
        hosts.add(config.listeners.internal.host)
        if any(not is_loopback(host) for host in hosts):
            expected = (
                "true with a certificate, its key and its CA, since not all nodes are on this "
                "machine; cluster.allow_unencrypted does without"
            )
            yield problem_with(config, "cluster.tls_enabled", expected)


def _check_secret(config: Config) -> Iterator[Problem]:
    path = config.cluster.secret_file
    name = "cluster.secret_file"
    if path is None:
        expected = "a file with the secret of the cluster, the same on every node"
        yield problem_with(config, name, expected)
        return
    try:
        status, secret = path.stat(), read_secret(path)
    except OSError as error:
        found = f"{path}: {error.strerror}"
        yield problem_with(config, name, "a file that exists and can be read", found)
        return
    if not is_private(status, os.geteuid()):
        found = f"{path} with mode {stat.S_IMODE(status.st_mode):o}"
        expected = f"a file that only its owner can read: chmod 600 {path}"
        yield problem_with(config, name, expected, found)
    if not _LEAST_SECRET_CHARS <= len(secret) <= _MOST_SECRET_BYTES:
        expected = f"{_LEAST_SECRET_CHARS} to {_MOST_SECRET_BYTES} characters in it"
        yield problem_with(config, name, expected, f"{path} with {len(secret)}")


def is_private(status: os.stat_result, user: int) -> bool:
    """Whether a file can be read by its owner alone.

    Kubernetes mounts a secret as a file of root's, which the group of the pod may read: that is as
    private, for a process that is not root's.
    """
    others = status.st_mode & _OTHERS
    return not others or (others == stat.S_IRGRP and status.st_uid == 0 != user)


def _check_replicas(config: Config) -> Iterator[Problem]:
    nodes = len(config.cluster.peers)
    replicas, in_sync = config.topics.replication_factor, config.topics.min_insync_replicas
    if nodes and replicas > nodes:
        yield problem_with(
            config, "topics.replication_factor", f"at most {nodes}, as many as there are nodes"
        )
    if in_sync > replicas:
        expected = f"at most topics.replication_factor, {replicas}"
        yield problem_with(config, "topics.min_insync_replicas", expected)
