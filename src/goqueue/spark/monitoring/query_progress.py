"""How far a query is, read from what Spark says of its last micro-batches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from goqueue.spark import clock
from goqueue.spark.monitoring.failures import reason_of
from goqueue.spark.reading.stream_offset import keep_least, read_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from goqueue.model.pipeline_reports import QueryState
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.monitoring.progress import QueryProgress


@dataclass(slots=True)
class Tally:
    """What is known of a query."""

    progress: QueryProgress
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """What its sources have been read up to."""

    def absorb(self, said: Mapping[str, Any]) -> None:
        """Take in what Spark says after a micro-batch, or now and then when there is none."""
        sources = said.get("sources") or []
        rows = sum(each.get("numInputRows") or 0 for each in sources)
        if offsets := _offsets(sources, "endOffset"):
            self.offsets = offsets
        operators = said.get("stateOperators") or []
        late = sum(each.get("numRowsDroppedByWatermark") or 0 for each in operators)
        self.progress = replace(
            self.progress,
            id=said.get("id"),
            run_id=said.get("runId"),
            batch_id=said.get("batchId"),
            batch_ms=(said.get("durationMs") or {}).get("triggerExecution"),
            rows=self.progress.rows + rows,
            rows_per_second=_rate(said.get("processedRowsPerSecond")),
            input_rows_per_second=_rate(said.get("inputRowsPerSecond")),
            lag=lag_of(sources),
            state_rows=(
                sum(each.get("numRowsTotal") or 0 for each in operators) if operators else None
            ),
            late_rows=self.progress.late_rows + late,
            watermark=_moment((said.get("eventTime") or {}).get("watermark")),
            updated_at=clock.now_ms(),
        )


@dataclass(slots=True)
class Watched(Tally):
    """A query of the run, and what is known of it."""

    query: StreamingQuery = field(kw_only=True)
    is_ending: bool = field(kw_only=True)
    """It ends by itself when everything is done."""
    _seen: str = ""
    _is_cut_off: bool = False

    def stop(self) -> None:
        """End it before it has ended by itself."""
        if self.query.isActive:
            self._is_cut_off = True
            self.query.stop()

    def look(self) -> None:
        """Learn what has happened since the last look."""
        state = self._state()
        news = [json.loads(each.json) for each in self.query.recentProgress]
        for each in news:
            if each["timestamp"] > self._seen:
                self._seen = each["timestamp"]
                self.absorb(each)
        error = self.query.exception() if state == "failed" else None
        self.progress = replace(
            self.progress, state=state, error=None if error is None else reason_of(error)
        )

    def _state(self) -> QueryState:
        if self.query.isActive:
            return "running"
        if self.query.exception() is not None:
            return "failed"
        is_done = self.is_ending and not self._is_cut_off
        return "finished" if is_done else "stopped"


def lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Messages that are there and not yet read; None when no source says."""
    latest = _offsets(sources, "latestOffset")
    ends = _offsets(sources, "endOffset")
    if not latest or not ends:
        return None
    return sum(max(offset - ends.get(place, 0), 0) for place, offset in latest.items())


def _offsets(sources: Iterable[Mapping[str, Any]], which: str) -> dict[TopicPartition, int]:
    """The offsets of all sources of a query; of a topic that is read twice, the smaller ones."""
    found: dict[TopicPartition, int] = {}
    for source in sources:
        said = source.get(which)
        text = said if isinstance(said, str) or said is None else json.dumps(said)
        keep_least(found, read_offsets(text))
    return found


def _rate(value: Any) -> float | None:
    """A number that JSON can hold: Spark's may be infinite."""
    return round(float(value), 3) if isinstance(value, int | float) and abs(value) < 1e15 else None


def _moment(text: str | None) -> int | None:
    if not text:
        return None
    moment = round(datetime.fromisoformat(text).timestamp() * 1000)
    return moment or None  # 1970: no row has moved it yet
