"""TLS between nodes: each shows a certificate and asks for one that the cluster's CA has signed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from goqueue.server.security.certificates import TlsFilesError, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


class PeerTls:
    """Both sides of a connection between nodes, and again when the files change."""

    def __init__(self, cert_file: Path, key_file: Path, ca_file: Path) -> None:
        """Load the files.

        Raises:
            TlsFilesError: they cannot be used, and why.
        """
        self._files = (cert_file, key_file, ca_file)
        self._seen = stamp_of(*self._files)
        self._newest = self._loaded(ssl.PROTOCOL_TLS_SERVER)
        self.listening = self._loaded(ssl.PROTOCOL_TLS_SERVER)
        """Hands each connection over to the newest context that could be loaded."""
        self.listening.sni_callback = self._hand_over
        self.calling = self._loaded(ssl.PROTOCOL_TLS_CLIENT)
        """Whoever calls other nodes holds it: it is changed in place. An authority that left the
        file is trusted by it until the next start."""
        self.failure: str | None = None
        """Why files that have changed are not in use."""
        self.reload_count = self.failure_count = 0

    def _hand_over(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _loaded(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        self._load_into(context)
        return context

    def _load_into(self, context: ssl.SSLContext) -> None:
        cert_file, key_file, ca_file = self._files
        try:
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(
                f"TLS between nodes: {cert_file}, {key_file} and {ca_file} cannot be used "
                f"together: {error.strerror or error}; give a certificate, its key and the "
                "authority that signed the certificates of all nodes, as PEM files"
            ) from error

    async def reload(self) -> None:
        """Load the files if they have changed; those that do not load leave everything as it is."""
        if await asyncio.to_thread(self._reload):
            logger.info("TLS between nodes: new connections use what is now in %s", self._files[0])

    def _reload(self) -> bool:
        try:
            stamp = stamp_of(*self._files)
            if stamp == self._seen:
                return False
            self._newest = self._loaded(ssl.PROTOCOL_TLS_SERVER)
            self._load_into(self.calling)
        except TlsFilesError as error:
            logger.warning("the current certificate stays in use: %s", error)
            self.failure = str(error)
            self.failure_count += 1
            return False
        self._seen, self.failure = stamp, None
        self.reload_count += 1
        return True
