"""What a broker has for a pipeline: whether its topics are there, and how much waits in them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.consuming.log_offsets import EARLIEST, LATEST, READ_COMMITTED
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.kafka.cluster import Cluster, TopicView
from goqueue.spark.options.bounds import WORDS, parse_moment, parse_offsets
from goqueue.spark.options.link_options import link_settings
from goqueue.spark.pipelines.model import Pipeline, TopicSource
from goqueue.spark.pipelines.naming import checkpoint_of
from goqueue.spark.pipelines.planning import QueryPlan, topics_of
from goqueue.spark.reading.resolving import find_ends
from goqueue.spark.reading.stream_offset import keep_least, read_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_MAX_LOG_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of the pipeline as the broker has it."""

    topic: str
    use: str
    """`read`, `written` or `dead letters`."""
    partitions: int | None
    """None: it is not there."""
    messages: int | None
    note: str = ""
    """What will be done about it, or has to be."""
    is_missing: bool = False
    """It has to be made before the pipeline can run."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All of it."""

    topics: tuple[TopicState, ...]
    waiting: Mapping[str, int]
    """Messages that a query has yet to read, by its name."""

    def as_dict(self) -> dict[str, Any]:
        """For `-o json`."""
        return {"topics": [asdict(each) for each in self.topics], "waiting": dict(self.waiting)}


def survey(pipeline: Pipeline, queries: Sequence[QueryPlan], *, patience_s: float) -> Survey:
    """Ask the broker.

    Raises:
        SparkSourceError: it does not answer within `patience_s`, or not to us.
    """
    link = link_settings(pipeline.link_options)
    with Cluster(link.within(patience_s)) as cluster:
        known = _known_topics(pipeline, cluster)
        places = [
            TopicPartition(name, number)
            for name, each in known.items()
            for number in each.partitions
        ]
        starts, ends = find_ends(cluster, places, READ_COMMITTED)
        first = _first_offsets(pipeline, cluster, starts, ends)
    topics = _states(pipeline, known, starts, ends)
    waiting = {
        each.name: _waiting(pipeline, each, known, first, ends)
        for each in queries
        if each.is_stream
    }
    return Survey(tuple(topics), waiting)


def _known_topics(pipeline: Pipeline, cluster: Cluster) -> dict[str, TopicView]:
    """Those that are named and there, and those that a pattern means."""
    named = topics_of(pipeline)
    patterns = [each for each in _topic_sources(pipeline) if each.pattern is not None]
    if not patterns:
        return cluster.topics(named)
    return {
        name: each
        for name, each in cluster.topics(None).items()
        if name in named or (not each.is_internal and any(one.reads(name) for one in patterns))
    }


def _topic_sources(pipeline: Pipeline) -> list[TopicSource]:
    return [each for each in pipeline.sources if isinstance(each, TopicSource)]


def _states(
    pipeline: Pipeline,
    known: Mapping[str, TopicView],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[TopicState]:
    named = topics_of(pipeline)
    found = []
    for name in dict.fromkeys((*named, *known)):
        use, create = named.get(name, ("read", None))
        if name in known:
            numbers = known[name].partitions
            messages = sum(
                ends[TopicPartition(name, each)] - starts[TopicPartition(name, each)]
                for each in numbers
            )
            found.append(TopicState(name, use, len(numbers), messages))
        elif create is None:
            hint = f"missing: goqueue topic create {name}"
            hint += ", or say create: 3" if use == "written" else ""
            found.append(TopicState(name, use, None, None, hint, is_missing=True))
        else:
            plural = "" if create == 1 else "s"
            count = f" with {create} partition{plural}" if create else ""
            found.append(TopicState(name, use, None, None, f"will be made{count}"))
    return found


def _first_offsets(
    pipeline: Pipeline,
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where a first run begins to read; of sources that read the same, the earliest."""
    found: dict[TopicPartition, int] = {}
    for source in _topic_sources(pipeline):
        places = [place for place in starts if source.reads(place.topic)]
        keep_least(found, _located(cluster, source, places, starts, ends))
    return {place: found.get(place, at) for place, at in starts.items()}


def _located(
    cluster: Cluster,
    source: TopicSource,
    places: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    said = (source.starting or "earliest").strip()
    words = {EARLIEST: starts, LATEST: ends}
    if said.startswith("{") or said.lower() in WORDS:
        bound = parse_offsets(said)
        asked = {place: bound.offsets.get(place, bound.everywhere) for place in places}
    else:
        moments = dict.fromkeys(places, parse_moment(said))
        found = cluster.offsets_at(moments, READ_COMMITTED)
        asked = {place: LATEST if at < 0 else at for place, at in found.items()}
    return {
        place: words[at][place] if at in words else max(at, starts[place])
        for place, at in asked.items()
        if at is not None
    }


def _waiting(
    pipeline: Pipeline,
    query: QueryPlan,
    known: Mapping[str, TopicView],
    first: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> int:
    """From where the checkpoint is, or from where a first run begins."""
    done = read_checkpoint(checkpoint_of(pipeline, query.name))
    patterns = [each for each in _topic_sources(pipeline) if each.pattern in query.topics]
    places = [
        TopicPartition(name, number)
        for name in known
        if name in query.topics or any(each.reads(name) for each in patterns)
        for number in known[name].partitions
    ]
    return sum(max(ends[place] - done.get(place, first[place]), 0) for place in places)


def read_checkpoint(folder: str) -> dict[TopicPartition, int]:
    """What the last finished micro-batch of a query had read; nothing where nothing is known.

    Spark keeps a file a micro-batch: a version, a line about the batch, then a line a source.
    """
    try:
        done = [each for each in Path(folder, "commits").iterdir() if each.name.isdecimal()]
        last = max(done, key=lambda each: int(each.name))
        with Path(folder, "offsets", last.name).open(encoding="utf-8") as opened:
            lines = opened.read(_MAX_LOG_BYTES).splitlines()[2:]
    except (OSError, ValueError):  # no such folder, no batch yet, or none that can be read
        return {}
    found: dict[TopicPartition, int] = {}
    for line in lines:
        keep_least(found, read_offsets(line))
    return found
