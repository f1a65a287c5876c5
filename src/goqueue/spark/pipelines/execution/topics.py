"""The topics that a pipeline reads and writes: there before it starts, or made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.model.dead_letters import RETENTION_MS
from goqueue.spark.errors import BrokerRefusedError
from goqueue.spark.kafka.cluster import Cluster, TopicView
from goqueue.spark.kafka.topic_admin import ensure_topic
from goqueue.spark.options.link_options import link_settings
from goqueue.spark.pipelines.graph import topics_behind
from goqueue.spark.pipelines.model import (
    Pipeline,
    PipelineError,
    Problem,
    RulesStep,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.naming import dead_letter_topic, letter_steps
from goqueue.spark.pipelines.planning import topics_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.kafka.settings import LinkSettings


@dataclass(frozen=True, slots=True)
class _Missing:
    """A topic that is not there yet and has to be."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    line: int | None
    path: str


def link_of(pipeline: Pipeline) -> LinkSettings:
    """How the pipeline reaches its broker.

    Raises:
        OptionsError: it does not say so, or not so that it can be understood.
    """
    return link_settings(pipeline.link_options)


def prepare_topics(pipeline: Pipeline) -> dict[str, int]:
    """See to it that every topic is there; says how many partitions each has.

    Raises:
        PipelineError: some are missing and nothing says to make them, or the broker refuses to.
        BrokerAwayError: the broker does not answer, for as long as the options allow.
    """
    with Cluster(link_of(pipeline)) as cluster:
        known = cluster.topics(topics_of(pipeline))
        missing, problems = _compare(pipeline, known)
        if not problems:
            problems = _make(cluster, missing)
    if problems:
        raise PipelineError(tuple(problems), pipeline.file)
    counts = {name: len(each.partitions) for name, each in known.items()}
    return {each.name: each.partitions for each in missing} | counts


def _compare(
    pipeline: Pipeline, known: Mapping[str, TopicView]
) -> tuple[list[_Missing], list[Problem]]:
    problems: list[Problem] = []
    missing: dict[str, _Missing] = {}
    for sink in pipeline.sinks:
        if not isinstance(sink, TopicSink) or sink.topic in known:
            continue
        path = f"sinks.{sink.name}"
        if sink.create is None:
            text = f"there is no topic {sink.topic!r} to write to: create it, or say create: 3"
            problems.append(Problem(text, line=sink.line, path=path))
        else:
            missing[sink.topic] = _Missing(sink.topic, sink.create, {}, sink.line, path)
    for source in pipeline.sources:
        for name in source.topics if isinstance(source, TopicSource) else ():
            if name not in known and name not in missing:
                text = f"there is no topic {name!r} to read"
                problems.append(Problem(text, line=source.line, path=f"sources.{source.name}"))
    for step in letter_steps(pipeline.steps):
        _compare_letters(pipeline, step, known, missing, problems)
    return list(missing.values()), problems


def _compare_letters(
    pipeline: Pipeline,
    step: RulesStep,
    known: Mapping[str, TopicView],
    missing: dict[str, _Missing],
    problems: list[Problem],
) -> None:
    path = f"steps.{step.name}"
    name = dead_letter_topic(pipeline, step)
    if name is None:
        text = "its rules have dead letters of several topics: say where they go (dead_letters)"
        problems.append(Problem(text, line=step.line, path=path))
    elif name not in known:
        behind = [known[each] for each in topics_behind(pipeline, step.input) if each in known]
        count = max((len(each.partitions) for each in behind), default=1)
        settings = {"retention.ms": str(RETENTION_MS)}
        missing.setdefault(name, _Missing(name, count, settings, step.line, path))


def _make(cluster: Cluster, missing: list[_Missing]) -> list[Problem]:
    problems = []
    for topic in missing:
        try:
            ensure_topic(cluster, topic.name, topic.partitions, topic.settings)
        except BrokerRefusedError as error:
            problems.append(Problem(str(error), line=topic.line, path=topic.path))
    return problems
