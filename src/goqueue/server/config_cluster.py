"""The settings of a cluster: its nodes, what they trust each other by, and its etcd."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.server.config_kinds import (
    MINUTE,
    SECOND,
    Address,
    Duration,
    FilePath,
    HostPort,
    Items,
    Switch,
    Word,
)
from goqueue.server.config_table import Section, setting

if TYPE_CHECKING:
    from pathlib import Path

ETCD_CLIENT_PORT: Final = 1
ETCD_PEER_PORT: Final = 2
"""Where etcd listens for the brokers and for the other etcds, counted from the internal port."""

PEER: Final = HostPort(lowest_port=1, highest_port=65535 - ETCD_PEER_PORT)
"""What each of `cluster.peers` is."""


class ClusterSection(Section):
    """Several nodes that hold every partition more than once; see the page on clusters."""

    enabled: bool = setting(
        False, Switch(), "This node is one of a cluster. `cluster.peers` implies it."
    )
    peers: tuple[str, ...] = setting(
        (),
        Items("host:port of every node, this one included"),
        "The internal addresses of all nodes, the same list on each. The first node is number 1. "
        "With each port belong the two after it, which etcd uses.",
    )
    advertise: Address | None = setting(
        None,
        PEER,
        "The address in `cluster.peers` that is this node's, if it listens on another one. "
        "Not set: `listeners.internal`.",
    )
    name: str = setting(
        "goqueue", Word(), "The name of the cluster: nodes of another one are not let in."
    )
    secret_file: Path | None = setting(
        None,
        FilePath("a file that only this user can read"),
        "The secret that the nodes know each other by: the same text on each, of at least 16 "
        "characters.",
    )
    tls_enabled: bool = setting(
        False,
        Switch(),
        "Use TLS 1.3 between the nodes, with a certificate on both sides. Required unless all "
        "peers are on this machine.",
    )
    tls_cert_file: Path | None = setting(
        None, FilePath("a PEM file"), "This node's certificate, with its chain."
    )
    tls_key_file: Path | None = setting(
        None, FilePath("a PEM file"), "The certificate's key, without a passphrase."
    )
    tls_ca_file: Path | None = setting(
        None, FilePath("a PEM file"), "The CA certificates that the nodes' certificates are from."
    )
    allow_unencrypted: bool = setting(
        False,
        Switch(),
        "Nodes on several machines may talk without TLS: everybody on the network between them "
        "can read the messages and change the metadata.",
    )
    etcd_binary: Path | None = setting(
        None,
        FilePath("an executable file"),
        "The etcd to run, version 3.5.16 or newer. Not set: the one of `goqueue cluster "
        "install-etcd`, or else of the PATH.",
    )
    slow_disk: bool = setting(
        False,
        Switch(),
        "etcd waits longer before it elects another leader: for disks that often take more than "
        "50 ms to sync.",
    )
    remote_queue_sources: bool = setting(
        False,
        Switch(),
        "Queue groups read the leaders of their topics, never a replica on their own node: to try "
        "how a cluster behaves in which most nodes have none.",
    )
    replica_lag_ms: int = setting(
        10 * SECOND,
        Duration(500, 10 * MINUTE),
        "A follower that has not caught up for this long leaves the in-sync set.",
        name="replica_lag_time",
    )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The internal addresses of all nodes; that of node n has the index n - 1."""
        return tuple(map(PEER.parse, self.peers))
