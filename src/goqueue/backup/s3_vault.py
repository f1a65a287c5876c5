# ruff: noqa: D102 - `Vault` says what each call promises
"""A vault in an S3 bucket; credentials and region come from the server's environment (`AWS_*`)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goqueue.backup.manifest import check_file_name
from goqueue.model.errors import BackupError, BackupUnavailableError, DamagedBackupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.runtime.disk import Bytes


class S3Vault:
    """Objects under a prefix of a bucket."""

    def __init__(self, destination: str) -> None:
        """Use a bucket; `AWS_ENDPOINT_URL` names another server than Amazon's.

        Raises:
            BackupError: the extra is not installed, or the destination names no bucket.
        """
        try:
            import obstore  # noqa: PLC0415 - an extra
            from obstore.exceptions import BaseError, NotFoundError  # noqa: PLC0415 - an extra
            from obstore.store import S3Store  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise BackupError(
                "backups in S3 need an extra: install it with `pip install 'goqueue[s3]'`"
            ) from error
        self._obstore: Any = obstore
        self._errors = BaseError
        self._missing = (NotFoundError, FileNotFoundError)
        self._destination = destination.rstrip("/")
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        options = {"client_options": {"allow_http": True}} if plain else {}
        with self._told():
            self._store: Any = S3Store.from_url(self._destination, **options)  # type: ignore[arg-type]  # its options are a TypedDict

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._missing:
            raise
        except self._errors as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BackupUnavailableError(
                f"{self._destination}: {text}; check the bucket, and AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL of the server"
            ) from error

    def write(self, name: str, data: Iterable[Bytes], *, is_synced: bool = True) -> None:  # noqa: ARG002 - it always is
        with self._told():
            self._obstore.put(self._store, _checked(name), b"".join(data))

    def sync(self, names: Iterable[str]) -> None:
        """What S3 has taken is durable."""

    def find(self, name: str) -> bytes | None:
        try:
            with self._told():
                found = self._obstore.get(self._store, _checked(name))
                return bytes(found.bytes())
        except self._missing:
            return None

    def read(self, name: str) -> bytes:
        data = self.find(name)
        if data is None:
            raise DamagedBackupError(f"{self._destination}/{name} is missing")
        return data

    def sizes(self, prefix: str) -> dict[str, int]:
        with self._told():
            return {
                each["path"]: each["size"]
                for page in self._obstore.list(self._store, prefix.rstrip("/"))
                for each in page
            }

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                with self._told():
                    self._obstore.delete(self._store, _checked(name))
            except self._missing:
                continue


def _checked(name: str) -> str:
    if name != "repository.json":
        check_file_name(name)
    return name
