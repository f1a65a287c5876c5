"""From what the options say to offsets that the broker has."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, NamedTuple

from goqueue.client.consuming.log_offsets import EARLIEST, LATEST
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OffsetsError, TopicMissingError
from goqueue.spark.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from goqueue.spark.kafka.cluster import Cluster, TopicView
    from goqueue.spark.options.bounds import Bound
    from goqueue.spark.options.read_options import ReadOptions, Subscription

_log = logging.getLogger(__name__)

_MAX_SHOWN = 10


class Ends(NamedTuple):
    """The first offset and the one after the last, in each partition."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


def find_topics(cluster: Cluster, subscription: Subscription) -> dict[str, TopicView]:
    """The topics that are subscribed to and exist. A pattern leaves out the broker's own."""
    topics = cluster.topics(subscription.names)
    if subscription.pattern is None:
        return topics
    pattern = re.compile(subscription.pattern)
    return {
        name: view
        for name, view in topics.items()
        if pattern.fullmatch(name) and not view.is_internal
    }


def places_of(subscription: Subscription, topics: Mapping[str, TopicView]) -> list[TopicPartition]:
    """The partitions to read, sorted.

    Raises:
        TopicMissingError: a topic or a partition that was named is not there.
    """
    there = {
        TopicPartition(view.name, number) for view in topics.values() for number in view.partitions
    }
    missing = [repr(name) for name in subscription.names or () if name not in topics]
    missing += [
        f"{topic!r} partition {number}"
        for topic, number in sorted(subscription.places - there)
        if topic in topics
    ]
    if missing:
        raise TopicMissingError(f"there is no topic {', no topic '.join(missing)}")
    return sorted(subscription.places or there)


def find_ends(cluster: Cluster, places: Collection[TopicPartition], isolation: int) -> Ends:
    """Where the partitions start and end now."""
    if not places:
        return Ends({}, {})
    return Ends(
        cluster.offsets_at(dict.fromkeys(places, EARLIEST), isolation),
        cluster.offsets_at(dict.fromkeys(places, LATEST), isolation),
    )


def locate(
    cluster: Cluster,
    bound: Bound,
    places: Collection[TopicPartition],
    ends: Ends,
    options: ReadOptions,
) -> dict[TopicPartition, int | None]:
    """The offset of a bound in each partition; None where no message is that young.

    A moment is looked for a little later than the ends were, and messages come and go: it never
    leads out of what there was.
    """
    _check_named(bound, places)
    if not bound.is_by_time:
        asked = {place: bound.offsets.get(place, bound.everywhere) for place in places}
        words = {EARLIEST: ends.earliest, LATEST: ends.latest}
        return {
            place: words[offset][place] if offset in words else offset
            for place, offset in asked.items()
            if offset is not None
        }
    moments = {place: bound.moments.get(place, bound.moment_ms) for place in places}
    found = cluster.offsets_at(
        {place: moment for place, moment in moments.items() if moment is not None},
        options.isolation,
    )
    return {
        place: min(max(offset, ends.earliest[place]), ends.latest[place]) if offset >= 0 else None
        for place, offset in found.items()
    }


def _check_named(bound: Bound, places: Collection[TopicPartition]) -> None:
    if bound.places is None:
        return
    missing, extra = sorted(set(places) - bound.places), sorted(bound.places - set(places))
    if missing or extra:
        raise OffsetsError(
            "offsets must be given for exactly the partitions that are read: "
            + "; ".join(
                f"{what}: {', '.join(f'{topic}-{number}' for topic, number in some[:_MAX_SHOWN])}"
                for what, some in (("missing", missing), ("not read", extra))
                if some
            )
        )


def start_offsets(
    cluster: Cluster, options: ReadOptions, places: Collection[TopicPartition], ends: Ends
) -> dict[TopicPartition, int]:
    """Where the read starts.

    Raises:
        OffsetsError: the partitions do not have what the options say.
    """
    found = locate(cluster, options.start, places, ends, options)
    young = [place for place, offset in found.items() if offset is None]
    if young and options.start_without_match == "error":
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(young)[:_MAX_SHOWN])
        raise OffsetsError(
            f"no message of {names} is at or after the starting time; set "
            "startingOffsetsByTimestampStrategy=latest to start those at their ends"
        )
    return {
        place: ends.latest[place] if offset is None else offset for place, offset in found.items()
    }


def batch_ranges(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """What a batch query reads.

    Raises:
        TopicMissingError, OffsetsError: what the options name is not there.
    """
    topics = find_topics(cluster, options.subscription)
    places = places_of(options.subscription, topics)
    ends = find_ends(cluster, places, options.isolation)
    starts = start_offsets(cluster, options, places, ends)
    found = locate(cluster, options.end, places, ends, options)
    ranges = []
    for topic, number in places:
        end = found[TopicPartition(topic, number)]
        at = ends.latest[TopicPartition(topic, number)] if end is None else end
        ranges.append(
            OffsetRange(
                topic, topics[topic].topic_id, number, starts[TopicPartition(topic, number)], at
            )
        )
    by_time = options.start.is_by_time or options.end.is_by_time
    return checked(ranges, ends, clips=not options.fail_on_data_loss, may_be_empty=by_time)


def checked(
    ranges: Collection[OffsetRange], ends: Ends, *, clips: bool, may_be_empty: bool = False
) -> list[OffsetRange]:
    """The ranges, if the partitions have them; clipped to what they have where that is wanted.

    Raises:
        OffsetsError: with every range that is not there.
    """
    backwards: list[str] = []
    gone: list[str] = []
    good: list[OffsetRange] = []
    for each in ranges:
        first, last = ends.earliest[each.place], ends.latest[each.place]
        start, end = (min(max(at, first), last) for at in (each.start, each.end))
        if start > end and not may_be_empty:
            backwards.append(f"{each} ends before it starts")
            continue
        if (start, end) != (each.start, each.end):
            text = f"{each} is not all there: the partition holds [{first}, {last})"
            if not clips:
                gone.append(text)
            else:
                _log.warning("%s; reading what is there", text)
        good.append(each._replace(start=start, end=max(start, end)))
    if backwards or gone:
        hint = ". Offsets that are gone can be left out with failOnDataLoss=false" if gone else ""
        raise OffsetsError("; ".join([*backwards, *gone][:_MAX_SHOWN]) + hint)
    return good
