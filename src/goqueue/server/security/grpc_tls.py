"""The certificates of the server, as gRPC wants them: bytes, asked for again at each handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from goqueue.server.security.certificates import Certificates, Pem


def grpc_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """What the gRPC listener shows; renewed files count from the next connection on.

    gRPC speaks TLS 1.2 and 1.3 and cannot be told to leave one out.
    """
    seen = certificates.pem

    def newest() -> grpc.ServerCertificateConfiguration | None:
        """None says that nothing has changed. Called from gRPC's own threads."""
        nonlocal seen
        if certificates.pem is seen:
            return None
        seen = certificates.pem
        return _configuration(seen)

    credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
        _configuration(seen),
        newest,  # type: ignore[arg-type]  # None is allowed, and not in the types
        require_client_authentication=seen.requires_client,
    )
    return credentials


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.chain)], pem.authorities)
