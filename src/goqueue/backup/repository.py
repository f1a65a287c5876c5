"""A repository of backups: its header, its key, and the backups in it.

```
repository.json                what it is, and how its key is made
backups/<id>/manifest          everything that the backup holds (encrypted if the repository is)
backups/<id>/summary           what `list` and `prune` need, never encrypted, without names
parts/<topic id>/<n>/<offset>-<id>    batches of one segment
metadata/<id>                  the keys of the metadata store
journals/<id>/<node>-<n>       parts that an unfinished backup has copied
```
"""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
from blake3 import blake3

from goqueue.backup.folder_vault import MARKER
from goqueue.backup.manifest import (
    FORMAT,
    Manifest,
    Part,
    StoredFile,
    Summary,
    check_file_name,
    decode_manifest,
    encode_manifest,
)
from goqueue.backup.sealing import (
    Encryption,
    Sealer,
    check_of,
    key_of_file,
    key_of_passphrase,
    new_encryption,
)
from goqueue.backup.vault import open_vault
from goqueue.model.errors import (
    BackupError,
    BackupKeyError,
    DamagedBackupError,
    UnknownBackupError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.backup.vault import Vault
    from goqueue.runtime.disk import Bytes

LATEST: Final = "latest"
_KIND: Final = "goqueue-backups"
_ID: Final = re.compile(r"\d{8}T\d{6}Z-\d{1,10}(?:-\d{1,4})?")
_MAX_KEY_FILE_BYTES: Final = 4096


class Secret(msgspec.Struct, frozen=True):
    """The key of a repository, as it was given; at most one of the three."""

    key_file: str | None = None
    passphrase: str | None = None
    key: str | None = None
    """In hexadecimal, as one node gives it to another."""

    @property
    def is_given(self) -> bool:
        """Whether there is any."""
        return (self.key_file or self.passphrase or self.key) is not None

    def __repr__(self) -> str:
        """Without the key: this may be in a log."""
        return "Secret(…)"


NO_SECRET: Final = Secret()


class Header(msgspec.Struct, frozen=True):
    """The first file of a repository."""

    kind: str = _KIND
    format: int = FORMAT
    encryption: Encryption | None = None


class JournalEntry(msgspec.Struct, frozen=True):
    """A part that was copied, and of what."""

    topic_id: str
    partition: int
    is_compacted: bool
    part: Part


_journal: Final = msgspec.json.Decoder(list[JournalEntry])


class Repository:
    """Backups at one destination; every call waits for it, and runs in any thread."""

    def __init__(self, destination: str, vault: Vault, header: Header, key: bytes | None) -> None:
        self.destination = destination
        self.vault = vault
        self.is_encrypted = header.encryption is not None
        self.key = key
        self._sealer = None if key is None else Sealer(key)

    @classmethod
    def open(
        cls, destination: str, data_dir: Path, secret: Secret = NO_SECRET, *, makes: bool = False
    ) -> Self:
        """The repository at a destination; made if there is none and `makes` says so.

        Without a key, an encrypted one can be listed and pruned, and not read.

        Raises:
            BackupError: there is none, or it is no repository of ours.
            BackupKeyError: the key is wrong, or given for a repository that has none.
        """
        vault = open_vault(destination, data_dir)
        found = vault.find(MARKER)
        if found is None:
            if not makes:
                raise UnknownBackupError(f"there are no backups at {destination}")
            return cls._made(destination, vault, secret)
        try:
            header = msgspec.json.decode(found, type=Header)
        except msgspec.MsgspecError as error:
            raise DamagedBackupError(f"{destination}: {MARKER} cannot be read: {error}") from error
        if header.kind != _KIND:
            raise BackupError(f"{destination} holds something else than backups of GoQueue")
        if header.format != FORMAT:
            raise UnsupportedFormatError(
                f"{destination} has format {header.format}, and this version reads {FORMAT}"
            )
        return cls(destination, vault, header, _checked_key(destination, header, secret))

    @classmethod
    def _made(cls, destination: str, vault: Vault, secret: Secret) -> Self:
        encryption = key = None
        if secret.is_given:
            encryption = new_encryption("scrypt" if secret.passphrase is not None else "file")
            key = _key_of(secret, encryption)
            encryption = msgspec.structs.replace(encryption, check=check_of(key))
        header = Header(encryption=encryption)
        vault.write(MARKER, [msgspec.json.encode(header)])
        return cls(destination, vault, header, key)

    # --- Files -----------------------------------------------------------------------------------

    def write(self, name: str, data: Iterable[Bytes], *, is_synced: bool = True) -> StoredFile:
        """Store a file, encrypted if the repository is; returns what a manifest says of it."""
        digest, size = blake3(), 0

        def counted() -> Iterator[Bytes]:
            nonlocal size
            for each in data if self._sealer is None else self._sealer.sealed(name, data):
                digest.update(each)
                size += len(each)
                yield each

        self.vault.write(name, counted(), is_synced=is_synced)
        return StoredFile(name, size, digest.hexdigest())

    def read(self, file: StoredFile) -> bytes:
        """A file as it was given to `write`.

        Raises:
            DamagedBackupError: it is missing, or not what was written.
        """
        check_file_name(file.name)
        data = self.vault.read(file.name)
        if len(data) != file.size_bytes:
            raise DamagedBackupError(
                f"{file.name} has {len(data)} bytes, expected {file.size_bytes}: it is damaged"
            )
        if blake3(data).hexdigest() != file.blake3:
            raise DamagedBackupError(f"{file.name} is damaged: its BLAKE3 does not match")
        return self._opened(file.name, data)

    def read_small(self, name: str) -> bytes | None:
        """A file that no manifest names; None when there is none."""
        data = self.vault.find(name)
        return None if data is None else self._opened(name, data)

    def _opened(self, name: str, data: bytes) -> bytes:
        self.check_key()
        return data if self._sealer is None else self._sealer.opened(name, data)

    def check_key(self) -> None:
        """Raise `BackupKeyError` when the repository is encrypted and no key was given."""
        if self.is_encrypted and self._sealer is None:
            raise BackupKeyError(
                f"{self.destination} is encrypted: give its key with --key-file or its passphrase "
                "with --passphrase-file"
            )

    # --- Backups ---------------------------------------------------------------------------------

    def finish(self, manifest: Manifest, copied_bytes: int) -> Summary:
        """Store a manifest: from this line on there is a backup."""
        summary = Summary(
            manifest.id,
            manifest.created_ms,
            manifest.version,
            manifest.is_whole,
            self.is_encrypted,
            manifest.since,
            sum(not each.is_internal for each in manifest.topics),
            manifest.log_bytes,
            copied_bytes,
            tuple(each.name for each in manifest.files()),
        )
        self.vault.write(_summary_name(manifest.id), [msgspec.json.encode(summary)])
        self.write(_manifest_name(manifest.id), [encode_manifest(manifest)])
        return summary

    def ids(self) -> list[str]:
        """The backups that are complete, the oldest first."""
        found = self.vault.sizes("backups/")
        ids = {name.split("/")[1] for name in found if name.endswith("/manifest")}
        return sorted(each for each in ids if _ID.fullmatch(each) and _summary_name(each) in found)

    def resolve(self, backup_id: str) -> str:
        """The id of a backup that there is; `latest` is the newest.

        Raises:
            UnknownBackupError: there is none.
        """
        ids = self.ids()
        if backup_id == LATEST and ids:
            return ids[-1]
        if backup_id not in ids:
            raise UnknownBackupError(
                f"there is no backup {backup_id!r} at {self.destination}: "
                f"`goqueue backup list` shows what there is"
            )
        return backup_id

    def summary(self, backup_id: str) -> Summary:
        """What is told of a backup without its key."""
        data = self.vault.read(_summary_name(backup_id))
        try:
            summary = msgspec.json.decode(data, type=Summary)
        except msgspec.MsgspecError as error:
            raise DamagedBackupError(f"the summary of {backup_id} cannot be read") from error
        for name in summary.files:
            check_file_name(name)
        return summary

    def manifest(self, backup_id: str) -> Manifest:
        """Everything that a backup holds. Raises `DamagedBackupError`, `BackupKeyError`."""
        name = _manifest_name(backup_id)
        manifest = decode_manifest(self._opened(name, self.vault.read(name)))
        if manifest.id != backup_id:
            raise DamagedBackupError(f"{name} is the manifest of {manifest.id}: it was moved")
        return manifest

    # --- Journals --------------------------------------------------------------------------------

    def note(self, backup_id: str, node: str, number: int, entries: list[JournalEntry]) -> None:
        """Make copied parts durable, and note them for whoever goes on after a crash."""
        self.vault.sync([each.part.file.name for each in entries])
        name = f"journals/{backup_id}/{node}-{number}"
        self.write(name, [msgspec.json.encode(entries)])

    def noted(self) -> list[JournalEntry]:
        """What unfinished backups have copied."""
        found: list[JournalEntry] = []
        for name in sorted(self.vault.sizes("journals/")):
            try:
                data = self.vault.find(name)
                found += [] if data is None else _journal.decode(self._opened(name, data))
            except (msgspec.MsgspecError, DamagedBackupError):
                continue  # it only saves work
        return found

    def forget_journals(self, until: str) -> None:
        """Remove the journals of a backup that is finished, and of those before it."""
        names = self.vault.sizes("journals/")
        self.vault.remove(each for each in names if each.split("/")[1] <= until)

    # --- Removing --------------------------------------------------------------------------------

    def remove(self, backup_ids: Iterable[str]) -> int:
        """Remove backups, and the files that no other one needs; returns how many files."""
        doomed = set(backup_ids)
        kept = [each for each in self.ids() if each not in doomed]
        names = [
            name for each in sorted(doomed) for name in (_manifest_name(each), _summary_name(each))
        ]
        needed = {name for each in kept for name in self.summary(each).files}
        self.vault.remove(names)
        return len(names) + self._sweep(needed, max([*kept, *doomed], default=""))

    def _sweep(self, needed: set[str], newest: str) -> int:
        """Remove files that no backup needs; what a newer one is writing now stays."""
        running = {name.split("/")[1] for name in self.vault.sizes("journals/")}
        stored = [*self.vault.sizes("parts/"), *self.vault.sizes("metadata/")]
        orphans = [
            name
            for name in stored
            if name not in needed and (owner := _owner(name)) <= newest and owner not in running
        ]
        self.vault.remove(orphans)
        return len(orphans)


def part_name(topic_id: str, partition: int, first_offset: int, backup_id: str) -> str:
    """The name of a part; the backup that has copied it is named last."""
    return f"parts/{topic_id}/{partition}/{first_offset:020d}-{backup_id}"


def metadata_name(backup_id: str) -> str:
    """The name of the file with the keys of the metadata store."""
    return f"metadata/{backup_id}"


def _owner(name: str) -> str:
    last = name.rpartition("/")[2]
    return last.partition("-")[2] if name.startswith("parts/") else last


def _manifest_name(backup_id: str) -> str:
    return f"backups/{backup_id}/manifest"


def _summary_name(backup_id: str) -> str:
    return f"backups/{backup_id}/summary"


def _key_of(secret: Secret, encryption: Encryption) -> bytes:
    if secret.key is not None:
        return bytes.fromhex(secret.key)
    if secret.passphrase is not None:
        return key_of_passphrase(secret.passphrase, encryption)
    path = Path(secret.key_file or "")
    try:
        with path.open("rb") as file:
            return key_of_file(file.read(_MAX_KEY_FILE_BYTES))
    except OSError as error:
        raise BackupKeyError(
            f"the key file {path} cannot be read at the server: {error.strerror or error}"
        ) from error


def _checked_key(destination: str, header: Header, secret: Secret) -> bytes | None:
    encryption = header.encryption
    if encryption is None:
        if secret.is_given:
            raise BackupKeyError(
                f"{destination} is not encrypted: leave out the key, or choose another destination "
                "for encrypted backups"
            )
        return None
    if not secret.is_given:
        return None
    key = _key_of(secret, encryption)
    if not hmac.compare_digest(check_of(key), encryption.check):
        raise BackupKeyError(f"the key or passphrase is not the one of {destination}")
    return key
