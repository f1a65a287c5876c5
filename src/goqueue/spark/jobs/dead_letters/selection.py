"""Which dead letters are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as sql

from goqueue.spark.jobs.error_text import normalised


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters are meant; everything that is said must hold."""

    reason: str | None = None
    group: str | None = None
    source: str | None = None
    """The topic that they came from."""
    error: str | None = None
    """The error, compared without its numbers, ids and quoted texts, as `dlq-triage` shows it."""
    error_like: str | None = None
    """A regular expression that is found in the error."""
    key: bytes | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Died from then on, and before then."""

    def problems(self) -> list[str]:
        """What makes no sense."""
        if self.error_like is not None:
            try:
                re.compile(self.error_like)
            except re.error as error:
                return [f"{self.error_like!r} is no regular expression: {error}"]
        return []

    def of(self, letters: DataFrame) -> DataFrame:
        """The letters that are meant, of those that `described` has described."""
        said = {"reason": self.reason, "group": self.group, "source_topic": self.source}
        for name, wanted in said.items():
            if wanted is not None:
                letters = letters.where(sql.coalesce(name, sql.lit("")) == wanted)
        if self.key is not None:
            letters = letters.where(sql.col("key") == sql.lit(self.key))
        if self.since_ms is not None:
            letters = letters.where(sql.col("died_ms") >= self.since_ms)
        if self.until_ms is not None:
            letters = letters.where(sql.col("died_ms") < self.until_ms)
        if self.error is not None or self.error_like is not None:
            letters = letters.where(sql.udf(self._error_fits, "boolean", useArrow=False)("error"))
        return letters

    def _error_fits(self, error: str | None) -> bool:
        if self.error is not None and normalised(error) != normalised(self.error):
            return False
        return self.error_like is None or re.search(self.error_like, error or "") is not None
