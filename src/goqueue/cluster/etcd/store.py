# ruff: noqa: D102 - `MetadataStore` says what each call promises
"""The metadata store of a cluster: etcd, over its JSON gateway."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from contextlib import aclosing, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from goqueue.cluster.etcd import messages as wire
from goqueue.cluster.etcd.client import EtcdClient, RefusedError, Timing, UnansweredError
from goqueue.cluster.etcd.messages import Code, end_of_prefix
from goqueue.cluster.metadata import (
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Entry,
    MetadataStore,
    Operation,
    Put,
    Revision,
    SessionId,
    Snapshot,
    StoreMember,
    StoreStatus,
    TransactionResult,
    Unknown,
    check_transaction,
    encode_key,
)
from goqueue.model.errors import (
    InvalidMetadataRequestError,
    MetadataCompactedError,
    MetadataError,
    MetadataUnavailableError,
    SessionLapsedError,
)
from goqueue.model.limits import MAX_METADATA_SESSIONS
from goqueue.runtime.http_connection import HttpConnectionError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from goqueue.runtime.clock import Clock

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)

_PAGE_KEYS: Final = 1000
"""Keys that are read at a time."""


class _Session(msgspec.Struct):
    ttl_s: float
    deadline_s: float
    """Counts from before the last heartbeat was sent: etcd's own deadline is never earlier."""


class EtcdMetadataStore(MetadataStore):
    """The interface says what each call promises.

    A session is a lease. It is over here when its deadline has passed without a heartbeat that was
    answered, which is before etcd removes its keys.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        clock: Clock,
        prefix: str = "",
        tls: ssl.SSLContext | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Connects with the first call. `prefix` stands before every key, in an etcd of others."""
        self._client = EtcdClient(endpoints, tls, timing)
        self._clock = clock
        self._prefix = prefix.encode()
        self._sessions: dict[SessionId, _Session] = {}
        self._compacted = Revision(0)

    # --- Reading ---------------------------------------------------------------------------------

    async def get(self, key: str) -> Entry | None:
        asked = {"key": self._stored(key)}
        answer = await self._ask(wire.RANGE, asked, wire.RangeAnswer)
        return self._entry(answer.kvs[0]) if answer.kvs else None

    async def range(self, prefix: str) -> Snapshot:
        while True:
            snapshot = await self._read(prefix)
            if snapshot is not None:
                return snapshot

    async def _read(self, prefix: str) -> Snapshot | None:
        """All pages at the revision of the first; None when that was compacted meanwhile."""
        key, end = self._bounds(prefix)
        asked: dict[str, Any] = {"key": key, "range_end": end, "limit": str(_PAGE_KEYS)}
        answer = await self._ask(wire.RANGE, asked, wire.RangeAnswer)
        revision = answer.header.revision
        found = [self._entry(each) for each in answer.kvs]
        while answer.more:
            asked |= {"key": answer.kvs[-1].key + b"\0", "revision": str(revision)}
            try:
                answer = await self._client.ask(wire.RANGE, asked, wire.RangeAnswer)
            except RefusedError as error:
                if error.code == Code.OUT_OF_RANGE:
                    return None
                raise _refused(error) from error
            found += [self._entry(each) for each in answer.kvs]
        return Snapshot(tuple(found), Revision(revision))

    async def status(self) -> StoreStatus:
        """How the member that is asked sees it; it also answers without a leader."""
        status, listed, alarms = await asyncio.gather(
            self._client.ask(wire.STATUS, {}, wire.StatusAnswer, need_leader=False),
            self._client.ask(wire.MEMBERS, {}, wire.MembersAnswer, need_leader=False),
            self._alarms(),
        )
        members = tuple(
            StoreMember(each.name, each.client_urls, each.member_id == status.leader)
            for each in sorted(listed.members, key=attrgetter("name"))
        )
        return StoreStatus(
            revision=Revision(status.header.revision),
            oldest_watchable=self._compacted,
            size_bytes=status.size_bytes,
            members=members,
            leader=next((each.name for each in members if each.is_leader), None),
            is_healthy=alarms == (),
            version=status.version,
            alarm=alarms[0].alarm if alarms else None,
        )

    async def _alarms(self) -> tuple[wire.RaisedAlarm, ...] | None:
        """The alarms that are raised; None when etcd cannot tell.

        Telling them goes through the log of the consensus: it proves that a majority of the members
        answers and that their disks take writes.
        """
        try:
            return (await self._client.ask(wire.ALARM, {}, wire.AlarmsAnswer)).alarms
        except (MetadataError, RefusedError):
            self._client.require_open()
            return None

    # --- Changing --------------------------------------------------------------------------------

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        check_transaction(conditions, operations)
        self._client.require_open()
        for operation in operations:
            if isinstance(operation, Put) and operation.session is not None:
                self._require(operation.session)
        named = list(dict.fromkeys(condition.key for condition in conditions))
        request = {
            "compare": [self._comparison(condition) for condition in conditions],
            "success": [self._operation(operation) for operation in operations],
            "failure": [{"request_range": {"key": self._stored(key)}} for key in named],
        }
        try:
            answer = await self._client.ask_once(wire.TRANSACTION, request, wire.TransactionAnswer)
        except UnansweredError as error:
            return Unknown(str(error))
        except RefusedError as error:
            return self._not_done(error, operations)
        if answer.succeeded:
            # On a majority of disks before etcd answered: from here on it may be told.
            return Committed(Revision(answer.header.revision))
        return Conflict(
            {
                key: self._entry(each.response_range.kvs[0]) if each.response_range.kvs else None
                for key, each in zip(named, answer.responses, strict=True)
            }
        )

    def _not_done(self, error: RefusedError, operations: Sequence[Operation]) -> Unknown:
        """Raise what etcd's refusal means; what is not known to be one leaves it open."""
        if error.code == Code.NOT_FOUND:
            bound = {each.session for each in operations if isinstance(each, Put)} - {None}
            raise SessionLapsedError(
                f"one of the sessions {sorted(map(str, bound))} has ended: open another one"
            ) from error
        if error.code == Code.RESOURCE_EXHAUSTED:
            raise _refused(error) from error
        return Unknown(f"etcd answered: {error}")

    def _comparison(self, condition: Condition) -> dict[str, Any]:
        # A key that is not there has the revision 0, as `ABSENT` says.
        return {
            "key": self._stored(condition.key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(condition.revision),
        }

    def _operation(self, operation: Operation) -> dict[str, Any]:
        key = self._stored(operation.key)
        if not isinstance(operation, Put):
            return {"request_delete_range": {"key": key}}
        lease = str(operation.session or 0)
        return {"request_put": {"key": key, "value": operation.value, "lease": lease}}

    # --- Watching --------------------------------------------------------------------------------

    async def watch(self, prefix: str, after: Revision) -> AsyncIterator[Changes]:
        failures = 0
        while True:
            self._client.require_open()
            try:
                async with aclosing(self._follow(prefix, after)) as found:
                    async for changes in found:
                        if changes.revision <= after:
                            continue  # told before
                        # Only an event moves it: a header may be ahead of events still to come.
                        after = changes.revision
                        failures = 0
                        yield changes
            except HttpConnectionError as error:
                failures += 1
                if failures == 1:
                    _LOG.info("a watch on etcd goes on at another member: %s", error)
            await asyncio.sleep(self._client.timing.pause_s if failures > 1 else 0)

    async def _follow(self, prefix: str, after: Revision) -> AsyncGenerator[Changes, None]:
        """The changes after a revision, as one member tells them."""
        key, end = self._bounds(prefix)
        asked = {"key": key, "range_end": end, "start_revision": str(after + 1)}
        request = {"create_request": asked | {"progress_notify": True}}
        async with aclosing(self._client.watch(request)) as messages:
            async for message in messages:
                if message.compact_revision:
                    self._compacted = Revision(message.compact_revision)
                    raise MetadataCompactedError(after, self._compacted)
                for changes in self._changes(message):
                    yield changes

    def _changes(self, message: wire.WatchMessage) -> list[Changes]:
        """One for each revision: its events come together, in the order of the operations."""
        by_revision = itertools.groupby(message.events, key=lambda each: each.kv.mod_revision)
        return [
            Changes(
                Revision(revision),
                tuple(sorted((self._change(each) for each in events), key=attrgetter("key"))),
            )
            for revision, events in by_revision
        ]

    def _change(self, event: wire.Event) -> Change:
        return Change(self._key(event.kv.key), None if event.type == "DELETE" else event.kv.value)

    # --- Sessions --------------------------------------------------------------------------------

    async def open_session(self, ttl_ms: int) -> SessionId:
        self._client.require_open()
        if ttl_ms <= 0:
            raise InvalidMetadataRequestError(f"a session of {ttl_ms} ms, expected more than 0")
        now_s = self._clock.monotonic_s()
        for ended in [each for each, known in self._sessions.items() if known.deadline_s <= now_s]:
            del self._sessions[ended]  # nobody has kept it alive, and nobody can any more
        if len(self._sessions) >= MAX_METADATA_SESSIONS:
            raise InvalidMetadataRequestError(
                f"{MAX_METADATA_SESSIONS} sessions are open, as many as may be: end some first"
            )
        # The number is ours, so that a request whose answer was lost can be sent again.
        session = SessionId(secrets.randbits(62) + 1)
        sent_s = self._clock.monotonic_s()
        seconds = -(-ttl_ms // 1000)  # etcd counts whole ones
        try:
            await self._client.ask(
                wire.GRANT, {"ID": str(session), "TTL": str(seconds)}, wire.Lease
            )
        except RefusedError as error:
            if error.code != Code.FAILED_PRECONDITION:  # it exists: by an attempt before
                raise _refused(error) from error
        self._sessions[session] = _Session(ttl_ms / 1000, sent_s + ttl_ms / 1000)
        return session

    async def keep_alive(self, session: SessionId) -> None:
        self._client.require_open()
        sent_s = self._clock.monotonic_s()
        try:
            self._require(session)
        except SessionLapsedError:
            # etcd waits a little longer than we do, and the caller may rely on its end.
            with suppress(MetadataUnavailableError):
                await self.end_session(session)
            raise
        kept = await self._ask(wire.KEEP_ALIVE, {"ID": str(session)}, wire.KeptAlive)
        known = self._sessions.get(session)
        if kept.result.ttl <= 0 or known is None:
            self._sessions.pop(session, None)
            raise _lapsed(session)
        known.deadline_s = sent_s + known.ttl_s

    async def end_session(self, session: SessionId) -> None:
        self._client.require_open()
        if session in self._sessions:
            self._sessions[session].deadline_s = self._clock.monotonic_s()
        try:
            await self._client.ask(wire.REVOKE, {"ID": str(session)}, wire.Lease)
        except RefusedError as error:
            if error.code != Code.NOT_FOUND:  # it has ended
                raise _refused(error) from error
        self._sessions.pop(session, None)

    async def close(self) -> None:
        self._client.close()

    # --- Inside ----------------------------------------------------------------------------------

    def _require(self, session: SessionId) -> None:
        found = self._sessions.get(session)
        if found is None or found.deadline_s <= self._clock.monotonic_s():
            raise _lapsed(session)

    async def _ask(self, path: str, body: dict[str, Any], kind: type[_T]) -> _T:
        try:
            return await self._client.ask(path, body, kind)
        except RefusedError as error:
            raise _refused(error) from error

    def _stored(self, key: str) -> bytes:
        return self._prefix + encode_key(key)

    def _key(self, stored: bytes) -> str:
        return stored.removeprefix(self._prefix).decode()

    def _bounds(self, prefix: str) -> tuple[bytes, bytes]:
        whole = self._prefix + (encode_key(prefix) if prefix else b"")
        return whole or b"\0", end_of_prefix(whole)

    def _entry(self, found: wire.KeyValue) -> Entry:
        session = SessionId(found.lease) if found.lease else None
        return Entry(self._key(found.key), found.value, Revision(found.mod_revision), session)


def _lapsed(session: SessionId) -> SessionLapsedError:
    return SessionLapsedError(f"session {session} has ended: open another one")


def _refused(error: RefusedError) -> MetadataUnavailableError:
    return MetadataUnavailableError(
        f"etcd refuses the request ({error}): see `goqueue cluster health` and etcd's own log"
    )
