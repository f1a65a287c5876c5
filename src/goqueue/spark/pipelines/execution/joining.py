"""Steps that put tables side by side or into windows of time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark.errors import ColumnsError
from goqueue.spark.pipelines.execution.topic_tables import as_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from goqueue.spark.pipelines.model import JoinStep, WindowStep

_NAMES: Final = re.compile(r"\s*\w+\s*(?:,\s*\w+\s*)*")
_LEFT_ONLY: Final = ("semi", "anti", "leftsemi", "leftanti", "left_semi", "left_anti")
_BOTH_SIDES: Final = (
    "right",
    "full",
    "outer",
    "rightouter",
    "fullouter",
    "right_outer",
    "full_outer",
)


def window_table(frame: DataFrame, step: WindowStep) -> DataFrame:
    """An aggregate a window: `window_start`, `window_end`, then the groups and the aggregates."""
    frame = as_time(frame, step.on)
    column = F.col(step.on)
    if step.gap is not None:
        window = F.session_window(column, step.gap)
    elif step.slide is not None:
        window = F.window(column, step.size, step.slide)
    else:
        window = F.window(column, step.size)
    grouped = frame.groupBy(window.alias("window"), *(F.expr(each) for each in step.by))
    made = [F.expr(text).alias(name) for name, text in step.select.items()]
    table = grouped.agg(*made) if made else grouped.agg(F.count(F.lit(1)).alias("rows"))
    others = [f"`{each}`" for each in table.columns if each != "window"]
    return table.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *others,
    )


def join_table(
    left: DataFrame,
    right: DataFrame,
    step: JoinStep,
    times: tuple[str | None, str | None],
) -> DataFrame:
    """Two tables as one; `times` are the columns of their watermarks.

    Raises:
        ColumnsError: they are to be near each other in time, and one has no watermark.
    """
    using = [each.strip() for each in step.on.split(",")] if _NAMES.fullmatch(step.on) else []
    conditions = [f"left.`{each}` = right.`{each}`" for each in using] or [f"({step.on})"]
    if step.within is not None:
        conditions.append(_nearness(step, step.within, times))
    joined = left.alias("left").join(
        right.alias("right"), F.expr(" AND ".join(conditions)), step.how
    )
    if step.select:
        return joined.select(*(F.expr(text).alias(name) for name, text in step.select.items()))
    if step.how.lower() in _LEFT_ONLY:
        return joined
    return joined.select(*_all_columns(left, right, using, step))


def _nearness(step: JoinStep, within: str, times: tuple[str | None, str | None]) -> str:
    for side, name, time in zip(("left", "right"), (step.left, step.right), times, strict=True):
        if time is None:
            raise ColumnsError(
                f"within needs a watermark on both tables, and {name} ({side}) has none"
            )
    mine, other = f"left.`{times[0]}`", f"right.`{times[1]}`"
    span = f"INTERVAL {within.lower().removeprefix('interval').strip()}"
    return f"{other} BETWEEN {mine} - {span} AND {mine} + {span}"


def _all_columns(
    left: DataFrame, right: DataFrame, using: list[str], step: JoinStep
) -> list[Column]:
    """Every column once: of those that both have, the left one."""
    both_sides = step.how.lower() in _BOTH_SIDES
    columns = []
    for name in left.columns:
        column = F.col(f"left.`{name}`")
        if name in using and both_sides:
            column = F.coalesce(column, F.col(f"right.`{name}`"))
        columns.append(column.alias(name) if both_sides else column)
    known = {each.lower() for each in left.columns}
    columns += [F.col(f"right.`{each}`") for each in right.columns if each.lower() not in known]
    return columns
