"""Which table of a pipeline is made of which, and what is behind it in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.pipelines.model import (
    JoinStep,
    Pipeline,
    PipelineError,
    Problem,
    PythonStep,
    SqlStep,
    Step,
    TopicSource,
)
from goqueue.spark.pipelines.sql_tables import read_query

if TYPE_CHECKING:
    from collections.abc import Collection


def inputs_of(step: Step, tables: Collection[str]) -> tuple[str, ...]:
    """The tables that a step is made of, those of them that the pipeline has."""
    match step:
        case SqlStep():
            read = {each.lower() for each in read_query(step.sql).tables}
            return tuple(each for each in tables if each.lower() in read)
        case PythonStep():
            named = step.inputs
        case JoinStep():
            named = (step.left, step.right)
        case _:
            named = (step.input,)
    return tuple(each for each in named if each in tables)


def in_order(pipeline: Pipeline) -> list[Step]:
    """The steps, each after those that it is made of.

    Raises:
        PipelineError: some are made of each other.
    """
    inputs = {each.name: inputs_of(each, pipeline.table_names) for each in pipeline.steps}
    waiting = {each.name: each for each in pipeline.steps}
    ordered: list[Step] = []
    while waiting:
        ready = [
            step
            for step in waiting.values()
            if not any(each in waiting for each in inputs[step.name])
        ]
        if not ready:
            first = next(iter(waiting.values()))
            names = ", ".join(waiting)
            problem = Problem(f"these steps form a cycle: {names}", line=first.line)
            raise PipelineError((problem,), pipeline.file)
        ordered += [waiting.pop(step.name) for step in ready]
    return ordered


def sources_behind(pipeline: Pipeline, table: str) -> list[TopicSource]:
    """The topics that a table is made of in the end, in the order of the file."""
    behind = tables_behind(pipeline, table)
    return [
        each for each in pipeline.sources if isinstance(each, TopicSource) and each.name in behind
    ]


def topics_behind(pipeline: Pipeline, table: str) -> tuple[str, ...]:
    """Their names; a pattern stands for itself."""
    found = dict.fromkeys(
        name
        for source in sources_behind(pipeline, table)
        for name in (source.topics or (source.pattern or "",))
    )
    return tuple(found)


def tables_behind(pipeline: Pipeline, table: str) -> set[str]:
    """Every source and step that a table is made of, and the table itself."""
    inputs = {each.name: inputs_of(each, pipeline.table_names) for each in pipeline.steps}
    found: set[str] = set()
    waiting = [table]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += inputs.get(name, ())
    return found
