"""The one broker that the targets with a network share, and whether it is still well."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.server import ServerProcess

TOPIC: Final = "fuzzed"
WAIT_S: Final = 60.0
"""How long an answer is waited for: longer than any time that the broker gives a client."""

_servers: Final[list[ServerProcess]] = []
_seen_lines = 0


class FindingError(AssertionError):
    """An input that the broker did not take well."""


def broker() -> ServerProcess:
    """A running broker, started with the first call."""
    if not _servers:
        folder = Path(tempfile.mkdtemp(prefix="goqueue-fuzz-"))
        _servers.append(ServerProcess(folder).start())
    return _servers[0]


def expect_well() -> None:
    """The broker runs, answers, and has reported no exception since the last look."""
    global _seen_lines
    if not _servers:
        return
    server = _servers[0]
    try:
        status, _ = server.get("/healthz")
    except OSError as error:
        raise FindingError(
            f"the broker is gone: {error!r}\n" + "\n".join(server.log[-50:])
        ) from error
    if status != 200:
        raise FindingError(f"the broker answers /healthz with {status}")
    new, _seen_lines = server.log[_seen_lines:], len(server.log)
    if any("Traceback" in line for line in new):
        raise FindingError("the broker reported an exception:\n" + "\n".join(new[-80:]))


def close() -> None:
    """End the broker, if there is one."""
    while _servers:
        server = _servers.pop()
        with suppress(OSError):
            server.close()
