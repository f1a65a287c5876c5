"""Rows that broke a rule, as messages that the broker's own tools take for dead letters.

The header names and the words for reasons are those of the broker's queue groups, so that
`goqueue queue dlq`, its HTTP routes and redrives work on them; three more say which rule of which
step it was. A redrive takes all of them off again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.model.dead_letters import HEADER_PREFIX, Reason
from goqueue.spark.pipelines.execution.rules import BROKEN, row_as_json, rules_of
from goqueue.spark.pipelines.execution.topic_tables import ORIGIN, PARSED
from goqueue.spark.pipelines.model import Otherwise, Rule, RulesStep

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_ORIGIN_TYPES: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "headers": _HEADERS_TYPE,
}


def letters_of(
    frame: DataFrame, step: RulesStep, *, pipeline: str, group: str, partitions: int
) -> DataFrame:
    """Dead letters as the sink takes them: `key`, `value`, `partition` and `headers`.

    Args:
        frame: The rows, with the rules that they break.
        step: Whose rules these are.
        pipeline: Its name.
        group: Whose dead letters these are, in the broker's words.
        partitions: How many the dead-letter topic has.
    """
    origin = _origin(frame)
    said = _dead_letter_headers(frame, step, origin, pipeline=pipeline, group=group)
    written = F.array(
        *(
            F.struct(
                F.lit(HEADER_PREFIX + name).alias("key"),
                text.cast("string").cast("binary").alias("value"),
            )
            for name, text in said.items()
        )
    )
    known = F.filter(written, lambda each: each["value"].isNotNull())
    before = F.coalesce(origin["headers"], F.array().cast(_HEADERS_TYPE))
    kept = F.filter(before, lambda each: ~each["key"].startswith(HEADER_PREFIX))
    # As the broker does it: the letters of a partition stay together, in their order.
    partition = F.pmod(origin["partition"], F.lit(partitions)).cast("int")
    columns = [origin["key"].alias("key"), origin["value"].alias("value")]
    headers = F.concat(kept, known).cast(_HEADERS_TYPE).alias("headers")
    if _has_partition(frame):
        columns.append(partition.alias("partition"))
    return frame.select(*columns, headers)


def _has_partition(frame: DataFrame) -> bool:
    return ORIGIN in frame.columns or _is(frame, "partition", "int")


def _origin(frame: DataFrame) -> dict[str, Column]:
    """The message that a row was: as it was stored, as columns have it, or the row itself."""
    if ORIGIN in frame.columns:
        return {each: F.col(f"{ORIGIN}.{each}") for each in (*_ORIGIN_TYPES, "value")}
    found = {
        name: F.col(f"`{name}`") if _is(frame, name, kind) else F.lit(None).cast(kind)
        for name, kind in _ORIGIN_TYPES.items()
    }
    raw = next((each for each in ("rawValue", "value") if _is(frame, each, "binary")), None)
    found["value"] = F.col(raw) if raw is not None else row_as_json(frame).cast("binary")
    return found


def _is(frame: DataFrame, column: str, kind: str) -> bool:
    return column in frame.columns and frame.schema[column].dataType.simpleString() == kind


def _expectation(rule: Rule) -> str:
    if rule.expect.strip() == PARSED:
        return "the value could not be parsed"
    return f"expected {rule.expect}"


def _dead_letter_headers(
    frame: DataFrame,
    step: RulesStep,
    origin: dict[str, Column],
    *,
    pipeline: str,
    group: str,
) -> dict[str, Column]:
    """What the headers say; what is null is left out."""
    rules = [each for each in rules_of(step, frame.columns) if each.otherwise is not Otherwise.FAIL]
    errors = F.array_compact(
        F.array(
            *(
                F.when(
                    F.array_contains(BROKEN, each.name),
                    F.lit(f"rule {each.name}: {_expectation(each)}"),
                )
                for each in rules
            )
        )
    )
    parsed = F.col(PARSED) if PARSED in frame.columns else F.expr("true")
    return {
        "topic": origin["topic"],
        "partition": origin["partition"],
        "offset": origin["offset"],
        "timestamp": F.unix_millis(origin["timestamp"]),
        "group": F.lit(group),
        "consumer": F.lit(f"pipeline {pipeline}"),
        "reason": F.when(parsed, Reason.REJECTED.value).otherwise(Reason.POISON_MESSAGE.value),
        "error": F.array_join(errors, "; "),
        "attempts": F.lit(1),
        "time": F.unix_millis(F.current_timestamp()),
        "pipeline": F.lit(pipeline),
        "step": F.lit(step.name),
        "rule": F.array_join(BROKEN, ","),
    }
