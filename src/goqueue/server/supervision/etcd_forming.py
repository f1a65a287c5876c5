"""The first formation of an etcd: nothing is formed before enough other nodes have been heard.

An empty etcd takes itself for one of the first members. On a node that has lost its disk it would
have forgotten what it has voted for and acknowledged, and could help to elect a leader without what
is committed. The others know better, if they are there: their etcds say who the members are. A node
that waits for them says in the place of its etcd that it has nothing.

As many are waited for as an etcd needs to elect a leader: without them it would wait, too.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from goqueue.server.errors import StartError
from goqueue.server.etcd.command import listening
from goqueue.server.supervision.etcd_gateway import ANSWER_S, FAILURES, get

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.server.etcd.command import EtcdMember

_PATH: Final = "/members"
"""Where a member tells other members who the members are; it needs no leader for that."""
_RETRY_S: Final = 0.2
_APART_S: Final = 0.1
"""Nodes ask at different times: one that asks does not answer meanwhile."""
_NOTHING: Final = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n[]"


class Forming:
    """What one node without data knows of the others, and tells them."""

    def __init__(self, member: EtcdMember) -> None:
        self._member = member
        self.retry_s = _RETRY_S + _APART_S * [*member.peers].index(member.name)
        """Until the others are asked again."""
        self.listener: socket.socket | None = None
        """At the address of the member for other members, while this node waits."""

    def waits_for(self) -> str | None:
        """Why this node may not form the etcd with the others yet; None when it may.

        Raises:
            StartError: its address cannot be listened on.
        """
        member, heard = self._member, 0
        own_url = member.peers[member.name]
        for url in member.peers.values():
            if url == own_url:
                continue
            self.answer()  # another one may be asking, and wait as long as this node does
            try:
                known = get(url, member.tls, _PATH)
                if _has_run(own_url, known):
                    self._listen()
                    return (
                        "what the etcd of this node had stored is lost: it is taken in again as "
                        "soon as most of the other nodes run"
                    )
            except FAILURES:
                continue
            heard += 1
        needed = len(member.peers) // 2
        if heard >= needed:
            self.close()
            return None
        self._listen()
        return f"etcd starts as soon as {needed} of the other nodes run; {heard} do"

    def _listen(self) -> None:
        if self.listener is not None:
            return
        member = self._member
        place = urlsplit(listening(member.peers[member.name], member.listen_host))
        host = place.hostname or ""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.listener = socket.create_server((host, place.port or 0), family=family)
        except OSError as error:
            raise StartError(
                f"{host}:{place.port}, a port of etcd, cannot be listened on ({error.strerror}): "
                "stop the process that uses it, or correct cluster.peers"
            ) from error
        self.listener.settimeout(0)

    def answer(self) -> None:
        """Tell whoever has connected, if anybody has, that there is nothing here."""
        if self.listener is None:
            return
        with suppress(OSError):
            connection, _ = self.listener.accept()
            connection.settimeout(ANSWER_S)
            with self._encrypted(connection) as speaking:
                speaking.recv(4096)
                speaking.sendall(_NOTHING)

    def _encrypted(self, connection: socket.socket) -> socket.socket:
        tls = self._member.tls
        if tls is None:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert_file, tls.key_file)
        context.load_verify_locations(tls.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            return context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            raise

    def close(self) -> None:
        """Leave the address to the etcd."""
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.close()


def _has_run(own_url: str, members: Iterable[dict[str, Any]]) -> bool:
    """Whether this node's member has run before: it has told where its clients find it."""
    return any(own_url in each.get("peerURLs", ()) and each.get("clientURLs") for each in members)
