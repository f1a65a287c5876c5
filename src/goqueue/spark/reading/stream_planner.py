"""What each micro-batch of a stream reads; knows the broker and the options, and nothing of Spark.

Every question of Spark's is answered from the broker and from the offsets that Spark hands in, so a
restarted query plans as the one before it would have. The exceptions are told where they are kept:
when the last batch was let through, how far an available-now run goes, what was committed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark import clock
from goqueue.spark.errors import DataLossError
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.kafka.waiting import sample_record_bytes, wait_for_news
from goqueue.spark.options.read_options import ReadOptions, default_parallelism
from goqueue.spark.reading.admission import admit_bytes, admit_offsets
from goqueue.spark.reading.resolving import Ends, find_ends, find_topics, places_of, start_offsets
from goqueue.spark.reading.splits import cut, task_count
from goqueue.spark.reading.stream_offset import StreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.spark.kafka.cluster import Cluster

_log = logging.getLogger(__name__)

_TOO_LITTLE_PAUSE_S: Final = 0.1


class StreamPlanner:
    """Plans one streaming query, on the driver."""

    def __init__(
        self, options: ReadOptions, *, now: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._options: Final = options
        self._now: Final = now
        self._let_through_at = now()
        self._target: StreamOffset | None = None
        """How far an available-now run goes; set once, at its start."""
        self._committed: StreamOffset | None = None
        """What the group was told last, so that it is told once."""
        self.seen: StreamOffset | None = None
        """The end of the log when it was last looked at, for reports of the lag."""

    @property
    def cluster(self) -> Cluster:
        """The broker; connections are made when they are needed."""
        return shared_cluster(self._options.link)

    # --- Where it starts -------------------------------------------------------------------------

    def initial(self) -> StreamOffset:
        """Where a query without a checkpoint starts.

        Raises:
            TopicMissingError, OffsetsError: what the options name is not there.
        """
        topics = find_topics(self.cluster, self._options.subscription)
        places = places_of(self._options.subscription, topics)
        ends = find_ends(self.cluster, places, self._options.isolation)
        starts = start_offsets(self.cluster, self._options, places, ends)
        inside = {
            place: min(max(at, ends.earliest[place]), ends.latest[place])
            for place, at in starts.items()
        }
        for (topic, number), at in starts.items():
            if inside[TopicPartition(topic, number)] != at:
                first, last = (
                    ends.earliest[TopicPartition(topic, number)],
                    ends.latest[TopicPartition(topic, number)],
                )
                self._lost(f"{topic}-{number} cannot start at {at}: it holds [{first}, {last})")
        ids = {name: view.topic_id for name, view in topics.items()}
        return StreamOffset(ids, inside, starts=inside)

    # --- How far the next micro-batch goes -------------------------------------------------------

    def freeze(self) -> None:
        """From now on, nothing that is newer than now."""
        self._target = self._there()[0]

    def latest(
        self, start: StreamOffset, *, max_offsets: int | None, max_bytes: int | None
    ) -> StreamOffset:
        """The end of the micro-batch that begins at `start`; `start` itself when there is nothing.

        What comes before `start` has been processed: that is when Spark asks.
        """
        self._commit(start)
        end, starts = self._next_end(start)
        if end.offsets == starts and self._target is None:
            self._wait(end)
            end, starts = self._next_end(start)
        if self._is_too_little(starts, end):
            clock.sleep(_TOO_LITTLE_PAUSE_S)
            return start
        self._let_through_at = self._now()
        end = self._limited(end, starts, max_offsets, max_bytes)
        if (end.ids, end.offsets) == (start.ids, start.offsets):
            return start
        return StreamOffset(end.ids, end.offsets, _first_reads(start, end, starts))

    def _next_end(self, start: StreamOffset) -> tuple[StreamOffset, dict[TopicPartition, int]]:
        """Everything that is there behind `start`, and where the next batch starts in it."""
        there, ends = self._there()
        starts = self._continued(start, there, ends)
        latest = {place: max(ends.latest[place], starts[place]) for place in starts}
        if self._target is not None:
            latest = {
                place: max(starts[place], min(at, self._target.offsets.get(place, starts[place])))
                for place, at in latest.items()
            }
        ids = {topic: there.ids[topic] for topic, _ in starts}
        return StreamOffset(ids, latest), starts

    def _there(self) -> tuple[StreamOffset, Ends]:
        """What there is now; what is gone is noticed by comparing it with a start."""
        subscription = self._options.subscription
        topics = find_topics(self.cluster, subscription)
        there = {
            TopicPartition(view.name, number)
            for view in topics.values()
            for number in view.partitions
        }
        places = sorted(there & subscription.places if subscription.places else there)
        ends = find_ends(self.cluster, places, self._options.isolation)
        ids = {name: view.topic_id for name, view in topics.items()}
        self.seen = StreamOffset(ids, ends.latest)
        return self.seen, ends

    def _continued(
        self, start: StreamOffset, there: StreamOffset, ends: Ends
    ) -> dict[TopicPartition, int]:
        """Where each partition goes on; new ones start at their beginning."""
        starts = dict(ends.earliest)
        for place, offset in start.offsets.items():
            topic, number = place
            if place not in starts:
                self._lost(f"{topic}-{number} is gone; it was read up to offset {offset}")
            elif start.ids[topic] != there.ids[topic]:
                self._lost(
                    f"{topic} was deleted and recreated; partition {number} of the old one was "
                    f"read up to {offset}"
                )
            elif offset > ends.latest[place]:
                self._lost(
                    f"{topic}-{number} ends at {ends.latest[place]}; it was read up to {offset}"
                )
                starts[place] = ends.latest[place]
            elif offset < ends.earliest[place]:
                self._lost(
                    f"{topic}-{number}: offsets {offset} to {ends.earliest[place] - 1} are gone"
                )
            else:
                starts[place] = offset
        return starts

    def _lost(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}. Set failOnDataLoss=false to continue with the rest.")
        _log.warning("%s; continuing, because failOnDataLoss=false", text)

    def _wait(self, end: StreamOffset) -> None:
        wait_for_news(
            self.cluster,
            end.ids,
            end.offsets,
            self._options.isolation,
            self._options.idle_poll_s,
        )

    def _is_too_little(self, starts: Mapping[TopicPartition, int], end: StreamOffset) -> bool:
        least = self._options.limits.min_offsets
        if least is None or self._target is not None:
            return False
        if self._now() - self._let_through_at >= self._options.limits.max_delay_s:
            return False
        return sum(end.offsets[place] - at for place, at in starts.items()) < least

    def _limited(
        self,
        end: StreamOffset,
        starts: Mapping[TopicPartition, int],
        max_offsets: int | None,
        max_bytes: int | None,
    ) -> StreamOffset:
        offsets = end.offsets
        if max_offsets is not None:
            offsets = admit_offsets(starts, offsets, max_offsets)
        news = {place: at for place, at in starts.items() if offsets[place] > at}
        if max_bytes is not None and news:
            sizes = sample_record_bytes(self.cluster, end.ids, news, self._options.isolation)
            offsets = admit_bytes(starts, offsets, sizes, max_bytes)
        return StreamOffset(end.ids, offsets)

    # --- What its tasks read ---------------------------------------------------------------------

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[tuple[OffsetRange, ...]]:
        """The ranges of each task of a micro-batch.

        What it is the first to read, its end says itself: for a first batch that is done again,
        `start` may be behind its end. Nothing is looked up, so it is the same tasks each time.
        """
        known = {
            place: at
            for place, at in start.offsets.items()
            if start.ids[place[0]] == end.ids.get(place[0])
        } | dict(end.starts)
        ranges = [
            OffsetRange(
                topic, end.ids[topic], number, known.get(TopicPartition(topic, number), 0), at
            )
            for (topic, number), at in sorted(end.offsets.items())
        ]
        count = task_count(
            sum(max(each.size, 0) for each in ranges),
            cores=default_parallelism(),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return cut(ranges, count)

    # --- What others see of it -------------------------------------------------------------------

    def _commit(self, done: StreamOffset) -> None:
        """Tell the group, if there is one, how far the query has come. A failure is only logged."""
        group = self._options.group_id
        if group is None or done == self._committed or not done.offsets:
            return
        try:
            self.cluster.commit(group, done.offsets)
        except Exception as error:  # noqa: BLE001 - what is shown must never stop what is done
            _log.warning("the offsets of group %s were not stored: %s", group, error)
        self._committed = done


def _first_reads(
    start: StreamOffset, end: StreamOffset, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a batch begins in the partitions that no batch before it has read."""
    return {
        TopicPartition(topic, number): at
        for (topic, number), at in starts.items()
        if start.is_beginning
        or (topic, number) not in start.offsets
        or start.ids[topic] != end.ids[topic]
    }
