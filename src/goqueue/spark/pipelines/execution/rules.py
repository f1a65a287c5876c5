"""Rules: which rows of a table may go on, and what becomes of those that may not.

A row is looked at once: all rules that it breaks are known together, and the severest says what
becomes of it (fail, then dead letter, then drop). Rules are conditions on the row alone, so the
query that takes the good rows and the one that takes the dead letters always agree on each row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.pipelines.execution.topic_tables import HIDDEN, ORIGIN, PARSED
from goqueue.spark.pipelines.model import Otherwise, Rule, RulesStep
from goqueue.spark.pipelines.naming import keeps_letters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


BROKEN: Final = "__broken"
"""A hidden column: the names of the rules that a row breaks."""
PARSES: Final = "parses"
"""The rule that holds without being written wherever dead letters are kept of parsed values."""
_CHANGING: Final = re.compile(
    r"\b(?:(?:rand|randn|random|uuid|shuffle|now|monotonically_increasing_id|spark_partition_id)\s*\("
    r"|(?:current_timestamp|current_date|current_time|localtimestamp|curdate|unix_timestamp\s*\(\s*\))"
    r")",
    re.IGNORECASE,
)
_SHOWN: Final = 300
"""Characters of a row that an error shows."""


class RuleError(SparkSourceError):
    """A rule that cannot be one."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What rules make of a table."""

    good: DataFrame
    """With the hidden columns of its input."""
    letters: DataFrame | None
    """The rows for the dead-letter topic, with `BROKEN`; None when no rule says so."""


def rules_of(step: RulesStep, columns: list[str]) -> tuple[Rule, ...]:
    """The rules of a step, with the one that nobody has to write.

    What could not be parsed is all null and would break most other rules, for the wrong reason.
    """
    is_said = any(PARSED in each.expect or each.name == PARSES for each in step.rules)
    if keeps_letters(step) and PARSED in columns and not is_said:
        return (Rule(name=PARSES, expect=PARSED), *step.rules)
    return step.rules


def check_rules(frame: DataFrame, step: RulesStep) -> Checked:
    """The good rows of a table, and those for the dead-letter topic.

    Raises:
        RuleError: a rule asks for more than the row, such as the time of day.
    """
    rules = rules_of(step, frame.columns)
    for rule in rules:
        if found := _CHANGING.search(rule.expect):
            raise RuleError(
                f"rule {rule.name}: {found[0].rstrip('( ')} gives another answer each time it is "
                "asked, and a row could be good and bad at once: compare with a column of the row"
            )
    checked = frame.withColumn(BROKEN, _broken(rules, is_parsed=PARSED in frame.columns))
    fatal = _named(rules, Otherwise.FAIL)
    dead_lettered = _named(rules, Otherwise.DEAD_LETTER)
    good = F.size(BROKEN) == 0
    if fatal:
        good = F.when(_breaks(fatal), F.raise_error(_complaint(frame, step, rules))).otherwise(good)
    letters = None
    if dead_lettered:
        bad = _breaks(dead_lettered)
        letters = checked.where(bad & ~_breaks(fatal) if fatal else bad)
    return Checked(checked.where(good).drop(BROKEN), letters)


def _named(rules: tuple[Rule, ...], otherwise: Otherwise) -> list[str]:
    return [each.name for each in rules if each.otherwise is otherwise]


def _breaks(names: list[str]) -> Column:
    return F.arrays_overlap(F.col(BROKEN), F.array(*(F.lit(each) for each in names)))


def _broken(rules: tuple[Rule, ...], *, is_parsed: bool) -> Column:
    names = F.array_compact(
        F.array(*(F.when(F.expr(each.expect), None).otherwise(F.lit(each.name)) for each in rules))
    )
    parses = next((each.name for each in rules if each.expect.strip() == PARSED), None)
    if is_parsed and parses is not None:
        return F.when(F.col(PARSED), names).otherwise(F.array(F.lit(parses)))
    return names


def _complaint(frame: DataFrame, step: RulesStep, rules: tuple[Rule, ...]) -> Column:
    """What the error says: rule, place and row."""
    expected = F.lit("")
    for rule in reversed([each for each in rules if each.otherwise is Otherwise.FAIL]):
        broken = F.array_contains(BROKEN, rule.name)
        text = F.lit(f"rule {rule.name} of {step.name} is broken (expected {rule.expect})")
        expected = F.when(broken, text).otherwise(expected)
    row = F.substring(row_as_json(frame), 1, _SHOWN)
    return F.concat(expected, F.lit(" by "), place_of(frame), F.lit(": "), row)


def place_of(frame: DataFrame) -> Column:
    """Where a row's message is, as text; `a row` when that is not known any more."""
    if ORIGIN in frame.columns:
        origin = f"{ORIGIN}."
    elif {"topic", "partition", "offset"} <= set(frame.columns):
        origin = ""
    else:
        return F.lit("a row")
    topic, partition, offset = (
        F.col(f"{origin}{each}").cast("string") for each in ("topic", "partition", "offset")
    )
    place = F.concat(topic, F.lit("-"), partition, F.lit(" at offset "), offset)
    return F.coalesce(place, F.lit("a row"))


def row_as_json(frame: DataFrame) -> Column:
    """A row as one JSON object, with its nulls and without what is hidden."""
    shown = [F.col(f"`{each}`") for each in frame.columns if each not in {*HIDDEN, BROKEN}]
    return F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
