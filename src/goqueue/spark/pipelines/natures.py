"""What can be said of each table without Spark: a stream or not, its watermark, what keeps state.

Where SQL or Python hides the answer, it is left open: nobody is told off on a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from goqueue.spark.pipelines.graph import in_order, inputs_of
from goqueue.spark.pipelines.model import (
    JoinStep,
    Pipeline,
    PythonStep,
    RulesStep,
    SqlStep,
    Step,
    TopicSource,
    WindowStep,
)
from goqueue.spark.pipelines.sql_tables import read_query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Kind(StrEnum):
    """What keeps rows between micro-batches."""

    AGGREGATE = "aggregate"
    JOIN = "join"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class Stateful:
    """One operator with state on a stream."""

    kind: Kind
    step: str
    text: str
    """For people."""
    has_watermark: bool | None
    """Whether its state is dropped in the end; None: cannot be told."""
    is_outer: bool = False


@dataclass(frozen=True, slots=True)
class Nature:
    """One table."""

    is_stream: bool = False
    time: str | None = None
    """The column of its watermark, as far as it can be told."""
    is_open: bool = False
    """A function in Python is behind it, which may have done anything."""
    is_renamed: bool = False
    """A query or function is behind it: columns may have other names than at the source."""
    operators: tuple[Stateful, ...] = ()


def natures_of(pipeline: Pipeline) -> dict[str, Nature]:
    """The nature of every source and step, by name.

    Raises:
        PipelineError: steps are made of each other.
    """
    found: dict[str, Nature] = {}
    for source in pipeline.sources:
        if isinstance(source, TopicSource):
            time = source.watermark.column if source.watermark else None
            found[source.name] = Nature(is_stream=source.streaming, time=time)
        else:
            found[source.name] = Nature()
    for step in in_order(pipeline):
        inputs = [found[each] for each in inputs_of(step, pipeline.table_names)]
        found[step.name] = _made(step, inputs, found)
    return found


def _made(step: Step, inputs: Sequence[Nature], tables: Mapping[str, Nature]) -> Nature:
    base = _together(inputs)
    match step:
        case RulesStep():
            return base
        case PythonStep():
            time = step.watermark.column if step.watermark else base.time
            return replace(base, time=time, is_open=True, is_renamed=True)
        case SqlStep():
            return _queried(step, base, inputs)
        case WindowStep():
            return _windowed(step, base)
        case JoinStep():
            return _joined(step, base, tables)


def _together(inputs: Sequence[Nature]) -> Nature:
    operators = dict.fromkeys(each for nature in inputs for each in nature.operators)
    return Nature(
        is_stream=any(each.is_stream for each in inputs),
        time=next((each.time for each in inputs if each.time is not None), None),
        is_open=any(each.is_open for each in inputs),
        is_renamed=any(each.is_renamed for each in inputs),
        operators=tuple(operators),
    )


def _queried(step: SqlStep, base: Nature, inputs: Sequence[Nature]) -> Nature:
    query = read_query(step.sql)
    streams = [each for each in inputs if each.is_stream]
    has_watermark = None if base.is_open or base.time is not None else False
    made: list[Stateful] = []
    if len(streams) > 1 and query.has_join:
        made.append(Stateful(Kind.JOIN, step.name, "join of streams in SQL", has_watermark))
    if streams and query.is_aggregate:
        is_sure = len(streams) == len(inputs)
        sure = has_watermark if is_sure else None
        made.append(Stateful(Kind.AGGREGATE, step.name, "aggregate in SQL", sure))
    if streams and query.is_distinct:
        made.append(Stateful(Kind.DISTINCT, step.name, "DISTINCT in SQL", has_watermark))
    return replace(
        base,
        time=step.watermark.column if step.watermark else base.time,
        is_renamed=True,
        operators=(*base.operators, *made),
    )


def _windowed(step: WindowStep, base: Nature) -> Nature:
    if not base.is_stream:
        return replace(base, is_renamed=True)
    has_watermark: bool | None = base.time == step.on
    if not has_watermark and (base.is_open or (base.is_renamed and base.time is not None)):
        has_watermark = None
    if step.gap is not None:
        text = f"sessions on {step.on} that end after {step.gap}"
    else:
        text = f"windows of {step.size} on {step.on}"
        text += f" every {step.slide}" if step.slide else ""
    text += f" by {', '.join(step.by)}" if step.by else ""
    made = Stateful(Kind.AGGREGATE, step.name, text, has_watermark)
    # Its rows have window_start and window_end, and a watermark on neither.
    return replace(base, time=None, is_renamed=True, operators=(*base.operators, made))


def _joined(step: JoinStep, base: Nature, tables: Mapping[str, Nature]) -> Nature:
    left, right = tables.get(step.left, Nature()), tables.get(step.right, Nature())
    if not (left.is_stream and right.is_stream):
        return replace(base, is_renamed=base.is_renamed or bool(step.select))
    has_watermark: bool | None = left.time is not None and right.time is not None
    if not has_watermark and (left.is_open or right.is_open):
        has_watermark = None
    text = f"{step.how} join of {step.left} and {step.right} on {step.on}"
    text += f" within {step.within}" if step.within else ""
    is_outer = step.how != "inner"
    made = Stateful(Kind.JOIN, step.name, text, has_watermark, is_outer)
    return replace(base, time=left.time, is_renamed=True, operators=(*base.operators, made))
