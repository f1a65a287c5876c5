"""Queries that belong to no pipeline, shown as if each were one: see `track`."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from goqueue.spark import clock
from goqueue.spark.monitoring.failures import reason_of
from goqueue.spark.monitoring.progress import QueryProgress, RunProgress, RunState
from goqueue.spark.monitoring.query_progress import Tally
from goqueue.spark.monitoring.reporting import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from goqueue.spark.kafka.settings import LinkSettings

_MAX_QUERIES: Final = 100
"""Reported at once, with a thread each; more are not reported."""


class QueryReports:
    """Reports what a listener hears of each query, from threads that hold up nobody."""

    def __init__(self, link: LinkSettings, http: str, group_of: Callable[[str], str]) -> None:
        self._link = link
        self._http = http
        self._group_of = group_of
        self._running: dict[str, tuple[Tally, RunProgress, Reporter]] = {}

    def started(self, event: QueryStartedEvent) -> None:
        """A query is there."""
        if len(self._running) >= _MAX_QUERIES:
            return
        name = event.name or str(event.id)
        query = QueryProgress(name=name, sink="query", group=self._group_of(name))
        run = RunProgress(
            name=name,
            state=RunState.RUNNING,
            started_at=clock.now_ms(),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self._running[str(event.runId)] = Tally(query), run, Reporter(self._link, self._http)
        self._tell(str(event.runId), RunState.RUNNING)

    def progressed(self, event: QueryProgressEvent) -> None:
        """It has done a micro-batch, or has nothing to do."""
        run_id = str(event.progress.runId)
        if run_id in self._running:
            said = json.loads(event.progress.json)
            tally = self._running[run_id][0]
            tally.absorb(said)
            sink = (said.get("sink") or {}).get("description") or "query"
            topics = tuple(dict.fromkeys(topic for topic, _ in tally.offsets))
            tally.progress = replace(tally.progress, sink=sink, sources=topics)
            self._tell(run_id, RunState.RUNNING)

    def ended(self, event: QueryTerminatedEvent) -> None:
        """It is over; one that was stopped cannot be told from one that was done."""
        run_id = str(event.runId)
        if run_id in self._running:
            error = None if event.exception is None else reason_of(event.exception)
            state = RunState.FINISHED if error is None else RunState.FAILED
            self._tell(run_id, state, error)
            self._running.pop(run_id)[2].close(wait=False)

    def _tell(self, run_id: str, state: RunState, error: str | None = None) -> None:
        tally, run, reporter = self._running[run_id]
        query = replace(tally.progress, state=state, error=error)
        offsets = {query.group: tally.offsets} if query.group is not None else {}
        reporter.tell(replace(run, state=state, error=error, queries=(query,)), offsets)
