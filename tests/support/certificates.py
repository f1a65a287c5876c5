"""Certificates for tests: an authority, and whatever it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes


class Authority:
    """Signs certificates for 127.0.0.1 and writes them into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key: CertificateIssuerPrivateKeyTypes = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = self._sign(self._name, self._key, is_authority=True)
        self.ca_file = folder / f"{name}.pem"
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, file: str | None = None, is_rsa: bool = False, passphrase: bytes = b""
    ) -> tuple[Path, Path]:
        """The files of a certificate of that name and of its key."""
        key: CertificateIssuerPrivateKeyTypes = (
            rsa.generate_private_key(65537, 2048)
            if is_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        secret = (
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption()
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret
        )
        certificate = self._sign(_name(name), key, is_authority=False)
        cert_file = self._folder / f"{file or name}.crt"
        key_file = self._folder / f"{file or name}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(pem)
        return cert_file, key_file

    def _sign(
        self, name: x509.Name, key: CertificateIssuerPrivateKeyTypes, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        places = x509.SubjectAlternativeName([x509.DNSName("localhost"), address])
        constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(minutes=5),
            not_valid_after=now + timedelta(days=1),
        )
        builder = builder.add_extension(places, critical=False)
        builder = builder.add_extension(constraints, critical=True)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
