"""A certificate that this server signs itself: for trying things out, and for tests.

It is kept in the data folder, so that clients which were told to trust it still do after a restart.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CERT_FILE: Final = "self-signed.crt"
KEY_FILE: Final = "self-signed.key"
VALID_DAYS: Final = 365
RENEWED_DAYS: Final = 30
"""A start with fewer days left makes a new one."""

_NAMES: Final = ("localhost", "goqueue", "goqueue-headless")
_ADDRESSES: Final = ("127.0.0.1", "::1")


class SelfSigned(NamedTuple):
    """Where they are."""

    cert_file: Path
    key_file: Path


def self_signed(folder: Path, now: datetime) -> SelfSigned:
    """The certificate in this folder, made if there is none or it ends soon.

    Raises:
        StartError: the package that makes certificates is not installed.
    """
    files = SelfSigned(folder / CERT_FILE, folder / KEY_FILE)
    if not _is_good(files, now):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(files, now)
    return files


def _is_good(files: SelfSigned, now: datetime) -> bool:
    if not (files.cert_file.is_file() and files.key_file.is_file()):
        return False
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra

        found = x509.load_pem_x509_certificate(files.cert_file.read_bytes())
    except ImportError:
        return True  # made when the package was there; it is better than none
    except ValueError:
        return False
    return found.not_valid_after_utc - now > timedelta(days=RENEWED_DAYS)


def _make(files: SelfSigned, now: datetime) -> None:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    except ImportError as error:
        raise StartError(
            "TLS: tls.self_signed needs the package cryptography: pip install 'goqueue[tls]', "
            "or name your own files with tls.cert_file and tls.key_file"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate = _certificate(key, now)
    _write(files.key_file, pem, 0o600)
    _write(files.cert_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    from cryptography import x509  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    serial = x509.random_serial_number()
    name = x509.Name(  # of its own: whoever trusts those of several nodes finds each by its name
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "goqueue"),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{serial:x}"),
        ]
    )
    places: list[x509.GeneralName] = [x509.DNSName(each) for each in _NAMES]
    places += [x509.IPAddress(ipaddress.ip_address(each)) for each in _ADDRESSES]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _usage() -> x509.KeyUsage:
    """It serves as a server's certificate and as the authority that signed it."""
    from cryptography import x509  # noqa: PLC0415 - an extra

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    """In one step, and never readable by more than `mode` says."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    fresh.replace(path)
