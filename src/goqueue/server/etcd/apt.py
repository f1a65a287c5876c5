"""A package of Debian's, fetched with an apt of our own: no root, nothing installed or started.

State, cache, configuration and source list are in a folder that is removed afterwards. The mirror
and the proxy are those that the machine's own apt uses. The signature is checked against Debian's
keyring; a mirror that lags, so that its signed date has passed, is tolerated.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.server.etcd.binary import EtcdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

APT_FOLDER: Final = Path("/etc/apt")
SUITES: Final = ("forky", "sid")
"""Debian testing, then unstable: the releases before them have an etcd that is refused."""
KEYRINGS: Final = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)

_STEP_TIMEOUT_S: Final = 300.0
_MAX_MIRRORS: Final = 4
"""Of the sources of a machine, the likeliest first; further ones are not asked."""
_FROM_FILE: Final = "download it elsewhere and run `goqueue cluster install-etcd --from FILE`"
_OPTIONS: Final = re.compile(r"\[[^\]]*\]")
_KEPT_SETTINGS: Final = re.compile(r"^Acquire::(?:https?|ForceIPv[46]|Retries)\b.*;$")
"""How the machine reaches its mirrors: proxies, timeouts."""


def mirrors(apt_folder: Path = APT_FOLDER) -> list[str]:
    """Debian's archive as the machine's sources name it, the likeliest first."""
    found = dict.fromkeys(
        uri.rstrip("/")
        for uri, suite in _sources(apt_folder)
        if not (suite.endswith(("-security", "/updates")) or uri.startswith("cdrom:"))
    )
    return sorted(found, key=lambda uri: "debian" not in uri.rpartition("/")[2])[:_MAX_MIRRORS]


def _sources(apt_folder: Path) -> Iterator[tuple[str, str]]:
    """URI and suite of every source of binary packages, of both formats."""
    parts = apt_folder / "sources.list.d"
    for path in [apt_folder / "sources.list", *sorted(parts.glob("*.list"))]:
        for line in _lines(path):
            words = _OPTIONS.sub(" ", line.partition("#")[0]).split()
            if len(words) > 3 and words[0] == "deb" and "main" in words[3:]:
                yield words[1], words[2]
    for path in sorted(parts.glob("*.sources")):
        for fields in _paragraphs(_lines(path)):
            is_off = fields.get("enabled", "yes").lower() in {"no", "false", "0", "off"}
            if is_off or "deb" not in fields.get("types", "").split():
                continue
            if "main" in fields.get("components", "").split():
                suites = fields.get("suites", "").split()
                yield from ((uri, at) for uri in fields.get("uris", "").split() for at in suites)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Fields by their lower-case names; a line that begins with a space goes on with the last."""
    fields: dict[str, str] = {}
    name = ""
    for line in [*lines, ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0].isspace():
            if name:
                fields[name] += f" {line.strip()}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()


def download(package: str, folder: Path, tell: Callable[[str], None]) -> Path:
    """The newest `package` of Debian testing as a file in `folder`.

    Raises:
        EtcdError: this machine has no apt or keyring of Debian's, or no mirror has the package.
    """
    keyring = next((path for path in KEYRINGS if path.is_file()), None)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None or keyring is None:
        raise EtcdError(
            f"{package} comes from Debian's archive, and this machine lacks apt-get, dpkg-deb or "
            f"Debian's keyring ({KEYRINGS[0]}): install apt and debian-archive-keyring, or "
            f"{_FROM_FILE}"
        )
    uris = mirrors()
    if not uris:
        raise EtcdError(
            f"no mirror of Debian's archive is named in {APT_FOLDER}/sources.list or "
            f"sources.list.d: add one, or {_FROM_FILE}"
        )
    problems = []
    for suite in SUITES:
        for uri in uris:
            tell(f"asking {uri} for {package} of {suite}")
            fetched = _fetch(package, folder, f"deb [signed-by={keyring}] {uri} {suite} main\n")
            if isinstance(fetched, Path):
                return fetched
            problems.append(f"{uri} {suite}: {fetched}")
    raise EtcdError(
        f"{package} could not be downloaded ({'; '.join(problems)}): check the network and the "
        f"mirrors in {APT_FOLDER}, or {_FROM_FILE}"
    )


def _fetch(package: str, folder: Path, source: str) -> Path | str:
    """The package, or in one line why there is none."""
    configuration = _prepare(folder, source)
    environ = os.environ | {"APT_CONFIG": str(configuration), "LC_ALL": "C.UTF-8"}
    for command in (["apt-get", "-q", "update"], ["apt-get", "-q", "download", package]):
        failure = run(command, folder, environ)
        if failure is not None:
            return failure
    found = sorted(folder.glob(f"{package}_*.deb"))
    return found[-1] if found else "apt-get stored no file"


def _prepare(folder: Path, source: str) -> Path:
    """Write apt's own configuration and its empty state; what an attempt left is removed."""
    for name in ("state", "cache"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "state" / "lists" / "partial").mkdir(parents=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True)
    (folder / "status").write_text("")
    (folder / "sources.list").write_text(source)
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none",
        # Mirrors lag: the date until which a list of packages is signed may have passed.
        "Acquire::Check-Valid-Until": "false",
        "APT::Update::Error-Mode": "any",
        # As root apt would become a user who may not write into this folder.
        "APT::Sandbox::User": "root",
    }
    lines = [*_kept_settings(), *(f'{name} "{value}";' for name, value in settings.items())]
    path = folder / "apt.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def _kept_settings() -> list[str]:
    asked = subprocess.run(
        ["apt-config", "dump"],  # noqa: S607 - found on the PATH, as apt-get is
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_STEP_TIMEOUT_S,
        check=False,
    )
    return [line for line in asked.stdout.splitlines() if _KEPT_SETTINGS.match(line)]


def run(command: list[str], folder: Path, environ: dict[str, str] | None = None) -> str | None:
    """Run a step of the installation; in one line why it failed, None when it did not."""
    try:
        done = subprocess.run(  # noqa: S603 - apt's and dpkg's own programs
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_STEP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    told = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in told if line.startswith("E: ")]
    return (errors or told or [f"{command[0]} ended with {done.returncode}"])[0].strip()
