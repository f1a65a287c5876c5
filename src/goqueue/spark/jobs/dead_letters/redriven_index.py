"""Which dead letters have been redriven: the broker knows, and is asked over HTTP.

Jobs of earlier versions redrove letters themselves, and recorded it in a topic beside the letters.
What is recorded there counts too, and the broker is told of it.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import DataFrame, functions as sql

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import SparkSourceError
from goqueue.spark.jobs.dead_letters.broker_redrive import source_path
from goqueue.spark.jobs.reading import read_here

if TYPE_CHECKING:
    from goqueue.spark.http_client import Http
    from goqueue.spark.jobs.link import Link
    from goqueue.spark.kafka.cluster import TopicView

_SUFFIX: Final = ".redriven"
_LONGEST_NAME: Final = 249 - len(_SUFFIX)
_RANGES_A_REQUEST: Final = 10_000
_NOT_FOUND: Final = 404

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of offsets in order, none of which touches the next; ends are not in them."""


@dataclass(frozen=True, slots=True)
class RedrivenIndex:
    """The letters that have been redriven."""

    spans: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    recorded: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    """Those of them that jobs of earlier versions have recorded."""
    warnings: Sequence[str] = ()

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether a letter has been redriven."""
        return is_in(self.spans.get(place, ()), offset)


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


def is_in(spans: Spans, offset: int) -> bool:
    """Whether a range holds an offset."""
    at = bisect_right(spans, (offset, 2**63)) - 1
    return at >= 0 and spans[at][0] <= offset < spans[at][1]


def look_up(link: Link, topics: Sequence[str], http: Http | None) -> RedrivenIndex:
    """Which letters of some topics have been redriven.

    Raises:
        SparkSourceError: the broker is unavailable, or refuses.
    """
    with link.cluster() as cluster:
        views = cluster.topics([*topics, *map(receipts_topic, topics)])
    recorded: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for topic in topics:
        if receipts_topic(topic) in views:
            for each in _receipts(link, topic, views[topic].topic_id):
                spans = [(int(first), int(end)) for first, end in each["ranges"]]
                recorded[TopicPartition(topic, int(each["partition"]))] += spans
    found = {place: list(spans) for place, spans in recorded.items()}
    warnings: list[str] = []
    if http is None:
        warnings.append(
            "the broker's HTTP address is not known: letters that were redriven count as if they "
            "had not been"
        )
    else:
        warnings += _ask_broker(http, {name: views[name] for name in topics}, found)
    return RedrivenIndex(
        {place: merged(spans) for place, spans in found.items()},
        {place: merged(spans) for place, spans in recorded.items()},
        warnings,
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


# --- What jobs of earlier versions have recorded -------------------------------------------------


def receipts_topic(letters_in: str) -> str:
    """Where they recorded which letters of a topic they had redriven."""
    return letters_in[:_LONGEST_NAME] + _SUFFIX


def _receipts(link: Link, letters_in: str, topic_id: str) -> Iterator[dict[str, Any]]:
    for row in read_here(link, receipts_topic(letters_in), "value", 0):
        try:
            found = json.loads(row["value"] or b"null")
            # A topic that was deleted and recreated has other letters at the same offsets.
            if (found["topic"], found["id"]) == (letters_in, topic_id):
                yield found
        except (ValueError, TypeError, KeyError):
            continue  # somebody else's


def tell_broker(http: Http, recorded: Mapping[TopicPartition, Spans]) -> None:
    """Tell the broker what they have redriven, so that it does not redrive it again.

    Raises:
        SparkSourceError: it cannot be told.
    """
    for (topic, number), spans in recorded.items():
        for at in range(0, len(spans), _RANGES_A_REQUEST):
            body = {"letters_in": topic, "ranges": spans[at : at + _RANGES_A_REQUEST]}
            try:
                http.ask(f"{source_path(topic)}/redriven/{number}", body)
            except OSError as error:
                raise SparkSourceError(
                    f"{http.url} cannot be told what {receipts_topic(topic)} says: {error}"
                ) from error


# --- What the broker knows -----------------------------------------------------------------------


def _ask_broker(
    http: Http,
    views: Mapping[str, TopicView],
    spans: dict[TopicPartition, list[tuple[int, int]]],
) -> list[str]:
    for topic, view in views.items():
        holder = urllib.parse.quote(topic, safe="")
        for number in view.partitions:
            following: int | None = 0
            while following is not None:
                query = f"from_offset={following}&letters_in={holder}"
                try:
                    answer = http.ask(f"{source_path(topic)}/redriven/{number}?{query}")
                except urllib.error.HTTPError as error:
                    with error:
                        if error.code == _NOT_FOUND:
                            break  # deleted meanwhile
                    return [f"{http.url} does not say what was redriven: {error}"]
                except OSError as error:
                    return [f"{http.url} does not say what was redriven: {error}"]
                found = [(first, end) for first, end in answer["ranges"]]
                spans.setdefault(TopicPartition(topic, number), []).extend(found)
                following = answer["next_offset"]
    return []
