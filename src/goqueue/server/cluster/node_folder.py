"""Whose the data folder is, and whether everything is in it that was there when it was last used.

`node.json` says which node of which cluster the folder belongs to. A *clean* start is one after
which this node has all that it had acknowledged: the last run ended in order (`clean-stop`), or the
machine has not been started since, so that its page cache still has what was not synced.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from goqueue.model.errors import ClusterMismatchError
from goqueue.runtime.disk import replace_file
from goqueue.server.errors import StartError
from goqueue.server.folder import METADATA_FILE, NODE_FILE

if TYPE_CHECKING:
    from goqueue.runtime.disk import Disk

CLEAN_STOP_FILE: Final = "clean-stop"
BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


class FolderIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `node.json` says."""

    cluster_id: str
    node_id: int
    folder_id: str
    boot_id: str = ""
    """Of the machine, in the run that used the folder last."""
    is_unclean: bool = False
    """Something may be missing, and this node may still be counted on for it: so it is until the
    node has been struck from every in-sync set."""


class NodeFolder:
    """The data folder of a node of a cluster."""

    def __init__(self, path: Path, disk: Disk, boot_id_file: Path = BOOT_ID_FILE) -> None:
        self._path = path
        self._disk = disk
        self._boot_id_file = boot_id_file
        self._is_doubted = False
        self._doubting = threading.Lock()

    @property
    def boot_id(self) -> str:
        """Another one after each start of the machine; empty where there is none."""
        with suppress(OSError):
            return self._boot_id_file.read_text(encoding="ascii").strip()
        return ""

    def load(self, node_id: int) -> FolderIdentity | None:
        """Whose the folder is; None of one that is new.

        Raises:
            StartError: it belongs to another node, or to a server that runs on its own.
        """
        file = self._path / NODE_FILE
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            if (self._path / METADATA_FILE).exists():
                raise StartError(
                    f"the data folder {self._path} belongs to a server that runs on its own: start "
                    "the cluster with another --data-dir, and copy topics with `goqueue consume` "
                    "and `goqueue produce`"
                ) from None
            return None
        except OSError as error:
            raise StartError(f"{file} cannot be read: {error.strerror}") from error
        try:
            identity = msgspec.json.decode(data, type=FolderIdentity)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StartError(
                f"{file} does not say whose folder this is ({error}): restore it, or start with "
                "an empty --data-dir, which is filled from the other nodes"
            ) from error
        if identity.node_id != node_id:
            raise StartError(
                f"the data folder {self._path} belongs to node {identity.node_id} and this is node "
                f"{node_id}: use the folder of node {node_id}, or start as node {identity.node_id}"
            )
        return identity

    def identify(
        self, known: FolderIdentity | None, cluster_id: str, node_id: int
    ) -> FolderIdentity:
        """What the folder is to this run; nothing is written.

        Raises:
            ClusterMismatchError: it belongs to another cluster.
        """
        if known is not None and known.cluster_id != cluster_id:
            raise ClusterMismatchError(
                f"the data folder {self._path} belongs to cluster {known.cluster_id!r} and the "
                f"metadata to cluster {cluster_id!r}: check cluster.peers and --data-dir"
            )
        boot_id = self.boot_id
        if known is None:
            # The node may have had another folder before: what was in that one is missing here.
            return FolderIdentity(cluster_id, node_id, uuid.uuid4().hex, boot_id, is_unclean=True)
        same_boot = bool(boot_id) and boot_id == known.boot_id
        is_whole = same_boot or (self._path / CLEAN_STOP_FILE).exists()
        return replace(known, boot_id=boot_id, is_unclean=known.is_unclean or not is_whole)

    def take(self, identity: FolderIdentity) -> None:
        """Use the folder in this run. Returns when that is durable: nothing is appended before."""
        self._write(identity)
        marker = self._path / CLEAN_STOP_FILE
        if marker.exists():
            self._disk.remove(marker)
            self._disk.sync_folder(self._path)

    def settle(self, identity: FolderIdentity) -> None:
        """Note that nobody counts on this node any more for what may be missing."""
        if identity.is_unclean or self._is_doubted:
            self._write(replace(identity, is_unclean=False))
            self._is_doubted = False

    def doubt(self, identity: FolderIdentity) -> None:
        """Note that something is missing: a log is cut, and the next start would not see that.

        Returns when that is durable; by any thread.
        """
        with self._doubting:
            if not self._is_doubted:
                self._write(replace(identity, is_unclean=True))
                self._is_doubted = True

    def mark_clean(self) -> None:
        """Note that the run has ended in order, after all logs were closed."""
        replace_file(self._disk, self._path / CLEAN_STOP_FILE, b"")

    def _write(self, identity: FolderIdentity) -> None:
        replace_file(self._disk, self._path / NODE_FILE, msgspec.json.encode(identity))
