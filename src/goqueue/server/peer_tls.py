"""TLS between nodes: each shows a certificate and asks for one that the cluster's CA has signed."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from goqueue.model.tuples import NamedTuple
from goqueue.server.tls import TlsFilesError

if TYPE_CHECKING:
    from pathlib import Path


class PeerTls(NamedTuple):
    """Both sides of a connection between nodes."""

    listening: ssl.SSLContext
    calling: ssl.SSLContext


def load_peer_tls(cert_file: Path, key_file: Path, ca_file: Path) -> PeerTls:
    """Contexts of TLS 1.3 in which both sides are verified.

    Raises:
        TlsFilesError: the files cannot be used, and why.
    """
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (listening, calling):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(
                f"TLS between nodes: {cert_file}, {key_file} and {ca_file} cannot be used "
                f"together: {error.strerror or error}; give a certificate, its key and the "
                "authority that signed the certificates of all nodes, as PEM files"
            ) from error
    return PeerTls(listening, calling)
