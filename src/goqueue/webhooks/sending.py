"""One attempt to deliver one event: the name is resolved, checked, and only then connected to.

The connection goes to the address that was checked. A name that resolves to something else a moment
later changes nothing. Redirects are not followed, and of the response only the status is read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import WebhookTargetError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.http_connection import Connection, HttpConnectionError
from goqueue.webhooks.events import encode
from goqueue.webhooks.signing import headers_of
from goqueue.webhooks.urls import parse_target

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.http_connection import Endpoint as HostEndpoint
    from goqueue.webhooks.addresses import AddressPolicy
    from goqueue.webhooks.endpoints import Endpoint
    from goqueue.webhooks.events import Event

_SUCCESS: Final = range(200, 300)
_MAX_ADDRESSES: Final = 4
"""Of one name that are tried one after the other; the rest is left out."""


class Resolve(Protocol):
    """Finds the addresses of a host."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """All of them, the preferred one first. Raises `OSError` when there is none."""


async def resolve(host: str, port: int) -> list[str]:
    """As the operating system does it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


class Attempt(NamedTuple):
    """How an attempt has ended."""

    status: int | None
    """None: there was no response."""
    error: str
    """Empty: it was delivered."""
    took_ms: int

    @property
    def is_delivered(self) -> bool:
        """Whether the target has taken the event."""
        return not self.error


class Sender:
    """Posts events."""

    def __init__(self, policy: AddressPolicy, clock: Clock, lookup: Resolve = resolve) -> None:
        self._policy = policy
        self._clock = clock
        self._resolve = lookup
        self._tls: ssl.SSLContext | None = None

    async def send(self, endpoint: Endpoint, event: Event, attempt: int) -> Attempt:
        """Attempt it once. Every failure is an answer; nothing is raised but a cancellation."""
        began_s = self._clock.monotonic_s()
        status: int | None = None
        try:
            async with asyncio.timeout(endpoint.timeout_ms / 1000):
                status = await self._post(endpoint, event, attempt)
            error = "" if status in _SUCCESS else _refused(status)
        except TimeoutError:
            error = f"no response within {endpoint.timeout_ms} ms"
        except (OSError, HttpConnectionError, WebhookTargetError, UnicodeError) as failure:
            error = str(failure) or type(failure).__name__
        return Attempt(status, error, round((self._clock.monotonic_s() - began_s) * 1000))

    async def _post(self, endpoint: Endpoint, event: Event, attempt: int) -> int:
        target = parse_target(endpoint.url)
        addresses = self._policy.check(await self._resolve(*target.endpoint[:2]))
        connection = await self._connect(target.endpoint, addresses[:_MAX_ADDRESSES])
        try:
            body = encode(event)
            now_s = self._clock.now_ms() // 1000
            headers = headers_of(event, body, endpoint.secret, now_s, attempt)
            return await connection.post(target.path, body, headers)
        finally:
            connection.close()

    async def _connect(self, endpoint: HostEndpoint, addresses: list[str]) -> Connection:
        if endpoint.is_tls and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        for address in addresses[:-1]:
            try:
                return await Connection.open(endpoint, self._tls, address=address)
            except HttpConnectionError:
                continue
        return await Connection.open(endpoint, self._tls, address=addresses[-1])


def _refused(status: int) -> str:
    text = f"the target answered with status {status}, expected 2xx"
    return f"{text}; redirects are not followed" if status in range(300, 400) else text
