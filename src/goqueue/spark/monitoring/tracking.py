"""Streaming queries outside of pipelines, reported to the broker: see `track`."""

from __future__ import annotations

import json
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from goqueue.spark import clock
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.monitoring.failures import reason_of
from goqueue.spark.monitoring.progress import QueryProgress, RunProgress
from goqueue.spark.monitoring.query_progress import Tally
from goqueue.spark.monitoring.reporting import Reporter
from goqueue.spark.options.link_options import link_settings
from goqueue.spark.reading.stream_offset import read_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from goqueue.model.pipeline_reports import QueryState
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.kafka.settings import LinkSettings

_log = logging.getLogger(__name__)

_PATIENCE_S: Final = 5.0
"""Spark calls its listeners one after the other: none may hold up the rest for long."""
_MAX_QUERIES: Final = 100
"""Reported at once, with a thread each; more are not reported."""


def track(
    spark: SparkSession,
    bootstrap_servers: str,
    *,
    group: str | Callable[[str], str] | None = None,
    http: str | None = None,
    **options: str,
) -> StreamingQueryListener:
    """Publish how far every streaming query of a session has read, after each micro-batch.

    `goqueue group describe spark-NAME` then shows the query's offsets and its lag, as it does for
    any consumer. Nothing reads these offsets back: a query restarts from its checkpoint.

    Args:
        spark: The session whose queries are to be seen.
        bootstrap_servers: The broker that they read from.
        group: The group, or a function from the query's name (its id, when it has none) to the
            group; `spark-NAME` by default.
        http: The broker's HTTP address; if given, each query is shown among the pipelines, too.
        options: Options of a connection as a query takes them, such as `kafka.sasl.username`.

    Returns:
        The listener; `spark.streams.removeListener` ends the tracking.
    """
    link = link_settings({"bootstrap.servers": bootstrap_servers, **options})
    if group is None:
        named: Callable[[str], str] = "spark-{}".format
    elif callable(group):
        named = group
    else:
        named = str(group).format
    listener = ProgressListener(link, named, http)
    spark.streams.addListener(listener)
    return listener


class ProgressListener(StreamingQueryListener):
    """Commits the end of each micro-batch when Spark says that it is done."""

    def __init__(
        self, link: LinkSettings, group_of: Callable[[str], str], http: str | None = None
    ) -> None:
        self._reports = None if http is None else QueryReports(link, http, group_of)
        self._cluster = Cluster(link.within(min(link.patience_s, _PATIENCE_S)))
        self._group_of = group_of
        self._last: dict[str, dict[TopicPartition, int]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing has been read yet."""
        if self._reports is not None:
            self._reports.started(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Tell the group how far this query is; a failure is only logged."""
        progress = event.progress
        if self._reports is not None:
            self._reports.progressed(event)  # and the offsets go with it
            return
        group = self._group_of(progress.name or str(progress.id))
        offsets: dict[TopicPartition, int] = {}
        for source in progress.sources:
            offsets |= read_offsets(source.endOffset)
        if not offsets or self._last.get(group) == offsets:
            return
        try:
            self._cluster.commit(group, offsets)
        except Exception as error:  # noqa: BLE001 - what is shown must never stop what is done
            _log.warning("the offsets of group %s were not stored: %s", group, error)
            return
        self._last[group] = offsets

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing new: the group knows already."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The group keeps what it was told last; another query connects anew."""
        self._cluster.close()
        if self._reports is not None:
            self._reports.ended(event)


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
            state="running",
            started_at=clock.now_ms(),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self._running[str(event.runId)] = Tally(query), run, Reporter(self._link, self._http)
        self._tell(str(event.runId), "running")

    def progressed(self, event: QueryProgressEvent) -> None:
        """It has done a micro-batch, or has nothing to do."""
        run_id = str(event.progress.runId)
        if run_id in self._running:
            said = json.loads(event.progress.json)
            tally = self._running[run_id][0]
            tally.absorb(said)
            sink = (said.get("sink") or {}).get("description") or "query"
            topics = dict.fromkeys(topic for topic, _ in tally.offsets)
            tally.progress = replace(tally.progress, sink=sink, sources=tuple(topics))
            self._tell(run_id, "running")

    def ended(self, event: QueryTerminatedEvent) -> None:
        """It is over; one that was stopped cannot be told from one that was done."""
        run_id = str(event.runId)
        if run_id in self._running:
            error = None if event.exception is None else reason_of(event.exception)
            self._tell(run_id, "finished" if error is None else "failed", error)
            self._running.pop(run_id)[2].close(wait=False)

    def _tell(self, run_id: str, state: QueryState, error: str | None = None) -> None:
        tally, run, reporter = self._running[run_id]
        query = replace(tally.progress, state=state, error=error)
        offsets = {query.group: tally.offsets} if query.group is not None else {}
        reporter.tell(replace(run, state=state, error=error, queries=(query,)), offsets)
