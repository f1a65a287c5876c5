"""The archive of a bundle: every file redacted, and a list of them."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.cli.debug.collecting import Part
    from goqueue.cli.debug.redaction import Redactor

_MAX_FILE_CHARS: Final = 16 << 20
"""A longer file of the bundle is cut, and its entry in the list says so."""


class BundledFile(NamedTuple):
    """A file of the bundle as the list has it."""

    file: str
    size_bytes: int
    note: str | None = None


def write_bundle(path: Path, parts: Iterable[Part], redactor: Redactor) -> list[BundledFile]:
    """Write the archive as a whole, readable only by its owner; returns what is in it.

    Raises:
        CliError: it cannot be written.
    """
    folder = path.stem.removesuffix(".tar")
    entries: list[BundledFile] = []
    try:
        # mkstemp makes it 0600 before anything is in it.
        descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with (
                os.fdopen(descriptor, "wb") as file,
                tarfile.open(fileobj=file, mode="w:gz") as tar,
            ):
                entries.extend(_add(tar, folder, part, redactor) for part in parts)
                manifest = {"redacted": redactor.count, "files": [e._asdict() for e in entries]}
                _put(tar, f"{folder}/manifest.json", json.dumps(manifest, indent=2))
            Path(made).replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(made).unlink()
            raise
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}") from error
    return entries


def _add(tar: tarfile.TarFile, folder: str, part: Part, redactor: Redactor) -> BundledFile:
    if part.error is not None:
        return BundledFile(part.name, 0, f"missing: {redactor.text(part.error)}")
    text, note = _text(part.content, redactor), None
    if len(text) > _MAX_FILE_CHARS:
        text, note = text[:_MAX_FILE_CHARS], f"cut after {_MAX_FILE_CHARS} characters"
    return BundledFile(part.name, _put(tar, f"{folder}/{part.name}", text), note)


def _text(content: Any, redactor: Redactor) -> str:
    if isinstance(content, str):
        return redactor.text(content)
    return json.dumps(redactor.data(content), indent=2, ensure_ascii=False, default=str)


def _put(tar: tarfile.TarFile, name: str, text: str) -> int:
    data = text.encode(errors="replace")
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    tar.addfile(info, io.BytesIO(data))
    return len(data)
