"""Before a node starts: whether another one runs under its number.

Two etcds that both take themselves for the same member could vote twice. So nothing is started
while somebody answers at the address that the list of peers has for this node.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

from goqueue.server.config_cluster import ETCD_PEER_PORT
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from goqueue.server.config import Config

_ANSWER_S: Final = 1.0
_TRIES: Final = 15
_TRY_S: Final = 0.2
"""An etcd whose supervisor was killed dies with it, a moment later."""
_QUESTION: Final = b"GET /version HTTP/1.0\r\n\r\n"
"""An etcd answers in HTTP, also that it would have liked to be asked with TLS."""


def check_sole(config: Config) -> None:
    """Refuse to start beside another node with the same number.

    Raises:
        StartError: one answers, and still does after a while.
    """
    host, port = config.cluster.addresses[config.broker_id - 1]
    for _ in range(_TRIES):
        if not _answers(host, port + ETCD_PEER_PORT):
            return
        time.sleep(_TRY_S)
    raise StartError(
        f"node {config.broker_id} runs already: an etcd answers at {host}:{port + ETCD_PEER_PORT}, "
        f"which belongs to this node in cluster.peers: stop that one, or start this one with its "
        "own --node-id"
    )


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S) as connection:
            connection.sendall(_QUESTION)
            return connection.recv(16).startswith(b"HTTP/")
    except OSError:
        return False
