"""The client's link to a cluster, for code that blocks, and the few calls that planning needs.

What talks to brokers is an async function over `Cluster.link`; `retry` and `once` run it on the
loop of this process and wait. Errors leave as Spark's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from goqueue.client.consuming.log_offsets import ask_leaders
from goqueue.client.errors import LoginError as ClientLoginError
from goqueue.client.link.codes import check_code
from goqueue.client.link.link import CONTROL, GROUP_KEY, UNKNOWN, Link
from goqueue.model.errors import AuthenticationFailedError, GoQueueError
from goqueue.spark import clock
from goqueue.spark.errors import (
    BrokerAwayError,
    BrokerRefusedError,
    LoginError,
    SparkSourceError,
    TopicMissingError,
)
from goqueue.spark.kafka.loop_thread import loop_thread
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from concurrent.futures import Future

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.kafka.settings import LinkSettings

_OFFSET_COMMIT: Final = 8
_NO_GENERATION: Final = -1

FETCHING: Final = "fetching"
PRODUCING: Final = "producing"
"""Lanes of the link, that is, connections of their own: there, the broker lets others wait."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the broker describes it."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    is_internal: bool = False


class Cluster:
    """Connections to the brokers of one cluster, made when they are needed."""

    def __init__(self, settings: LinkSettings) -> None:
        self.settings: Final = settings
        self.link: Final = Link(settings.servers, settings.client)
        self._thread: Final = loop_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next call reconnects."""
        self._thread.call(self._hang_up())

    async def _hang_up(self) -> None:
        for lane in (CONTROL, FETCHING, PRODUCING):
            self.link.hang_up(lane)

    # --- Trying again ----------------------------------------------------------------------------

    def retry(self, what: str, action: Callable[[], Awaitable[T]]) -> T:
        """Do it again until it works or `patience_s` has passed.

        Raises:
            BrokerAwayError: it never worked; says what happened last.
            SparkSourceError: the broker refuses.
        """
        return self._thread.call(self.tried(what, action))

    def start(self, what: str, action: Callable[[], Awaitable[T]]) -> Future[T]:
        """Begin to do that; the caller waits when it needs the result."""
        return self._thread.start(self.tried(what, action))

    def once(self, action: Callable[[], Awaitable[T]]) -> T:
        """Try it once.

        Raises:
            SparkSourceError: it did not work.
        """
        return self._thread.call(self._once(action))

    async def tried(self, what: str, action: Callable[[], Awaitable[T]]) -> T:
        """What `retry` does, for those who are on the loop."""
        started_s = clock.monotonic_s()
        try:
            return await self.link.retry(
                what, lambda: self._once(action), within_s=self.settings.patience_s
            )
        except BrokerAwayError as error:
            waited_s = clock.monotonic_s() - started_s
            raise BrokerAwayError(
                f"{what}: gave up on {self.link} after {waited_s:.0f} s "
                f"(kafka.default.api.timeout.ms); last: {error}"
            ) from None  # it is in the sentence, and Spark would print every chain of it

    async def _once(self, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except GoQueueError as error:
            if error.retriable:
                self.link.forget_all()
            raise _told(error) from None

    # --- What there is ---------------------------------------------------------------------------

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicView]:
        """The topics of these names that exist; None asks for all."""
        wanted = None if names is None else sorted(set(names))
        return self.retry("looking up topics", lambda: self.describe(wanted))

    async def describe(self, names: Iterable[str] | None) -> dict[str, TopicView]:
        """The same, asked once."""
        answer = await self.link.describe(names)
        found = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.unknown_topic_or_partition:
                continue
            check_code(topic.error_code, f"topic {topic.name!r}")
            numbers = sorted(each.partition_index for each in topic.partitions)
            found[topic.name] = TopicView(
                topic.name, str(topic.topic_id), tuple(numbers), topic.is_internal
            )
        return found

    def offsets_at(
        self, moments: Mapping[TopicPartition, int], isolation: int
    ) -> dict[TopicPartition, int]:
        """The offset of a moment in each partition, `LATEST` and `EARLIEST` among them.

        -1 where no message is that young.
        """
        return self.retry("looking up offsets", lambda: ask_leaders(self.link, moments, isolation))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store how far a group has read, as a consumer without a membership."""
        self.retry(f"committing for group {group!r}", lambda: self._commit(group, offsets))

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, number), offset in offsets.items():
            place = {"partition_index": number, "committed_offset": offset}
            topics.setdefault(topic, []).append(place | {"committed_metadata": "spark"})
        answer = await self.link.ask_coordinator(
            GROUP_KEY,
            group,
            ApiKey.OFFSET_COMMIT,
            _OFFSET_COMMIT,
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            group_instance_id=None,
            topics=[{"name": name, "partitions": places} for name, places in topics.items()],
        )
        for topic in answer.topics:
            for each in topic.partitions:
                check_code(each.error_code, f"{topic.name}-{each.partition_index}")


def _told(error: GoQueueError) -> SparkSourceError:
    """What the client or the broker says, as users of Spark are told."""
    if isinstance(error, SparkSourceError):
        return error
    if isinstance(error, UNKNOWN):
        return TopicMissingError(str(error))
    if isinstance(error, ClientLoginError | AuthenticationFailedError):
        return LoginError(str(error))
    return (BrokerAwayError if error.retriable else BrokerRefusedError)(str(error))
