"""Requests to etcd: which member is asked, how long it has, and what may be asked twice.

An attempt has a deadline, and any error moves on to the next member. What changes nothing by being
asked twice is asked until it is answered or its time is over. A transaction is sent once: when its
answer does not come, nobody here knows whether it happened, and the caller is told so.

Every request asks for a member that knows a leader. One that is cut off from the others refuses at
once, and ends watches, instead of answering with what it knew before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from goqueue.cluster.etcd.messages import (
    TRANSACTION,
    WATCH,
    Code,
    Failure,
    WatchLine,
    WatchMessage,
    decode,
    encode,
)
from goqueue.model.errors import InvalidMetadataRequestError, MetadataUnavailableError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.http_connection import (
    NO_HEADERS,
    Answer,
    Connection,
    Endpoint,
    HttpConnectionError,
)
from goqueue.runtime.tasks import deadline

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Sequence

_T = TypeVar("_T")

_MAX_REQUESTS: Final = 16
"""Transactions at the same time, each on a connection of its own, and as many other requests: many
transactions without answers do not keep a heartbeat waiting. A further one waits for its turn."""
_PROBES: Final = 4
"""Of either kind at a time while no member answers; the others wait for those."""
_LONGEST_S: Final = 1.0
"""An attempt takes no longer, however long no member has answered."""
_OK: Final = 200
_NEED_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}
"""A member that knows no leader refuses."""


class Timing(NamedTuple):
    """How long what may take; the values were measured as necessary against a real etcd."""

    attempt_s: float = 0.25
    """For one member to answer, connecting included; and again for its answer to arrive whole."""
    call_s: float = 2.0
    """For a request that may be asked again."""
    silence_s: float = 1.25
    """A watch that says nothing for so long is left: a paused member keeps its connections open."""
    pause_s: float = 0.05
    """After every member has failed in turn."""


class UnansweredError(Exception):
    """The request was sent, and whether it was done is not known."""


class RefusedError(Exception):
    """etcd has answered no, and nothing was done."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.code = failure.code


class EtcdClient:
    """Connections to the members of one etcd. The first endpoint is asked first."""

    def __init__(
        self,
        endpoints: Sequence[str],
        tls: ssl.SSLContext | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._endpoints = [Endpoint.parse(url) for url in endpoints]
        self._tls = tls
        self.timing = timing or Timing()
        self._at = 0
        """The endpoint that is asked next; moves when one fails."""
        self._idle: list[Connection] = []
        self._streams: set[Connection] = set()
        self._turns = asyncio.Semaphore(_MAX_REQUESTS)
        self._transaction_turns = asyncio.Semaphore(_MAX_REQUESTS)
        self._probes = asyncio.Semaphore(_PROBES)
        self._transaction_probes = asyncio.Semaphore(_PROBES)
        self._attempt_s = self.timing.attempt_s
        """How long an answer is waited for now."""
        self._failures = 0
        """Attempts that failed since one was answered."""
        self._is_closed = False

    @property
    def endpoint(self) -> Endpoint:
        """The member that is asked next."""
        return self._endpoints[self._at]

    def require_open(self) -> None:
        """Raise `MetadataUnavailableError` once it is closed."""
        if self._is_closed:
            raise MetadataUnavailableError("the metadata store is closed: open it again")

    def close(self) -> None:
        """Close every connection; requests and watches under way fail."""
        self._is_closed = True
        for connection in (*self._idle, *self._streams):
            connection.close()
        self._idle.clear()

    # --- Requests --------------------------------------------------------------------------------

    async def ask(
        self, path: str, body: dict[str, Any], kind: type[_T], *, need_leader: bool = True
    ) -> _T:
        """Ask until there is an answer: for what may be done twice.

        Raises:
            RefusedError: etcd has answered no.
            MetadataUnavailableError: no member answers.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.timing.call_s
        failures = 0
        while True:
            try:
                async with self._turns:
                    return await self._attempt(path, encode(body), kind, need_leader=need_leader)
            except (HttpConnectionError, UnansweredError) as error:
                failures += 1
                if loop.time() >= deadline_s:
                    self._give_up(error)
                if failures % len(self._endpoints) == 0:
                    await asyncio.sleep(self.timing.pause_s)

    async def ask_once(self, path: str, body: dict[str, Any], kind: type[_T]) -> _T:
        """Send a request once. Members are only tried in turn as long as none was reached.

        Raises:
            UnansweredError: it was sent, and perhaps done.
            RefusedError: etcd has answered no.
            MetadataUnavailableError: no member could be reached, so nothing was sent.
        """
        data = encode(body)
        for left in reversed(range(len(self._endpoints))):
            try:
                async with self._transaction_turns:
                    return await self._attempt(path, data, kind, need_leader=True)
            except HttpConnectionError as error:
                if not left:
                    self._give_up(error)
        raise AssertionError("unreachable: there is at least one endpoint")

    def _give_up(self, error: Exception) -> NoReturn:
        self.require_open()
        count = len(self._endpoints)
        raise MetadataUnavailableError(
            f"no member of etcd answers, of {count} that were asked (the last: {error}): check "
            "that a majority of the nodes runs and is reachable"
        ) from error

    async def _attempt(self, path: str, body: bytes, kind: type[_T], *, need_leader: bool) -> _T:
        """One request to one member.

        Raises:
            HttpConnectionError: it could not be sent.
            UnansweredError: it was sent.
        """
        if not self._is_away:
            return await self._attempt_now(path, body, kind, need_leader=need_leader)
        async with self._probes if path != TRANSACTION else self._transaction_probes:
            return await self._attempt_now(path, body, kind, need_leader=need_leader)

    async def _attempt_now(
        self, path: str, body: bytes, kind: type[_T], *, need_leader: bool
    ) -> _T:
        self.require_open()
        connection = await self._connection()
        try:
            answer = await self._exchange(connection, path, body, need_leader=need_leader)
            _judge(answer)
            found = decode(answer.body, kind)
        except (RefusedError, InvalidMetadataRequestError):
            self._answered()
            self._keep(connection)
            raise
        except BaseException as error:
            connection.close()
            if isinstance(error, HttpConnectionError | TimeoutError):
                self._failed(connection.endpoint)
                raise UnansweredError(_told(error, connection.endpoint)) from error
            raise
        self._answered()
        self._keep(connection)
        return found

    @property
    def _is_away(self) -> bool:
        """Whether every member has failed, and none has answered since."""
        return self._failures >= len(self._endpoints)

    def _answered(self) -> None:
        self._failures = 0
        self._attempt_s = max(self._attempt_s / 2, self.timing.attempt_s)

    def _failed(self, endpoint: Endpoint) -> None:
        """A member does not answer; once all have failed, the next attempts wait longer.

        A store that is slow stays slow when requests are given up and sent again all the time.
        """
        if endpoint != self.endpoint:
            return  # another request has noticed before
        self._failures += 1
        if self._is_away:
            self._attempt_s = min(self._attempt_s * 2, max(_LONGEST_S, self.timing.attempt_s))
        self.move_on(endpoint)

    async def _exchange(
        self, connection: Connection, path: str, body: bytes, *, need_leader: bool
    ) -> Answer:
        loop = asyncio.get_running_loop()
        attempt_s = self._attempt_s
        async with deadline(attempt_s) as timeout:
            status = await connection.post(path, body, _NEED_LEADER if need_leader else NO_HEADERS)
            timeout.reschedule(loop.time() + attempt_s)
            return Answer(status, await connection.body())

    # --- Connections -----------------------------------------------------------------------------

    def move_on(self, endpoint: Endpoint) -> None:
        """A member has failed: the next one is asked from now on."""
        if endpoint != self.endpoint:
            return  # another request has noticed before
        self._at = (self._at + 1) % len(self._endpoints)
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return await self._connect(self.endpoint)

    async def _connect(self, endpoint: Endpoint) -> Connection:
        try:
            async with deadline(self._attempt_s):
                return await Connection.open(endpoint, self._tls)
        except (HttpConnectionError, TimeoutError) as error:
            self._failed(endpoint)
            raise HttpConnectionError(_told(error, endpoint)) from error

    def _keep(self, connection: Connection) -> None:
        if self._is_closed or connection.endpoint != self.endpoint or not connection.is_usable:
            connection.close()
        else:
            self._idle.append(connection)

    # --- Streams ---------------------------------------------------------------------------------

    async def watch(self, request: dict[str, Any]) -> AsyncGenerator[WatchMessage, None]:
        """What one member says to a watch, until it falls silent.

        Raises:
            HttpConnectionError: the member could not be reached, went away or said nothing.
        """
        connection = await self._connect(self.endpoint)
        self._streams.add(connection)
        try:
            async with asyncio.timeout(self.timing.silence_s):
                await _begin(connection, encode(request))
            while True:
                async with asyncio.timeout(self.timing.silence_s):
                    message = await _next_message(connection)
                yield message
        except (HttpConnectionError, TimeoutError) as error:
            self.move_on(connection.endpoint)
            raise HttpConnectionError(_told(error, connection.endpoint)) from error
        finally:
            self._streams.discard(connection)
            connection.close()


def _judge(answer: Answer) -> None:
    """Raise what no success means: etcd has refused, or the member was not able to do it."""
    if answer.status == _OK:
        return
    failure = decode(answer.body, Failure)
    if failure.code == Code.INVALID_ARGUMENT:
        raise InvalidMetadataRequestError(f"etcd refuses the request: {failure.message}")
    if failure.code in set(Code):
        raise RefusedError(failure)
    raise HttpConnectionError(f"status {answer.status}, {failure.message}")


async def _begin(connection: Connection, request: bytes) -> None:
    status = await connection.post(WATCH, request, _NEED_LEADER)
    if status != _OK:
        raise HttpConnectionError(f"status {status}")


async def _next_message(connection: Connection) -> WatchMessage:
    line = await connection.line()
    if line is None:
        raise HttpConnectionError("the stream ended")
    found = decode(line, WatchLine)
    if found.error is not None:
        raise HttpConnectionError(found.error.message)
    if found.result.canceled and not found.result.compact_revision:
        raise HttpConnectionError("the watch was canceled")
    return found.result


def _told(error: BaseException, endpoint: Endpoint) -> str:
    return f"{endpoint}: {error if isinstance(error, HttpConnectionError) else 'no answer in time'}"
