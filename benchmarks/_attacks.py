"""What an attack is: one attempt, made over and over from several connections.

An attack is a function in one of the files `_attacks_*.py`, by what is attacked, and a line in the
list at the end of that file. `attacks.py` turns each into rows; `_attacks_client.py` makes the
attempts.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HOST: Final = "127.0.0.1"
ATTEMPT_S: Final = 30.0
"""How long an attempt waits for an answer."""
CLOSED: Final = "connection closed"
"""What an attacker sees whose connection is closed without an answer."""


@dataclass(frozen=True)
class Target:
    """The broker under attack."""

    kafka_port: int
    http_port: int
    grpc_port: int


@dataclass(frozen=True)
class Attack:
    """One way to harm a broker.

    `run` makes one attempt on connections of its own and returns what the broker answered, in a
    few words: attempts are counted by that. It runs in several threads at once and may raise
    `OSError`, which counts as a closed connection. What takes long to build is built once
    (`functools.cache`). `prepare` runs once, before the clock starts.
    """

    number: int
    name: str
    run: Callable[[Target], str]
    due: tuple[str, ...]
    """How answers may begin: the clear refusal, or an answer that does no harm."""
    prepare: Callable[[Target], None] = lambda _target: None
    flags: tuple[str, ...] = ()
    """Further flags of the broker that is attacked."""
    note: str = ""
    """What a reader of the rows has to know."""


def connect(port: int) -> socket.socket:
    """A connection of an attacker."""
    return socket.create_connection((HOST, port), timeout=ATTEMPT_S)


def send_all(sock: socket.socket, data: bytes) -> None:
    """Send everything, or as much of it as the broker takes before it closes."""
    try:
        sock.sendall(data)
    except (ConnectionError, TimeoutError):
        return


def any_closed(sockets: Iterable[socket.socket]) -> bool:
    """Whether the broker has closed one of them, with or without a word."""
    for sock in sockets:
        sock.settimeout(0)
        try:
            sock.recv(1)
        except BlockingIOError:
            continue
        except ConnectionError:
            return True
        return True
    return False
