"""Which process listens on a port, where the system tells."""

from __future__ import annotations

import contextlib
import errno
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.cli.doctor.findings import Finding, failure, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTEN: Final = "0A"
_MAX_PROCESSES: Final = 20_000
"""Of more processes the owner of a port is not looked for."""
_MAX_NAME: Final = 60


def check_port(name: str, host: str, port: int, server: str | None) -> Finding:
    """Whether a listener could be opened, or whose the port is.

    `server` is the process of the server that commands talk to, if that runs on this machine; the
    empty text if it cannot be seen which.
    """
    check = f"port {port} ({name})"
    if port == 0:
        return ok(check, "any free port")
    try:
        taken = is_taken(host, port)
    except OSError as error:
        advice = f"change listeners.{name}: this machine cannot listen on {host}"
        return failure(check, f"{host}: {error.strerror or error}", advice)
    if not taken:
        if server is not None:
            return warning(check, "free", f"the server has another listeners.{name}: see its log")
        return ok(check, "free")
    owner = owner_of(port)
    if server is not None and owner in {server, None}:
        return ok(check, f"in use by the server, {owner}" if owner else "in use")
    advice = f"stop it, or start the server with --{name}-port"
    found = f"in use by {owner or 'another process, which only its user or root can see'}"
    return (failure if server is None else warning)(check, found, advice)


def is_taken(host: str, port: int) -> bool:
    """Whether nobody else could listen there.

    Raises:
        OSError: it cannot be told: the address is none of this machine, or the port needs root.
    """
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise
    return False


def owner_of(port: int) -> str | None:
    """The process that listens on a port, as `goqueue server (pid 7)`; None if it is unknown."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not wanted:
        return None
    for folder in _process_folders():
        with contextlib.suppress(OSError):
            for each in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(each.readlink()) in wanted:
                        return f"{_command_of(folder)} (pid {folder.name})"
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _process_folders() -> list[Path]:
    try:
        found = [each for each in Path("/proc").iterdir() if each.name.isdigit()]
    except OSError:
        return []
    return found[:_MAX_PROCESSES]


def _command_of(folder: Path) -> str:
    """The program and its first words; options may hold secrets and are left out."""
    words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    said = []
    for each in words:
        if each.startswith("--") or not each:
            break
        said.append(Path(each).name if each.startswith("/") else each)
    return " ".join(said)[:_MAX_NAME] or "a process"
