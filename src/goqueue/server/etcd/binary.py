"""Which etcd runs: where it is found, and whether its version is fit for a cluster.

The first of these that there is: the file that the setting names, the one that `goqueue cluster
install-etcd` put into the user's cache, `etcd` on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION_TIMEOUT_S: Final = 20.0
_VERSION: Final = re.compile(r"^etcd Version: (\d+)\.(\d+)\.(\d+)", re.MULTILINE)

INSTALL_HINT: Final = (
    "run `goqueue cluster install-etcd`, or name a binary with cluster.etcd_binary"
)


class EtcdError(StartError):
    """There is no etcd that a cluster could run on."""


class EtcdVersion(NamedTuple):
    """A version as etcd counts them."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def has_feature_gates(self) -> bool:
        """Whether flags that were experimental in 3.5 have the names of 3.6."""
        return self >= EtcdVersion(3, 6, 0)


OLDEST: Final = EtcdVersion(3, 5, 16)
"""Older ones are refused: 3.5.0 to 3.5.2 corrupt data, 3.4 loses events of watches."""
GOOD: Final = EtcdVersion(3, 5, 28)
"""Older ones are used with a warning."""


_NEXT_MAJOR: Final = EtcdVersion(4, 0, 0)


class EtcdBinary(NamedTuple):
    """A program that runs on this machine, fit for a cluster."""

    path: Path
    version: EtcdVersion

    @property
    def warning(self) -> str | None:
        """What is to be said about it; None when all is well."""
        if self.version >= GOOD:
            return None
        return (
            f"etcd {self.version} in {self.path} has known bugs that {GOOD} and newer have not: "
            "run `goqueue cluster install-etcd` and restart the node"
        )


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where the user's own etcd is kept."""
    variables = os.environ if environ is None else environ
    given = variables.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "goqueue" / "etcd"


def cached_binary(environ: Mapping[str, str] | None = None) -> Path:
    """The program in that folder, whether it is there or not."""
    return cache_folder(environ) / "etcd"


def find_etcd(named: str | None = None, environ: Mapping[str, str] | None = None) -> EtcdBinary:
    """The etcd that a node runs.

    Raises:
        EtcdError: there is none, it does not run here, or it is too old.
    """
    return checked(_place(named, os.environ if environ is None else environ))


def _place(named: str | None, environ: Mapping[str, str]) -> Path:
    if named:
        given = Path(named).expanduser()
        if not given.is_file():
            raise EtcdError(
                f"cluster.etcd_binary names {named}, which is no file: correct the path, or leave "
                "the setting out and run `goqueue cluster install-etcd`"
            )
        return given
    cached = cached_binary(environ)
    if cached.is_file():
        return cached
    found = shutil.which("etcd", path=environ.get("PATH"))
    if found is None:
        raise EtcdError(
            f"etcd was not found, neither in {cached} nor on the PATH; a cluster needs {OLDEST} or "
            f"newer: {INSTALL_HINT}"
        )
    return Path(found)


def checked(path: Path, source: Path | None = None) -> EtcdBinary:
    """That program, asked for its version; errors name the file that it came from.

    Raises:
        EtcdError: it does not run here, or its version is refused.
    """
    shown = source or path
    binary = EtcdBinary(path, _version_of(path, shown))
    if not OLDEST <= binary.version < _NEXT_MAJOR:
        raise EtcdError(
            f"etcd in {shown} is version {binary.version}, expected {OLDEST} or newer and below "
            f"{_NEXT_MAJOR}: {INSTALL_HINT}"
        )
    return binary


def _version_of(path: Path, shown: Path) -> EtcdVersion:
    try:
        asked = subprocess.run(  # noqa: S603 - the operator's own choice of a program
            [path.absolute(), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            env=etcd_environment(os.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer in {_VERSION_TIMEOUT_S:.0f} s"
        raise EtcdError(f"{shown} does not run here ({reason}): {INSTALL_HINT}") from error
    match = _VERSION.search(asked.stdout)
    if match is None:
        told = (asked.stderr or asked.stdout).strip().splitlines()
        said = told[0] if told else f"exit code {asked.returncode}"
        raise EtcdError(f"{shown} did not tell a version of etcd ({said}): {INSTALL_HINT}")
    major, minor, patch = (int(part) for part in match.groups())
    return EtcdVersion(major, minor, patch)


def etcd_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for an etcd: without those by which its flags could be set behind our back."""
    return {name: value for name, value in environ.items() if not name.startswith("ETCD_")}
