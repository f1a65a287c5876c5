"""Which dead letters have been redriven: what jobs have recorded, and what the broker knows.

A redrive job records which letters it redrives in a topic beside theirs, in the same transaction
as the messages: either both are there or neither is. The broker's own redrive keeps an index, which
is read over HTTP and told what jobs have done. So no letter is redriven twice, whoever does it and
whoever is killed. One race is left: the broker's redrive and a job's of the same letters at the
same moment.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import functions as sql

from goqueue.model.dead_letters import SUFFIX
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark import clock
from goqueue.spark.jobs.reading import read_here, resolve
from goqueue.spark.kafka.cluster import LATEST, READ_COMMITTED, READ_UNCOMMITTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from goqueue.spark.jobs.http import Http
    from goqueue.spark.jobs.link import Link

_SUFFIX: Final = ".redriven"
_LONGEST_NAME: Final = 249 - len(_SUFFIX)
_SETTLING_S: Final = 10.0
"""How long it may take until what a killed job has left open is aborted."""
_LOOK_S: Final = 0.1
_RANGES_A_REQUEST: Final = 10_000
_NOT_FOUND: Final = 404

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of offsets in order, none of which touches the next; ends are not in them."""


@dataclass(frozen=True, slots=True)
class RedrivenIndex:
    """The letters that have been redriven."""

    spans: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    noted: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    """Those of them that jobs have recorded."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Of each topic's letters, the number of the last transaction that sent some."""
    warnings: Sequence[str] = ()

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether a letter has been redriven."""
        return is_in(self.spans.get(place, ()), offset)


def receipts_topic(letters_in: str) -> str:
    """Where jobs record which letters of a topic they have redriven.

    Each topic of letters has one of its own: what a killed job has left open there is aborted by
    the next job on the same letters, and by no other.
    """
    return letters_in[:_LONGEST_NAME] + _SUFFIX


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in as few ranges as there can be."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found


def spans_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Single offsets as ranges."""
    return merged((each, each + 1) for each in offsets)


def is_in(spans: Spans, offset: int) -> bool:
    """Whether a range holds an offset."""
    at = bisect_right(spans, (offset, 2**63)) - 1
    return at >= 0 and spans[at][0] <= offset < spans[at][1]


def look_up(link: Link, topics: Sequence[str], http: Http | None = None) -> RedrivenIndex:
    """Which letters of some topics have been redriven.

    Raises:
        SparkSourceError: the broker is away, or refuses.
    """
    with link.cluster() as cluster:
        views = cluster.topics([*topics, *map(receipts_topic, topics)])
    receipts = [
        each
        for topic in topics
        if receipts_topic(topic) in views
        for each in _receipts(link, topic, views[topic].topic_id)
    ]
    noted: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    numbers: dict[str, int] = {}
    for each in receipts:
        topic, number = str(each["topic"]), int(each["number"])
        spans = [(int(first), int(end)) for first, end in each["ranges"]]
        noted[TopicPartition(topic, int(each["partition"]))] += spans
        numbers[topic] = max(numbers.get(topic, -1), number)
    spans_by_place = {place: list(spans) for place, spans in noted.items()}
    warnings: list[str] = []
    if http is None:
        warnings.append(
            "the broker's HTTP address is not known: letters that it has sent back itself count "
            "as if they had not gone"
        )
    else:
        warnings += _ask_broker(http, link, topics, spans_by_place)
    return RedrivenIndex(
        {place: merged(spans) for place, spans in spans_by_place.items()},
        {place: merged(spans) for place, spans in noted.items()},
        numbers,
        warnings,
    )


def end_of_receipts(link: Link, letters_in: str) -> int:
    """Where the next record will be, or later.

    Raises:
        SparkSourceError: the broker is away, or refuses.
    """
    name = receipts_topic(letters_in)
    return max((end for _, end in resolve(link, [name]).values()), default=0)


def is_written(
    link: Link, letters_in: str, topic_id: str, *, number: int, run: str, from_offset: int
) -> bool:
    """Whether it was this run whose transaction of a number counts.

    Raises:
        SparkSourceError: the broker is away, or refuses.
    """
    deadline_s = clock.monotonic_s() + _SETTLING_S
    while True:
        is_settled = _is_settled(link, receipts_topic(letters_in))
        for each in _receipts(link, letters_in, topic_id, from_offset):
            if (int(each["number"]), each["run"]) == (number, run):
                return True
        if is_settled or clock.monotonic_s() > deadline_s:
            return False
        clock.sleep(_LOOK_S)


def _is_settled(link: Link, topic: str) -> bool:
    """Whether no transaction is open in a topic of one partition, which would hide what follows."""
    place = {TopicPartition(topic, 0): LATEST}
    with link.cluster() as cluster:
        return cluster.offsets_at(place, READ_COMMITTED) == cluster.offsets_at(
            place, READ_UNCOMMITTED
        )


def without(letters: DataFrame, known: RedrivenIndex) -> DataFrame:
    """The letters that have not been redriven."""
    if not known.spans:
        return letters
    spans = {f"{topic}/{number}": list(each) for (topic, number), each in known.spans.items()}

    def is_left(topic: str, partition: int, offset: int) -> bool:
        return not is_in(spans.get(f"{topic}/{partition}", ()), offset)

    left = sql.udf(is_left, "boolean", useArrow=False)
    return letters.where(left("topic", "partition", "offset"))


# --- What jobs have recorded ---------------------------------------------------------------------


def _receipts(
    link: Link, letters_in: str, topic_id: str, from_offset: int = 0
) -> Iterator[dict[str, Any]]:
    """What is recorded of the letters in a topic."""
    for row in read_here(link, receipts_topic(letters_in), "value", from_offset):
        try:
            found = json.loads(row["value"] or b"null")
            # A topic that was deleted and made anew has other letters at the same offsets.
            if (found["topic"], found["id"]) == (letters_in, topic_id):
                yield found
        except (ValueError, TypeError, KeyError):
            continue  # somebody else's


def receipt(
    *, topic: str, topic_id: str, partition: int, number: int, run: str, to: str, spans: Spans
) -> Iterator[bytes]:
    """What is recorded of the letters of one partition, in messages that are not too long."""
    for portion in portions(spans):
        said = {
            "topic": topic,
            "id": topic_id,
            "partition": partition,
            "number": number,
            "run": run,
            "to": to,
            "ranges": portion,
        }
        yield json.dumps(said, separators=(",", ":")).encode()


# --- What the broker knows -----------------------------------------------------------------------


def tell_broker(http: Http, spans: Mapping[TopicPartition, Spans]) -> list[str]:
    """Tell the broker what jobs have redriven; returns warnings, and never fails."""
    for (topic, number), each in spans.items():
        if not topic.endswith(SUFFIX):
            continue  # the broker sends back letters of such topics only
        for portion in portions(each):
            try:
                http.ask(_path(topic, number), {"ranges": portion})
            except OSError as error:
                told = f"{http.url} could not be told what has gone back ({error})"
                return [f"{told}: its own redrive would send it again. The next run tells it"]
    return []


def _ask_broker(
    http: Http,
    link: Link,
    topics: Sequence[str],
    spans: dict[TopicPartition, list[tuple[int, int]]],
) -> list[str]:
    with link.cluster() as cluster:
        views = cluster.topics([each for each in topics if each.endswith(SUFFIX)])
    for topic, view in views.items():
        for number in view.partitions:
            following: int | None = 0
            while following is not None:
                path = f"{_path(topic, number)}?from_offset={following}"
                try:
                    answer = http.ask(path)
                except urllib.error.HTTPError as error:
                    with error:
                        if error.code == _NOT_FOUND:
                            break  # no letters that the broker would send back
                    return [f"{http.url} does not say what has gone back: {error}"]
                except OSError as error:
                    return [f"{http.url} does not say what has gone back: {error}"]
                found = [(first, end) for first, end in answer["ranges"]]
                spans.setdefault(TopicPartition(topic, number), []).extend(found)
                following = answer["next_offset"]
    return []


def _path(topic: str, number: int) -> str:
    source = urllib.parse.quote(topic.removesuffix(SUFFIX), safe="")
    return f"/topics/{source}/redriven/{number}"


def portions(spans: Spans, size: int = _RANGES_A_REQUEST) -> Iterator[Spans]:
    """Ranges, so many at a time."""
    for at in range(0, len(spans), size):
        yield spans[at : at + size]
