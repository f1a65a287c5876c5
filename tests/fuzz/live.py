"""The brokers that the targets with a network share, and whether they are still well."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.server import ServerProcess

TOPIC: Final = "fuzzed"
WAIT_S: Final = 60.0
"""How long an answer is waited for: longer than any time that the broker gives a client."""

_servers: Final[dict[tuple[str, ...], ServerProcess]] = {}
_seen_lines: Final[dict[tuple[str, ...], int]] = {}


class FindingError(AssertionError):
    """An input that the broker did not take well."""


def broker(*flags: str, environment: dict[str, str] | None = None) -> ServerProcess:
    """A running broker with these flags, started with the first call."""
    if flags not in _servers:
        folder = Path(tempfile.mkdtemp(prefix="goqueue-fuzz-"))
        _servers[flags] = ServerProcess(folder, *flags, environment=environment).start()
        _seen_lines[flags] = 0
    return _servers[flags]


def expect_well() -> None:
    """Every broker runs, answers, and has reported no exception since the last look."""
    for flags, server in _servers.items():
        _expect_well(flags, server)


def _expect_well(flags: tuple[str, ...], server: ServerProcess) -> None:
    try:
        status, _ = server.get("/healthz")
    except OSError as error:
        raise FindingError(
            f"the broker is gone: {error!r}\n" + "\n".join(server.log[-50:])
        ) from error
    if status != 200:
        raise FindingError(f"the broker answers /healthz with {status}")
    new, _seen_lines[flags] = server.log[_seen_lines[flags] :], len(server.log)
    if any("Traceback" in line for line in new):
        raise FindingError("the broker reported an exception:\n" + "\n".join(new[-80:]))


def close() -> None:
    """End every broker."""
    while _servers:
        _, server = _servers.popitem()
        with suppress(OSError):
            server.close()
