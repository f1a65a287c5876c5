"""What a backup holds: every file of it, with its size and its BLAKE3, by topic and partition.

A manifest names everything that a restore needs, also what earlier backups have copied: each
backup stands for itself, and removing one never takes something from another.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from blake3 import blake3

from goqueue.model.errors import DamagedBackupError, UnsupportedFormatError

FORMAT: Final = 1
_HEAD: Final = b"goqueue-backup "
_NAME: Final = re.compile(r"(?:parts|metadata|backups|journals)(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
_MAX_NAME: Final = 400


class StoredFile(msgspec.Struct, frozen=True):
    """One file in the repository, as it is stored."""

    name: str
    size_bytes: int
    blake3: str


class Part(msgspec.Struct, frozen=True):
    """Whole batches of one segment of a partition, byte for byte."""

    file: StoredFile
    first_offset: int
    """Where reading began; the first batch may begin before it, or behind it in a compacted log."""
    end_offset: int
    log_bytes: int
    """How many bytes of the log those are; the file is larger where it is encrypted."""
    segment: int
    """The base offset of the segment that they lie in."""
    last_base_offset: int
    last_position: int
    last_crc: int
    """Of the last batch: while the log has it, it has everything before."""


class PartitionCopy(msgspec.Struct, frozen=True):
    """One partition."""

    number: int
    log_start: int
    end_offset: int
    """Everything before was committed at the moment of the backup."""
    parts: tuple[Part, ...] = ()
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges of offsets that were damaged on the disk already, and are not in the backup."""


class TopicCopy(msgspec.Struct, frozen=True):
    """One topic."""

    name: str
    topic_id: str
    overrides: dict[str, str]
    is_internal: bool
    is_compacted: bool
    partitions: tuple[PartitionCopy, ...]


class Manifest(msgspec.Struct, frozen=True):
    """One backup."""

    id: str
    created_ms: int
    """The moment: what was committed before it is in the backup."""
    version: str
    """Of the broker."""
    cluster_id: str
    topics: tuple[TopicCopy, ...]
    is_whole: bool
    """With coordinator state and metadata; otherwise only the data of some topics."""
    metadata: StoredFile | None = None
    since: str | None = None
    """The backup that it was compared with."""
    format: int = FORMAT

    def files(self) -> list[StoredFile]:
        """Everything that a restore reads."""
        parts = [
            part.file
            for topic in self.topics
            for partition in topic.partitions
            for part in partition.parts
        ]
        return parts if self.metadata is None else [*parts, self.metadata]

    @property
    def log_bytes(self) -> int:
        """The size of all partitions."""
        return sum(
            part.log_bytes
            for topic in self.topics
            for partition in topic.partitions
            for part in partition.parts
        )


class Summary(msgspec.Struct, frozen=True):
    """What is told of a backup without its key, and which files are its own."""

    id: str
    created_ms: int
    version: str
    is_whole: bool
    is_encrypted: bool
    since: str | None
    topic_count: int
    total_bytes: int
    copied_bytes: int
    """Of those that this backup has copied; the rest was there."""
    files: tuple[str, ...]


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest with a checksum of its own before it."""
    body = msgspec.json.encode(manifest)
    return _HEAD + blake3(body).hexdigest().encode() + b"\n" + body


def decode_manifest(data: bytes) -> Manifest:
    """The manifest in some bytes.

    Raises:
        DamagedBackupError: they are not what was written, or name files outside of the repository.
        UnsupportedFormatError: a later version wrote them.
    """
    head, _, body = data.partition(b"\n")
    if not head.startswith(_HEAD):
        raise DamagedBackupError("the manifest does not begin as one does: it is damaged")
    if blake3(body).hexdigest().encode() != head.removeprefix(_HEAD):
        raise DamagedBackupError("the manifest is damaged: its checksum does not match")
    try:
        if (found := msgspec.json.decode(body).get("format")) != FORMAT:
            raise UnsupportedFormatError(
                f"the backup has format {found}, and this version reads {FORMAT}: restore it with "
                "the version that made it"
            )
        manifest = msgspec.json.decode(body, type=Manifest)
    except (msgspec.MsgspecError, AttributeError) as error:
        raise DamagedBackupError(f"the manifest cannot be read: {error}") from error
    for file in manifest.files():
        check_file_name(file.name)
    return manifest


def check_file_name(name: str) -> None:
    """Raise `DamagedBackupError` for a name that no file of a repository has."""
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name) or ".." in name:
        shown = name if len(name) <= 80 else name[:80] + "…"
        raise DamagedBackupError(
            f"the backup names a file {shown!r}, which cannot be one of its own: the manifest was "
            "changed; nothing was read"
        )
