"""How a connection is made: TCP, TLS, the versions that both sides know, and the login."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from goqueue.client.errors import ConnectionLostError, ForeignServerError, LoginError
from goqueue.client.link.codes import check_code
from goqueue.client.link.connection import Connection
from goqueue.client.link.login import log_in
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from goqueue.client.link.addresses import Address
    from goqueue.client.settings import ClientSettings

_API_VERSIONS: Final = 3
_SOFTWARE: Final = "goqueue-python"
_SOFTWARE_VERSION: Final = "2"  # the first went over gRPC
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
"""What OpenSSL calls an answer to its greeting that is none."""


async def open_connection(address: Address, settings: ClientSettings) -> Connection:
    """A connection that has said who it is.

    Raises:
        ConnectionLostError: connection refused, or lost.
        ForeignServerError: whoever answers speaks something else.
        LoginError: the broker does not let us in, or we do not trust it.
    """
    loop = asyncio.get_running_loop()
    connection = Connection(address, settings)
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            context = tls_context(settings) if settings.is_tls else None
            transport, _ = await loop.create_connection(
                lambda: connection,
                address.host,
                address.port,
                ssl=context,
                server_hostname=address.host if context else None,
            )
            _set_no_delay(transport)
            await _greet(connection, settings)
            await log_in(connection, settings)
    except BaseException as error:  # noqa: BLE001 - also a cancelled login leaves nothing open
        connection.close()
        raise _told(error, address, settings) from None
    return connection


def _told(error: BaseException, address: Address, settings: ClientSettings) -> BaseException:
    if isinstance(error, ssl.SSLCertVerificationError):
        return LoginError(f"the certificate of {address} cannot be trusted: {error.verify_message}")
    if isinstance(error, TimeoutError):
        waited_s = settings.connect_timeout_s
        return ConnectionLostError(f"no answer from {address} within {waited_s:g} s")
    if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
        return ForeignServerError(
            f"{address} does not speak TLS, and the settings ask for it: leave out `tls` and "
            "`ca_file`, or use the address of a listener with TLS"
        )
    if isinstance(error, (OSError, OverflowError, ValueError)):  # also of what is no address
        hint = " (at the TLS handshake: does it speak TLS?)" if settings.is_tls else ""
        return ConnectionLostError(f"cannot connect to {address}: {str(error) or 'closed'}{hint}")
    return error


def _set_no_delay(transport: asyncio.Transport) -> None:
    plain: socket.socket | None = transport.get_extra_info("socket")
    if plain is not None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _greet(connection: Connection, settings: ClientSettings) -> None:
    """Learn which versions of which APIs the broker serves."""
    try:
        answer = await connection.ask(
            ApiKey.API_VERSIONS,
            _API_VERSIONS,
            client_software_name=_SOFTWARE,
            client_software_version=_SOFTWARE_VERSION,
        )
    except ConnectionLostError as error:
        tls = "with" if settings.is_tls else "without"
        raise ConnectionLostError(
            f"{error} (at the first request: is it a Kafka listener, by default port 9092, {tls} "
            "TLS?)"
        ) from None
    check_code(answer.error_code, f"greeting {connection.address}")
    connection.versions = {
        each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
    }


@lru_cache(maxsize=16)
def tls_context(settings: ClientSettings) -> ssl.SSLContext:
    """What the settings say of certificates.

    Raises:
        LoginError: one of the files cannot be used.
    """
    try:
        context = ssl.create_default_context(
            cafile=None if settings.ca_file is None else str(settings.ca_file)
        )
        if settings.certificate_file is not None:
            context.load_cert_chain(settings.certificate_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        files = settings.ca_file, settings.certificate_file, settings.key_file
        named = ", ".join(str(each) for each in files if each is not None)
        raise LoginError(f"the certificates cannot be used ({named}): {error}") from None
    context.check_hostname = settings.check_host_name
    return context
