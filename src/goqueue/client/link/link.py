"""A cluster as a client reaches it: who leads what, connections to them, and trying again."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.client.errors import (
    BrokerUnavailableError,
    ClientClosedError,
    ConnectionLostError,
    ForeignLoopError,
    UnexpectedAnswerError,
)
from goqueue.client.link.addresses import Address
from goqueue.client.link.codes import ELSEWHERE, RetriableBrokerError, check_code
from goqueue.client.link.connection import check_version
from goqueue.client.link.metadata import Metadata, TopicView
from goqueue.client.link.pool import ConnectionPool, wait_shared
from goqueue.client.link.watching import METADATA as _METADATA, BrokerWatch
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GoQueueError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from goqueue.client.link.connection import Connection
    from goqueue.client.settings import ClientSettings
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

_FIND_COORDINATOR: Final = 4
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
_UNKNOWN_NODE: Final = -1

CONTROL: Final = "control"
"""The lane of questions that are answered at once. What waits at the broker has its own lane, that
is, its own connection: requests of one connection are answered in their order."""

TOPIC_AGE_S: Final = 60.0
"""How long a topic's partitions are believed; keys of a topic that has grown move to their new
partitions after that."""

_CLOSED: Final = "the client is closed: create another one"
UNKNOWN: Final = (UnknownTopicError, UnknownPartitionError)
T = TypeVar("T")


class Link:
    """Connections to the brokers of one cluster, made when they are needed.

    It belongs to the event loop in which it is first used.
    """

    def __init__(self, servers: tuple[Address, ...], settings: ClientSettings) -> None:
        self.settings: Final = settings
        self.servers: Final = servers
        self.metadata: Final = Metadata()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = ConnectionPool(settings)
        self._watch = BrokerWatch(self._pool, self.metadata, servers)
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._is_closed = False

    def __str__(self) -> str:
        return ", ".join(map(str, self.servers))

    @property
    def is_closed(self) -> bool:
        """Whether it was closed: then nothing can be asked any more."""
        return self._is_closed

    def check(self) -> asyncio.AbstractEventLoop:
        """The loop that this link belongs to.

        Raises:
            ClientClosedError: the client was closed.
            ForeignLoopError: this is another loop.
        """
        if self._is_closed:
            raise ClientClosedError(_CLOSED)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise ForeignLoopError(
                    "this client belongs to another event loop: create one in this loop, or use "
                    "goqueue.Client, which may be shared between threads"
                )
            self._loop = loop
        return loop

    def reason(self, error: Exception) -> Exception:
        """Why something failed: the error, unless it did because the client was closed."""
        return ClientClosedError(_CLOSED) if self._is_closed else error

    async def close(self) -> None:
        """Close every connection; questions under way fail."""
        self._is_closed = True
        tasks = list(self._refreshing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._watch.stop()
        await self._pool.close()

    # --- Trying again ----------------------------------------------------------------------------

    async def retry(
        self, what: str, action: Callable[[], Awaitable[T]], *, within_s: float | None = None
    ) -> T:
        """Do it again until it works, or the time is over (`call_timeout_ms` unless told).

        Only what a moment may change is tried again: lost connections and retriable refusals. A
        topic that the cluster does not know is not.

        Raises:
            BrokerUnavailableError: no broker has answered; says which, and for how long.
            GoQueueError: the broker refuses.
        """
        loop = self.check()
        within_s = self.settings.call_timeout_ms / 1000 if within_s is None else within_s
        started_s = loop.time()
        failures = 0
        while True:
            try:
                return await action()
            except GoQueueError as error:
                if self._is_closed:
                    raise self.reason(error) from None
                if not error.retriable or isinstance(error, UNKNOWN):
                    raise
                failures += 1
                pause_s = self.settings.backoff_s(failures)
                waited_s = loop.time() - started_s
                if waited_s + pause_s > within_s:
                    if isinstance(error, BrokerUnavailableError):
                        raise BrokerUnavailableError(
                            f"{what}: no answer from {self} for {waited_s:.1f} s; last: {error}"
                        ) from None
                    raise
                _log.info("%s: %s; again in %.1f s", what, error, pause_s)
            await asyncio.sleep(pause_s)

    # --- Connections -----------------------------------------------------------------------------

    async def ask(
        self,
        api: ApiKey,
        version: int,
        /,
        *,
        node: int | None = None,
        lane: str = CONTROL,
        wait_s: float = 0.0,
        **fields: Any,
    ) -> Struct:
        """Ask one broker, or whichever answers, once.

        Raises:
            BrokerUnavailableError: it does not answer.
            BrokerError: it does not know the question.
        """
        connection = await (self.to_any(lane) if node is None else self.to_node(node, lane))
        check_version(connection, api, version)
        return await connection.ask(api, version, wait_s=wait_s, **fields)

    async def to_node(self, node: int, lane: str = CONTROL) -> Connection:
        """A connection to one broker.

        Raises:
            BrokerUnavailableError: it is not reached, or not one of the cluster any more.
        """
        address = self.metadata.nodes.get(node)
        if address is None:
            await self.refresh(())
            address = self.metadata.nodes.get(node)
            if address is None:
                raise BrokerUnavailableError(f"there is no broker {node} in the cluster at {self}")
        return await self._to(address, lane)

    async def to_any(self, lane: str = CONTROL) -> Connection:
        """A connection to whoever answers: one that is open, then those known, then those given.

        However many brokers an answer has named, no other one is tried after `call_timeout_ms`.
        """
        found = self._pool.any_of(lane)
        if found is not None:
            return found
        loop = self.check()
        until_s = loop.time() + self.settings.call_timeout_ms / 1000
        failure: ConnectionLostError | None = None
        for address in dict.fromkeys((*self.metadata.nodes.values(), *self.servers)):
            try:
                return await self._to(address, lane)
            except ConnectionLostError as error:
                failure = error
                if loop.time() >= until_s:
                    break
        assert failure is not None
        raise failure

    async def _to(self, address: Address, lane: str) -> Connection:
        self.check()
        self._watch.start()
        return await self._pool.get(address, lane)

    def name_lane(self, lane: str, client_id: str) -> None:
        """Give the connections of a lane another client id than the one of the settings."""
        self._pool.client_ids[lane] = client_id

    def hang_up(self, lane: str) -> None:
        """Close the connections of a lane: nobody will use it any more."""
        self._pool.hang_up(lane)

    # --- Topics ----------------------------------------------------------------------------------

    async def topic(self, name: str, *, max_age_s: float = TOPIC_AGE_S) -> TopicView:
        """A topic; looked up where it is not known or was not looked up for a while.

        Raises:
            UnknownTopicError: there is no such topic.
            BrokerUnavailableError: no broker answers.
        """
        loop = self.check()
        known = self.metadata.topics.get(name)
        if known is not None and loop.time() - known.seen_s <= max_age_s:
            return known
        return await self.retry(f"looking up topic {name!r}", lambda: self._look_up(name))

    async def _look_up(self, name: str) -> TopicView:
        await self.refresh((name,))
        view = self.metadata.topics.get(name)
        if view is None:
            raise RetriableBrokerError(f"topic {name!r} is changing at the moment")
        return view

    async def topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Several topics, those of them that exist."""
        wanted = tuple(sorted(set(names)))
        await self.retry("looking up topics", lambda: self.describe(wanted))
        return {name: self.metadata.topics[name] for name in wanted if name in self.metadata.topics}

    async def refresh(self, names: tuple[str, ...]) -> None:
        """Look topics up; those who ask for the same one meanwhile share the question.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        for name in names or ("",):
            task = self._refreshing.get(name)
            if task is None:
                wanted = (name,) if name else ()
                task = asyncio.create_task(self._refresh(wanted), name="goqueue metadata")
                self._refreshing[name] = task
                task.add_done_callback(partial(self._refreshing.pop, name))
            await wait_shared(task)

    async def _refresh(self, names: tuple[str, ...]) -> None:
        answer = await self.describe(names)
        for topic in answer.topics:
            if topic.error_code == ErrorCode.unknown_topic_or_partition:
                raise UnknownTopicError(
                    f"there is no topic {topic.name!r}: create it first, for example with "
                    f"client.topics.create({topic.name!r})"
                )
            check_code(topic.error_code, f"topic {topic.name!r}")

    async def describe(self, names: Iterable[str] | None) -> Struct:
        """Ask once for the brokers and for topics, None for all; what is known is renewed."""
        wanted = None if names is None else [{"topic_id": None, "name": name} for name in names]
        answer = await self.ask(
            ApiKey.METADATA,
            _METADATA,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        loop = self.check()
        for each in answer.topics:
            if each.error_code and each.name is not None:
                self.metadata.forget(each.name)
        self.metadata.take(answer, loop.time())
        return answer

    async def leader(self, place: TopicPartition) -> int:
        """The broker that leads a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
            RetriableBrokerError: nobody leads it at the moment.
        """
        led = self.metadata.led(place)
        if led is None or led.node not in self.metadata.nodes:
            view = await self._look_up(place.topic)
            led = view.partitions.get(place.partition)
            if led is None:
                raise UnknownPartitionError(
                    f"topic {view.name!r} has partitions 0 to {view.count - 1}, not "
                    f"{place.partition}"
                )
            if led.node not in self.metadata.nodes:
                self.metadata.forget(place.topic)
                raise RetriableBrokerError(f"{place.topic}-{place.partition} has no leader")
        return led.node

    def misled(self, place: TopicPartition, leader: Struct | None = None) -> None:
        """A broker says that it does not lead a partition; `leader` is who does, as it was told."""
        if leader is None or not self.metadata.hint(place, leader.leader_id, leader.leader_epoch):
            self.metadata.forget(place.topic)

    def forget_all(self) -> None:
        """Ask anew who leads and who coordinates what, before anybody is next asked."""
        self.metadata.clear()
        self._coordinators.clear()

    # --- Coordinators ----------------------------------------------------------------------------

    async def coordinator(self, kind: int, key: str) -> int:
        """The broker that coordinates a group or a transactional id; raises as `coordinators`."""
        ((node, _),) = (await self.coordinators(kind, (key,))).items()
        return node

    async def coordinators(self, kind: int, keys: Iterable[str]) -> dict[int, list[str]]:
        """The brokers that coordinate some keys, each with its own; all must have one."""
        nodes = {key: self._coordinators.get((kind, key), _UNKNOWN_NODE) for key in keys}
        unknown = [key for key, node in nodes.items() if node not in self.metadata.nodes]
        if unknown:
            answer = await self.ask(
                ApiKey.FIND_COORDINATOR, _FIND_COORDINATOR, key_type=kind, coordinator_keys=unknown
            )
            if {each.key for each in answer.coordinators} != set(unknown):
                raise UnexpectedAnswerError(f"an answer of other coordinators than of {unknown}")
            for each in answer.coordinators:
                check_code(each.error_code, f"coordinator of {each.key!r}", each.error_message)
                self.metadata.nodes[each.node_id] = Address(each.host, each.port)
                nodes[each.key] = self._coordinators[kind, each.key] = each.node_id
        found: dict[int, list[str]] = {}
        for key, node in nodes.items():
            found.setdefault(node, []).append(key)
        return found

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Look for it again before it is next asked."""
        self._coordinators.pop((kind, key), None)

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        api: ApiKey,
        version: int,
        /,
        *,
        lane: str = CONTROL,
        wait_s: float = 0.0,
        **fields: Any,
    ) -> Struct:
        """Ask the coordinator of a key, once; one that is no more is forgotten.

        Raises:
            CoordinatorUnavailableError: it is elsewhere, or still loading.
            BrokerUnavailableError: it does not answer.
        """
        node = await self.coordinator(kind, key)
        try:
            answer = await self.ask(api, version, node=node, lane=lane, wait_s=wait_s, **fields)
        except BrokerUnavailableError:
            self.forget_coordinator(kind, key)
            raise
        if getattr(answer, "error_code", 0) in ELSEWHERE:
            self.forget_coordinator(kind, key)
            raise CoordinatorUnavailableError(
                f"broker {node} does not coordinate {key!r} (any more)"
            )
        return answer
