"""Dead letters as rows: what their headers say, whoever wrote them.

The broker and the rules of pipelines say the same things in the same headers, whose names begin
with `goqueue-dlq-`. A message without them is a letter too, of which nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, functions as sql

from goqueue.model.dead_letters import HEADER_PREFIX, REDRIVEN_HEADER, SUFFIX
from goqueue.spark.errors import TopicMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.spark.jobs.link import Link

COLUMNS: Final = "topic partition offset timestamp key headers"

_TEXTS: Final = {
    "reason": "reason",
    "source_topic": "topic",
    "group": "group",
    "error": "error",
}
_NUMBERS: Final = {"source_partition": "partition", "died_ms": "time", "attempts": "attempts"}
_DIGITS: Final = r"^[0-9]{1,18}$"


def find_letter_topics(link: Link, named: Sequence[str]) -> list[str]:
    """The topics that are named, or else all whose names say that they hold dead letters.

    `orders` means `orders.dlq` where there is one: people think of the topic, not of its letters.

    Raises:
        TopicMissingError: there is no such topic.
        SparkSourceError: the broker is unavailable, or refuses.
    """
    with link.cluster() as cluster:
        known = cluster.topics(None)
    if not named:
        return sorted(name for name in known if name.endswith(SUFFIX))
    found = [name + SUFFIX if name + SUFFIX in known else name for name in named]
    missing = [name for name in found if name not in known]
    if missing:
        raise TopicMissingError(
            f"there is no topic {', '.join(map(repr, missing))}, and none with {SUFFIX} behind it"
        )
    return sorted(set(found))


def described(letters: DataFrame) -> DataFrame:
    """Letters with what their headers say: reason, source_topic, group, error, and numbers."""
    texts = {name: _text(HEADER_PREFIX + said) for name, said in _TEXTS.items()}
    numbers = {name: _number(HEADER_PREFIX + said) for name, said in _NUMBERS.items()}
    written_ms = sql.unix_millis("timestamp")
    return (
        letters.withColumns({**texts, **numbers})
        .withColumn("died_ms", sql.coalesce("died_ms", written_ms))
        .withColumn("redriven", sql.coalesce(_number(REDRIVEN_HEADER), sql.lit(0)))
    )


def _text(name: str) -> Column:
    """The last header of a name, as the broker reads it, or null."""
    named = sql.filter("headers", lambda each: each["key"] == name)
    return sql.try_element_at(named, sql.lit(-1))["value"].cast("string")


def _number(name: str) -> Column:
    text = _text(name)
    return sql.when(text.rlike(_DIGITS), text.cast("bigint"))
