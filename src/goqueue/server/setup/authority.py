"""A certificate authority of one's own, and the certificates that it signs.

The keys are ECDSA on P-256. A certificate that the authority signs is good as a server's and as a
client's: nodes of a cluster are both.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 365
_EARLIER: Final = timedelta(minutes=5)
"""Before now, for clocks that differ."""


class SignedPair(NamedTuple):
    """A certificate and its key, in PEM form."""

    certificate: bytes
    key: bytes


class CertificateAuthority:
    """Signs certificates."""

    def __init__(self, name: str, now: datetime) -> None:
        """Make one.

        Raises:
            StartError: the package that makes certificates is not installed.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise StartError(
                "making certificates needs the package cryptography: pip install 'goqueue[tls]'"
            ) from error
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._certificate = self._signed(self._name, self._key, AUTHORITY_DAYS, None)
        self.pair = _pair(self._certificate, self._key)

    def issue(self, name: str, hosts: Sequence[str]) -> SignedPair:
        """A certificate for these names and addresses."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - an extra

        key = ec.generate_private_key(ec.SECP256R1())
        return _pair(self._signed(_named(name), key, CERTIFICATE_DAYS, hosts), key)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: int,
        hosts: Sequence[str] | None,
    ) -> x509.Certificate:
        """Without hosts it is an authority's."""
        from cryptography import x509  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 - as above

        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _EARLIER)
            .not_valid_after(self._now + timedelta(days=days))
            .add_extension(_identifier(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(_usage(signs=hosts is None), critical=True)
        )
        if hosts is None:
            constraints = x509.BasicConstraints(ca=True, path_length=0)
            return builder.add_extension(constraints, critical=True).sign(
                self._key, hashes.SHA256()
            )
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectAlternativeName(_places(hosts)), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415 - an extra
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    from cryptography import x509  # noqa: PLC0415 - an extra

    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _places(hosts: Sequence[str]) -> list[x509.GeneralName]:
    from cryptography import x509  # noqa: PLC0415 - an extra

    found: list[x509.GeneralName] = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            found.append(x509.DNSName(host))
    return found


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415 - an extra

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> SignedPair:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra

    return SignedPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
