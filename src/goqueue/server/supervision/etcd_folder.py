"""The folder of one member of etcd, which belongs to one node of one cluster."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

from goqueue.runtime.disk import FILE_MODE, FOLDER_MODE, translate
from goqueue.server.errors import StartError
from goqueue.server.folder import MEMBER_FILE

if TYPE_CHECKING:
    from pathlib import Path


class EtcdFolder:
    """Where one member keeps everything: `<data>/etcd`."""

    NEEDED_BYTES: ClassVar[int] = 64 * 1024 * 1024
    """What etcd allocates for the next file of its log; with less it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.log_file = path / "etcd.log"

    @property
    def is_empty(self) -> bool:
        """Whether no member has ever run here, or what it had stored is lost."""
        return not any((self.data / "member" / "wal").glob("*.wal"))

    def free_bytes(self) -> int:
        """Of the disk."""
        return shutil.disk_usage(self.path).free

    def claim(self, identity: dict[str, Any]) -> None:
        """Make the folder for this member, or check that it is this member's.

        Raises:
            StartError: it is of another cluster, or of one with other nodes.
            DiskError: it cannot be made or written.
        """
        file = self.path.parent / MEMBER_FILE
        try:
            self.data.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self.data.chmod(FOLDER_MODE)
            stored = _read(file)
            if stored is None:
                _write(file, json.dumps(identity))
        except OSError as error:
            raise translate(error, "preparing the folder of etcd", self.path) from error
        for key, what in (("cluster", "cluster"), ("member", "node"), ("peers", "nodes")):
            if stored is not None and stored.get(key) != identity[key]:
                raise StartError(
                    f"the etcd in {self.path} belongs to the {what} {_shown(stored.get(key))}, "
                    f"and the settings say {_shown(identity[key])}: use the settings that it was "
                    "made with, or another --data-dir"
                )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StartError(
            f"{file} is damaged: delete it, if the folder around it is this node's"
        ) from error
    return found if isinstance(found, dict) else {}


def _write(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(file)
