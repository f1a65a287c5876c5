"""Encryption of the files of a backup: AES-256-GCM in frames, with a key for each file.

A file begins with a random salt, from which and from the repository's key its own key is derived.
Frames are numbered, and the last says that it is: a frame that is changed, moved, left out or cut
off does not decrypt, nor does a file under the name of another.

```
 0  magic  4 bytes  "GQB1"        20  length of a frame, u32; the highest bit marks the last
 4  salt  16 bytes                24  the frame: ciphertext and a tag of 16 bytes
```
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model.errors import BackupError, BackupKeyError, DamagedBackupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.runtime.disk import Bytes

KEY_BYTES: Final = 32
_MAGIC: Final = b"GQB1"
_SALT_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">I")
_LAST: Final = 1 << 31
_TAG_BYTES: Final = 16
_FRAME_BYTES: Final = 4 * 1024 * 1024
"""What is encrypted at once; a larger piece is cut."""
_CHECKED: Final = b"goqueue backup key check"
_SCRYPT_N: Final = 1 << 15
_SCRYPT_R: Final = 8
_SCRYPT_P: Final = 1
_SCRYPT_MEMORY: Final = 128 * 1024 * 1024


class Encryption(msgspec.Struct, frozen=True):
    """What a repository says of its key: how it is made, and how a wrong one is told."""

    salt: str
    check: str
    kdf: str
    """`scrypt` of a passphrase, or `file`."""
    n: int = _SCRYPT_N
    r: int = _SCRYPT_R
    p: int = _SCRYPT_P


def key_of_file(content: bytes) -> bytes:
    """The key in a key file: 32 bytes, 64 hexadecimal digits, or base64.

    Raises:
        BackupKeyError: it is none of them.
    """
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    for decode in (bytes.fromhex, lambda each: base64.b64decode(each, validate=True)):
        try:
            key = decode(text.decode("ascii"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    raise BackupKeyError(
        "the key file does not hold a key: expected 32 bytes, 64 hexadecimal digits or base64 of "
        "32 bytes, as `openssl rand -hex 32` writes them"
    )


def key_of_passphrase(passphrase: str, encryption: Encryption) -> bytes:
    """The key that a passphrase stands for in a repository; it takes a tenth of a second."""
    return hashlib.scrypt(
        passphrase.encode(),
        salt=bytes.fromhex(encryption.salt),
        n=encryption.n,
        r=encryption.r,
        p=encryption.p,
        maxmem=_SCRYPT_MEMORY,
        dklen=KEY_BYTES,
    )


def new_encryption(kdf: str) -> Encryption:
    """Of a repository that is new; its key is not checked yet."""
    return Encryption(secrets.token_hex(_SALT_BYTES), "", kdf)


def check_of(key: bytes) -> str:
    """What a repository keeps of its key: nothing that would help to guess it faster."""
    return hmac.new(key, _CHECKED, hashlib.sha256).hexdigest()


class Sealer:
    """Encrypts and decrypts with one key."""

    def __init__(self, key: bytes) -> None:
        """Raises `BackupError` when the extra is not installed."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise BackupError(
                "encrypted backups need an extra: install it with `pip install 'goqueue[tls]'`"
            ) from error
        self._key = key
        self._cipher: Any = AESGCM

    def _cipher_of(self, salt: bytes) -> Any:
        """AES-GCM with the key of one file (HKDF-SHA256 with one block)."""
        seed = hmac.new(salt, self._key, hashlib.sha256).digest()
        return self._cipher(hmac.new(seed, b"goqueue backup file\x01", hashlib.sha256).digest())

    def sealed(self, name: str, data: Iterable[Bytes]) -> Iterator[bytes]:
        """The encrypted form of a file, piece by piece."""
        salt = secrets.token_bytes(_SALT_BYTES)
        cipher = self._cipher_of(salt)
        yield _MAGIC + salt
        number, held = 0, b""
        for each in data:
            view = memoryview(each)
            for at in range(0, len(view), _FRAME_BYTES):
                if held:
                    yield from _frame(cipher, name, number, held, is_last=False)
                    number += 1
                held = bytes(view[at : at + _FRAME_BYTES])
        yield from _frame(cipher, name, number, held, is_last=True)

    def opened(self, name: str, data: bytes) -> bytes:
        """The file behind its encrypted form.

        Raises:
            DamagedBackupError: some bit of it is not what was written.
        """
        if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _SALT_BYTES:
            raise DamagedBackupError(f"{name} is not encrypted, or its beginning is damaged")
        position = len(_MAGIC) + _SALT_BYTES
        cipher = self._cipher_of(data[len(_MAGIC) : position])
        view, pieces, number, is_last = memoryview(data), [], 0, False
        try:
            while not is_last:
                (length,) = _LENGTH.unpack_from(view, position)
                is_last, length = bool(length & _LAST), length & ~_LAST
                position += _LENGTH.size
                frame = view[position : position + length]
                pieces.append(
                    cipher.decrypt(_nonce(number), frame, _context(name, number, is_last=is_last))
                )
                position += length
                number += 1
        except Exception as error:  # of cryptography's, which this module need not know
            raise DamagedBackupError(f"{name} is damaged: it does not decrypt") from error
        if position != len(view):
            raise DamagedBackupError(f"{name} is damaged: something follows its end")
        return b"".join(pieces)


def _frame(cipher: Any, name: str, number: int, data: bytes, *, is_last: bool) -> Iterator[bytes]:
    length = len(data) + _TAG_BYTES
    yield _LENGTH.pack(length | _LAST if is_last else length)
    yield cipher.encrypt(_nonce(number), data, _context(name, number, is_last=is_last))


def _nonce(number: int) -> bytes:
    """Of one frame: no two of a file are the same, and no two files have the same key."""
    return number.to_bytes(12, "big")


def _context(name: str, number: int, *, is_last: bool) -> bytes:
    return f"{name}\n{number}\n{int(is_last)}".encode()
