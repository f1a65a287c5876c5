"""`goqueue cluster install-etcd`: an etcd in the user's cache.

It is unpacked and asked for its version before it takes the place of the one that was there, in
one step: a node that starts meanwhile finds either.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.server.etcd import apt
from goqueue.server.etcd.binary import (
    GOOD,
    EtcdBinary,
    EtcdError,
    cache_folder,
    cached_binary,
    checked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE: Final = "etcd-server"
_ARCHIVES: Final = (".tar.gz", ".tgz", ".tar.xz", ".tar")


def install_etcd(
    tell: Callable[[str], None], *, source: Path | None = None, again: bool = False
) -> EtcdBinary:
    """Bring an etcd into the cache; `tell` hears of each step.

    One that is good already stays, unless a file is given or it is to be done `again`.

    Raises:
        EtcdError: it cannot be brought, or does not run here, or is too old.
    """
    if source is None and not again and (present := _present()) is not None:
        tell(f"etcd {present.version} is installed already")
        return present
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as name:
            return _install(Path(name), source, tell)
    except (OSError, shutil.Error, tarfile.TarError) as error:
        raise EtcdError(
            f"etcd could not be installed into {folder} ({error}): make room or set XDG_CACHE_HOME "
            "to a folder that you may write to"
        ) from error


def _present() -> EtcdBinary | None:
    try:
        binary = checked(cached_binary())
    except EtcdError:
        return None
    return binary if binary.version >= GOOD else None


def _install(work: Path, source: Path | None, tell: Callable[[str], None]) -> EtcdBinary:
    package = apt.download(PACKAGE, work, tell) if source is None else source.absolute()
    tell(f"unpacking {package.name}")
    program = _unpacked(package, work)
    program.chmod(0o755)
    version = checked(program, package).version
    target = cached_binary()
    program.replace(target)
    tell(f"etcd {version} is in {target}")
    return EtcdBinary(target, version)


def _unpacked(package: Path, work: Path) -> Path:
    """The program out of a package or an archive; a file that is neither is the program itself."""
    if not package.is_file():
        raise EtcdError(
            f"there is no file {package}: name a Debian package, an archive of a release of etcd, "
            "or the program itself"
        )
    program = work / "etcd"
    if package.name.endswith(".deb"):
        unpacked = work / "unpacked"
        failure = apt.run(["dpkg-deb", "-x", str(package), str(unpacked)], work)
        if failure is not None:
            raise EtcdError(
                f"{package} could not be unpacked ({failure}): name a whole Debian package, or the "
                "program itself"
            )
        found = unpacked / "usr" / "bin" / "etcd"
        if not found.is_file():
            raise EtcdError(f"{package} has no usr/bin/etcd in it: name a package of {PACKAGE}")
        found.replace(program)
    elif package.name.endswith(_ARCHIVES):
        _extract(package, program)
    else:
        shutil.copyfile(package, program)
    return program


def _extract(archive: Path, program: Path) -> None:
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isfile() and Path(member.name).name == "etcd":
                content = opened.extractfile(member)
                if content is not None:
                    with program.open("wb") as out:
                        shutil.copyfileobj(content, out)
                    return
    raise EtcdError(f"{archive} has no program etcd in it: name an archive of a release of etcd")
