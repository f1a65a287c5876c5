"""What the use cases count while they work: handles bound once, recorded many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.metrics import names
from goqueue.model.delivery import Priority
from goqueue.partitions.markers import Marker
from goqueue.partitions.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goqueue.metrics.registry import Metrics
    from goqueue.model.errors import GoQueueError


_VERDICTS: Final = {
    "ack": names.MESSAGES_ACKED,
    "nack": names.MESSAGES_NACKED,
    "release": names.MESSAGES_NACKED,
    "reject": names.MESSAGES_REJECTED,
}


class TopicQuota(Protocol):
    """What the tenant of a topic may take."""

    def published(self, count: int, size_bytes: int) -> float:
        """So many messages were taken in; how long their client has to wait with more, in s."""

    def admit_publish(self, count: int, size_bytes: int) -> None:
        """Count so many messages, or raise `RateLimitedError`."""

    def consumed(self, count: int, size_bytes: int) -> None:
        """So many messages went to a reader."""

    def refuses(self, size_bytes: int) -> bool:
        """Whether `check_batch` would raise."""

    def check_batch(self, size_bytes: int) -> None:
        """Raise `BatchTooLargeError` or `StorageQuotaExceededError` where a batch is refused."""

    def check_delay(self, delay_ms: int) -> None:
        """Raise `DelayTooLongError` where a message may not be delayed for so long."""


class TopicMeasures:
    """The series of one topic that every publish and every fetch touches."""

    __slots__ = (
        "bytes_consumed",
        "bytes_published",
        "bytes_read",
        "messages_fetched",
        "messages_published",
        "publish_latency",
        "quota",
    )

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.messages_published = metrics.counter(names.MESSAGES_PUBLISHED, topic)
        self.bytes_published = metrics.counter(names.BYTES_PUBLISHED, topic)
        self.publish_latency = metrics.histogram(names.PUBLISH_LATENCY, topic)
        self.messages_fetched = metrics.counter(names.MESSAGES_FETCHED, topic)
        self.bytes_consumed = metrics.counter(names.BYTES_CONSUMED, topic)
        self.bytes_read = metrics.counter(names.BYTES_READ, topic)
        self.quota: TopicQuota | None = None
        """Of its tenant, where it has one."""

    def consumed(self, count: int, size_bytes: int = 0) -> None:
        """So many messages went to a reader."""
        self.messages_fetched.add(count)
        self.bytes_consumed.add(size_bytes)
        if self.quota is not None:
            self.quota.consumed(count, size_bytes)


class Measures:
    """The handles of all topics, and those that belong to none."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._topics: dict[str, TopicMeasures] = {}
        self._quota_of: Callable[[str], TopicQuota | None] | None = None
        self.tallies = Tallies()
        self.fetch_latency = metrics.histogram(names.FETCH_LATENCY)
        self.polls = metrics.counter(names.POLLS)
        self.polls_empty = metrics.counter(names.POLLS_EMPTY)
        self.poll_latency = metrics.histogram(names.POLL_LATENCY)
        self.poll_batch_size = metrics.histogram(names.POLL_BATCH_SIZE)
        self._fsyncs = metrics.counter(names.FSYNCS)
        self._fsync_latency = metrics.histogram(names.FSYNC_LATENCY)
        self._fsync_errors = metrics.counter(names.FSYNC_ERRORS)
        self.offset_lookup_latency = metrics.histogram(names.INDEX_LOOKUP_LATENCY, "offset")
        self.heartbeat_latency = metrics.histogram(names.HEARTBEAT_LATENCY)
        self.commit_latency = metrics.histogram(names.OFFSET_COMMIT_LATENCY)
        self.transactions_started = metrics.counter(names.TRANSACTIONS_STARTED)
        self._transactions = {
            Marker.COMMIT: metrics.counter(names.TRANSACTIONS_COMMITTED),
            Marker.ABORT: metrics.counter(names.TRANSACTIONS_ABORTED),
        }
        self._transaction_latency = metrics.histogram(names.TRANSACTION_LATENCY)

    def topic(self, name: str) -> TopicMeasures:
        """The series of one topic, which exists."""
        measures = self._topics.get(name)
        if measures is None:
            measures = self._topics[name] = TopicMeasures(self._metrics, name)
            if self._quota_of is not None:
                measures.quota = self._quota_of(name)
        return measures

    def use_quotas(self, quota_of: Callable[[str], TopicQuota | None] | None) -> None:
        """Hold topics to the quotas of their tenants; None: there are no tenants."""
        self._quota_of = quota_of
        for name, measures in self._topics.items():
            measures.quota = None if quota_of is None else quota_of(name)

    def prioritised(self, topic: str, by_lane: Sequence[int], count: int) -> None:
        """So many messages were stored in batches that say how they are to be delivered.

        The lanes say where they are by offsets, of which some may have no message.
        """
        others = sum(by_lane) - by_lane[Priority.NORMAL]
        for priority, offsets in zip(Priority, by_lane, strict=True):
            found = count - others if priority is Priority.NORMAL else offsets
            if found > 0:
                self._metrics.counter(names.PRIORITY_PUBLISHED, topic, priority.label).add(found)

    def refused(self, topic: str, error: GoQueueError, count: int) -> None:
        """So many messages were not taken."""
        self._metrics.counter(names.MESSAGES_FAILED, topic, type(error).__name__).add(count)

    def synced(self, took_s: float | None) -> None:
        """A log was flushed to the disk; None when the disk refused."""
        if took_s is None:
            self._fsync_errors.add()
        else:
            self._fsyncs.add()
            self._fsync_latency.observe(took_s)

    def snapshot_saved(self, kind: str, took_s: float) -> None:
        """Some state was kept, so that the next start need not rebuild it."""
        self._metrics.counter(names.SNAPSHOTS_CREATED, kind).add()
        self._metrics.histogram(names.SNAPSHOT_LATENCY, kind).observe(took_s)

    def committed(self, topic: str, group_id: str, consumed: int) -> None:
        """A log group's offset of a partition was stored; so many messages are done by it."""
        self._metrics.counter(names.OFFSET_COMMITS, topic, group_id).add()
        self._metrics.counter(names.MESSAGES_CONSUMED, topic, group_id).add(consumed)

    def commit_refused(self, group_id: str, error: GoQueueError) -> None:
        """A commit, or a part of one, was not taken."""
        self._metrics.counter(names.OFFSET_COMMIT_ERRORS, group_id, type(error).__name__).add()

    def delivered(self, topic: str, group_id: str, count: int) -> None:
        """Messages were handed to a member of a queue group."""
        self._metrics.counter(names.MESSAGES_CONSUMED, topic, group_id).add(count)
        self.topic(topic).consumed(count)
        self.tallies.of(group_id).delivered += count

    def settled(self, topic: str, group_id: str, verdict: str, count: int, took_s: float) -> None:
        """Members have said what became of messages."""
        name = _VERDICTS.get(verdict)
        if name is not None:
            self._metrics.counter(name, topic, group_id).add(count)
        self._metrics.histogram(names.ACK_LATENCY, topic, verdict).observe(took_s)
        self.tallies.of(group_id).verdicts[verdict] += count

    def timed_out(self, topic: str, group_id: str, count: int) -> None:
        """Messages were taken back from a member that did not acknowledge them in time."""
        self._metrics.counter(names.VISIBILITY_TIMEOUTS, topic, group_id).add(count)
        self.tallies.of(group_id).timeouts += count

    def expired(self, topic: str, count: int) -> None:
        """The TTL of messages expired before they were delivered."""
        self._metrics.counter(names.MESSAGES_EXPIRED, topic).add(count)
        self.tallies.expired[topic] += count

    def dead_lettered(self, topic: str, group_id: str, reasons: Iterable[str]) -> None:
        """Dead messages were put into a dead-letter topic."""
        for reason in reasons:
            self._metrics.counter(names.DEAD_LETTERS, topic, group_id, reason).add()
            self.tallies.of(group_id).dead[reason] += 1

    def redriven(self, topic: str, count: int) -> None:
        """Dead letters that had come from a topic were published again."""
        self._metrics.counter(names.DEAD_LETTERS_REDRIVEN, topic).add(count)
        self.tallies.redriven[topic] += count

    def transactions_ended(self, durations_ms: Iterable[tuple[Marker, int]]) -> None:
        """Transactions were carried out, some time after they began."""
        for marker, duration_ms in durations_ms:
            self._transactions[marker].add()
            self._transaction_latency.observe(duration_ms / 1000)

    def forget_group(self, group_id: str) -> None:
        """A group is gone, and its series with it."""
        self._metrics.forget("consumer_group", group_id)
        self.tallies.forget(group_id)

    def forget_topic(self, name: str) -> None:
        """A topic is gone, and its series with it."""
        self._topics.pop(name, None)
        self._metrics.forget("topic", name)
        self.tallies.forget_topic(name)
