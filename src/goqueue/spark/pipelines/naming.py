"""What queries, groups, checkpoints and dead-letter topics of a pipeline are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model import dead_letters as letters
from goqueue.spark.pipelines.graph import sources_behind, topics_behind
from goqueue.spark.pipelines.model import Otherwise, Pipeline, RulesStep, Step

if TYPE_CHECKING:
    from collections.abc import Iterable


LETTERS: Final = "-dead-letters"
"""What the query of a step's dead letters is called after the step's name."""
DEFAULT_CHECKPOINTS: Final = "checkpoints"


def query_name(pipeline: Pipeline, sink: str) -> str:
    """What Spark calls the query of a sink."""
    return f"{pipeline.name}-{sink}"


def group_name(pipeline: Pipeline, sink: str) -> str:
    """The group under which the broker's tools show how far a sink is."""
    return f"spark-{query_name(pipeline, sink)}"


def checkpoint_of(pipeline: Pipeline, sink: str) -> str:
    """Where a sink keeps how far it is."""
    folder = (pipeline.checkpoints or DEFAULT_CHECKPOINTS).rstrip("/")
    return f"{folder}/{pipeline.name}/{sink}"


def letter_steps(steps: Iterable[Step]) -> list[RulesStep]:
    """The steps that write dead letters."""
    return [each for each in steps if isinstance(each, RulesStep) and keeps_letters(each)]


def keeps_letters(step: RulesStep) -> bool:
    """Whether a step has dead letters at all."""
    return any(each.otherwise is Otherwise.DEAD_LETTER for each in step.rules)


def dead_letter_topic(pipeline: Pipeline, step: RulesStep) -> str | None:
    """Where the dead letters of a step go: where it says, or where the broker's own would go.

    None when they come from several topics and it does not say.
    """
    if step.dead_letters is not None:
        return step.dead_letters
    if any(each.pattern is not None for each in sources_behind(pipeline, step.input)):
        return None
    topics = topics_behind(pipeline, step.input)
    return letters.dead_letter_topic(topics[0]) if len(topics) == 1 else None
