"""Streams that the broker's own tools can see: a query's progress as the offsets of a group."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.monitoring.query_reports import QueryReports
from goqueue.spark.options.link_options import link_settings
from goqueue.spark.reading.stream_offset import read_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.kafka.settings import LinkSettings

_log = logging.getLogger(__name__)


_PATIENCE_S: Final = 5.0
"""Spark calls its listeners one after the other: none may hold up the rest for long."""


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
        self._cluster = Cluster(replace(link, patience_s=min(link.patience_s, _PATIENCE_S)))
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
