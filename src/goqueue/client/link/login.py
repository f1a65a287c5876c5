"""The client's side of SASL: PLAIN, OAUTHBEARER, and SCRAM with SHA-256 or SHA-512 (RFC 5802)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from goqueue.client.errors import LoginError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from goqueue.client.link.connection import Connection
    from goqueue.client.settings import ClientSettings

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
_LEAST_ITERATIONS: Final = 4096
_MOST_ITERATIONS: Final = 1_000_000
"""More is not security, it is a broker that keeps its clients busy."""


async def log_in(connection: Connection, settings: ClientSettings) -> None:
    """Say who we are, where the settings name a mechanism.

    Raises:
        LoginError: the broker does not take it.
    """
    mechanism = settings.mechanism
    if mechanism is None:
        return
    answer = await connection.ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=mechanism)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginError(f"{connection.address} does not take {mechanism}; it offers {offered}")
    if mechanism == "OAUTHBEARER":
        await _bearer(connection, settings)
        return
    if mechanism == "PLAIN":
        await _send(connection, f"\0{settings.username}\0{settings.password}".encode())
        return
    await _scram(connection, settings)


async def _send(connection: Connection, message: bytes) -> bytes:
    answer = await connection.ask(
        ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, auth_bytes=message
    )
    if answer.error_code:
        raise LoginError(f"{connection.address}: {answer.error_message or 'login refused'}")
    return bytes(answer.auth_bytes)


async def _bearer(connection: Connection, settings: ClientSettings) -> None:
    token = settings.api_key or settings.token or ""
    if not isinstance(token, str):
        token = await asyncio.to_thread(token)
    refused = await _send(connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if refused:
        await _send(connection, b"\x01")
        raise LoginError(f"{connection.address} refuses the token")


async def _scram(connection: Connection, settings: ClientSettings) -> None:
    exchange = ScramExchange(settings, secrets.token_urlsafe(24))
    challenge = await _send(connection, exchange.first())
    proof = await asyncio.to_thread(exchange.final, challenge)  # many rounds of a hash
    verdict = await _send(connection, proof)
    exchange.check(verdict)


class ScramExchange:
    """The four messages of one login, without the wire."""

    def __init__(self, settings: ClientSettings, nonce: str) -> None:
        name = (settings.sasl_mechanism or "").removeprefix("SCRAM-").replace("-", "").lower()
        self._hash: Final = name
        self._password: Final = settings.password.encode()
        user = settings.username.replace("=", "=3D").replace(",", "=2C")
        self._nonce: Final = nonce
        self._first_bare: Final = f"n={user},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """What the client says first."""
        return f"n,,{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that the client knows the password, for the broker's challenge."""
        text = challenge.decode("utf-8", "replace")
        parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        try:
            nonce, salt = parts["r"], base64.b64decode(parts["s"])
            iterations = int(parts["i"])
        except (KeyError, ValueError) as error:
            raise LoginError(f"the broker's challenge is no SCRAM challenge: {error}") from error
        if not nonce.startswith(self._nonce):
            raise LoginError("the broker's challenge answers another login")
        if not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise LoginError(f"the broker asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._first_bare},{text},{without_proof}".encode()
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), signed)
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, verdict: bytes) -> None:
        """Make sure that the broker knows the password too."""
        expected = b"v=" + base64.b64encode(self._server_signature)
        if not hmac.compare_digest(verdict.split(b",")[0], expected):
            raise LoginError("the broker does not prove that it knows the password")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)
