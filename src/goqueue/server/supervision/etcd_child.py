"""The etcd of a node: its folder, its command line, and what is known when it ends."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from goqueue.server.config import EVERYWHERE
from goqueue.server.config_cluster import ETCD_CLIENT_PORT, ETCD_PEER_PORT
from goqueue.server.errors import StartError
from goqueue.server.etcd.binary import EtcdBinary, etcd_environment, find_etcd
from goqueue.server.etcd.command import EtcdMember, EtcdTls, etcd_command
from goqueue.server.folder import NODE_FILE
from goqueue.server.supervision.etcd_errors import explain
from goqueue.server.supervision.etcd_folder import EtcdFolder
from goqueue.server.supervision.etcd_forming import Forming
from goqueue.server.supervision.etcd_joining import Joining, join_again

if TYPE_CHECKING:
    from goqueue.server.config import Config
    from goqueue.server.config_kinds import Address

MOST_MEMBERS: Final = 5
"""Nodes that run an etcd, the first of the list; further ones are clients of theirs."""
_LOG_TAIL_BYTES: Final = 64 * 1024
"""What is read of a log when etcd ended; errors are at its end."""


class EtcdChild:
    """What a supervisor must know of the etcd that it runs."""

    def __init__(self, config: Config) -> None:
        """Find the program and the folder.

        Raises:
            StartError: there is no etcd that could be used, or the folder is another's.
        """
        named = config.cluster.etcd_binary
        self.binary: EtcdBinary = find_etcd(None if named is None else str(named))
        self.folder = EtcdFolder(config.broker.data_dir / "etcd")
        member = member_of(config, self.folder)
        self.folder.claim(
            {
                "cluster": config.cluster.name,
                "member": member.name,
                "peers": [*config.cluster.peers],
            }
        )
        self._member = member
        self.forming = Forming(member)
        self._node_file = config.broker.data_dir / NODE_FILE
        self._others = client_urls(config)[1:]
        self._is_replacement = False
        self.environment = etcd_environment(os.environ)
        self._log_from = 0

    @property
    def command(self) -> list[str]:
        """The program with its flags, as it is to be started next."""
        return etcd_command(self.binary, self._member, is_replacement=self._is_replacement)

    def starting(self) -> str | None:
        """Make ready for the next run; returns why it has to wait, or None.

        Raises:
            StartError: what it had stored is lost, and no other member has it; or a port is taken.
        """
        self._log_from = self._log_bytes()
        if not self.folder.is_empty:
            return None
        had_data = self._node_file.exists()
        if had_data and not self._others:
            raise StartError(
                f"the etcd in {self.folder.path} has lost what it had stored, and there is no "
                "other node to take it from: restore the folder, or start with an empty --data-dir"
            )
        standing = join_again(self._member, self._others, must_join=had_data)
        self._is_replacement = standing is Joining.REPLACED
        if standing is Joining.WAIT:
            return (
                f"the etcd in {self.folder.path} has lost what it had stored: it is taken in again "
                "as soon as most of the other nodes run"
            )
        if standing is Joining.FORMING:
            return self.forming.waits_for()
        self.forming.close()
        return None

    def hand_over(self) -> None:
        """Let another member lead, if this one does; it is about to stop."""
        from goqueue.server.supervision.etcd_leadership import (  # noqa: PLC0415 - for a stop alone
            move_leadership,
        )

        if len(self._member.peers) > 1:
            move_leadership(self._member.client_url, self._member.tls)

    def why_ended(self, code: int, errors: str) -> str | None:
        """One sentence, or None when it did not say why."""
        return explain(self.folder, code, self._log_of_this_run(), errors)

    def _log_bytes(self) -> int:
        try:
            return self.folder.log_file.stat().st_size
        except OSError:
            return 0

    def _log_of_this_run(self) -> str:
        size = self._log_bytes()
        begin = self._log_from if self._log_from <= size else 0  # the log was rotated
        try:
            with self.folder.log_file.open("rb") as file:
                file.seek(max(begin, size - _LOG_TAIL_BYTES))
                return file.read(_LOG_TAIL_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def is_member(config: Config) -> bool:
    """Whether this node runs an etcd of its own."""
    return config.broker_id <= MOST_MEMBERS


def client_urls(config: Config) -> tuple[str, ...]:
    """Where brokers reach the members of etcd, this node's own first."""
    urls = [_url(config, each, ETCD_CLIENT_PORT) for each in _members(config)]
    own = config.broker_id - 1
    return (*urls[own : own + 1], *urls[:own], *urls[own + 1 :])


def member_of(config: Config, folder: EtcdFolder) -> EtcdMember:
    """The member of etcd that this node runs, out of the list of peers alone."""
    cluster = config.cluster
    own = cluster.addresses[config.broker_id - 1]
    tls = None
    if cluster.tls_enabled and cluster.tls_cert_file and cluster.tls_key_file:
        assert cluster.tls_ca_file is not None  # checked with the configuration
        tls = EtcdTls(cluster.tls_cert_file, cluster.tls_key_file, cluster.tls_ca_file)
    return EtcdMember(
        name=f"node-{config.broker_id}",
        data_folder=folder.data,
        log_file=folder.log_file,
        client_url=_url(config, own, ETCD_CLIENT_PORT),
        peers={
            f"node-{number}": _url(config, each, ETCD_PEER_PORT)
            for number, each in enumerate(_members(config), start=1)
        },
        token=cluster.name,
        listen_host=_numeric(config.listeners.internal.host),
        tls=tls,
        has_slow_disk=cluster.slow_disk,
    )


def _members(config: Config) -> tuple[Address, ...]:
    return config.cluster.addresses[:MOST_MEMBERS]


def _url(config: Config, peer: Address, port: int) -> str:
    host, internal = peer
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if config.cluster.tls_enabled else 'http'}://{shown}:{internal + port}"


def _numeric(host: str) -> str:
    """An address to listen on: etcd takes no names.

    Raises:
        StartError: the name has no address on this machine.
    """
    if host in EVERYWHERE:
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StartError(
            f"listeners.internal: {host} has no address ({error.strerror}): correct the name, or "
            "set listeners.internal to an address of this machine"
        ) from error
    return str(found[0][4][0])
