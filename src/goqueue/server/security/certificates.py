"""The server's side of TLS: certificates from files, and again when the files change.

Listeners hold one context for as long as they live. At each handshake it hands over to the newest
context that could be loaded, so a renewed certificate (and a changed list of authorities) counts
from the next connection on, and files that cannot be used change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.tuples import NamedTuple
from goqueue.server.config_node import ClientAuth, TlsSection, TlsVersion
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

FOLDER: Final = "tls"
"""Of a certificate that we made ourselves, in the data folder."""

_VERSIONS: Final = {
    TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3,
}
_CLIENT_CERTIFICATES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUEST: ssl.CERT_OPTIONAL,
    ClientAuth.VERIFY: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
    ClientAuth.REQUIRE_VERIFY: ssl.CERT_REQUIRED,
}

Stamp: TypeAlias = "tuple[tuple[int, int, int], ...]"


class TlsFilesError(StartError):
    """The files are no certificate, key and authorities that can be used together."""


def load_certificates(config: Config, clock: Clock) -> Certificates | None:
    """What `tls.*` says; None when it is off.

    Raises:
        StartError: it cannot be done, and why.
    """
    tls = config.tls
    if not tls.enabled:
        return None
    if tls.cert_file is not None and tls.key_file is not None:
        return Certificates(tls, tls.cert_file, tls.key_file)
    from goqueue.server.security.self_signed import self_signed  # noqa: PLC0415 - rarely used

    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    return Certificates(tls, *self_signed(config.broker.data_dir / FOLDER, now))


class Pem(NamedTuple):
    """A certificate, its key and whom to believe, as the files have them."""

    key: bytes
    chain: bytes
    authorities: bytes | None
    requires_client: bool


class Certificates:
    """What the listeners show, as the files have it."""

    def __init__(self, tls: TlsSection, cert_file: Path, key_file: Path) -> None:
        """Load the files.

        Raises:
            TlsFilesError: saying which file is wrong, and how.
        """
        self._tls = tls
        self._cert_file = cert_file
        self._key_file = key_file
        self._seen = self._stamp()
        self.pem = self._read_pem()
        """What was loaded last, for a listener that has no use for a context."""
        self._newest = self._load()
        self.failure: str | None = None
        """Why files that have changed are not in use; the certificate before them is."""
        self.reload_count = self.failure_count = 0
        self.context = self._load()
        """For the listeners."""
        self.context.sni_callback = self._hand_over

    def _hand_over(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        """Called at every handshake, also when the client names no server."""
        connection.context = self._newest

    async def reload(self) -> None:
        """Load the files if they have changed; those that do not load leave everything as it is."""
        if await asyncio.to_thread(self._reload):
            logger.info(
                "TLS: reloaded the certificate in %s; new connections use it", self._cert_file
            )

    def _reload(self) -> bool:
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return False
            pem, newest = self._read_pem(), self._load()
            if self._stamp() != stamp:
                return False  # somebody is writing them: they are loaded at the next look
        except TlsFilesError as error:
            logger.warning("TLS: the current certificate stays in use: %s", error)
            self.failure = str(error)
            self.failure_count += 1
            return False
        self._newest, self.pem, self._seen = newest, pem, stamp
        self.failure = None
        self.reload_count += 1
        return True

    def _read_pem(self) -> Pem:
        ca_file = self._tls.ca_file
        try:
            return Pem(
                key=self._key_file.read_bytes(),
                chain=self._cert_file.read_bytes(),
                authorities=None if ca_file is None else ca_file.read_bytes(),
                requires_client=_CLIENT_CERTIFICATES[self._tls.client_auth] is ssl.CERT_REQUIRED,
            )
        except OSError as error:
            text = error.strerror or error
            raise TlsFilesError(f"TLS: {error.filename} cannot be read: {text}") from error

    def _stamp(self) -> Stamp:
        return stamp_of(self._cert_file, self._key_file, self._tls.ca_file)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self._tls.min_version]
        context.verify_mode = _CLIENT_CERTIFICATES[self._tls.client_auth]
        _load_pair(context, self._cert_file, self._key_file)
        if self._tls.ca_file is not None:
            _load_authorities(context, self._tls.ca_file)
        return context


def stamp_of(*paths: Path | None) -> Stamp:
    """What tells a changed file. Taken before loading, so that a change meanwhile is seen later.

    Raises:
        TlsFilesError: one of the files is not there.
    """
    stamps = []
    for path in paths:
        if path is not None:
            try:
                found = path.stat()
            except OSError as error:
                text = error.strerror or error
                raise TlsFilesError(f"TLS: {path} cannot be read: {text}") from error
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


def _load_pair(context: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    try:
        # Never ask a terminal for a passphrase: a server has nobody to type it.
        context.load_cert_chain(cert_file, key_file, password=lambda: "")
    except ssl.SSLError as error:
        raise TlsFilesError(f"TLS: {_diagnosis(cert_file, key_file, error)}") from error
    except OSError as error:
        text = error.strerror or error
        raise TlsFilesError(f"TLS: {cert_file} or {key_file} cannot be read: {text}") from error


def _diagnosis(cert_file: Path, key_file: Path, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key_file} does not belong to the certificate in {cert_file}"
    if "-----BEGIN CERTIFICATE-----" not in _read(cert_file):
        return f"{cert_file} holds no certificate in PEM form"
    key = _read(key_file)
    if "ENCRYPTED" in key:
        return f"the key in {key_file} has a passphrase: store it without one"
    if "PRIVATE KEY-----" not in key:
        return f"{key_file} holds no key in PEM form"
    return f"{cert_file} and {key_file} cannot be used: {error.reason or error}"


def _load_authorities(context: ssl.SSLContext, ca_file: Path) -> None:
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise TlsFilesError(f"TLS: {ca_file} holds no certificates in PEM form") from error
    except OSError as error:
        raise TlsFilesError(f"TLS: {ca_file} cannot be read: {error.strerror or error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
