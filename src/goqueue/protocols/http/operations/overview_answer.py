"""What is answered about a node, or a cluster, at a glance."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.insight.overview import HistoryView, Totals
from goqueue.insight.vitals import Percentiles, Rates
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import Milliseconds, doc
from goqueue.protocols.http.operations.attention import Attention


class HealthOut(msgspec.Struct):
    """The state of the node."""

    status: Annotated[str, doc("ready, degraded, read_only or stopping.", "ready")]
    checks: Annotated[dict[str, str], doc("`ok`, or the problem, by check.")]


class LatenciesOut(msgspec.Struct):
    """In milliseconds, over the last minute."""

    publish: Percentiles
    fetch: Percentiles
    ack: Percentiles


class DiskOut(msgspec.Struct):
    """The disk that holds the data."""

    used_bytes: int
    total_bytes: int
    free_bytes: int


class ProcessOut(msgspec.Struct):
    """The server process; null where a value is not available."""

    rss_bytes: int | None
    loop_lag_ms: Annotated[float, doc("Worst value of the last 30 to 60 seconds.", 1.5)]
    open_files: int | None
    max_open_files: int | None
    gc_pause_ms: Annotated[float, doc("Sum of all collections since the start.", 12.5)]


class NodeOverview(msgspec.Struct):
    """One node of a cluster."""

    node_id: int
    version: str
    uptime_ms: int
    status: Annotated[str, doc("ready, degraded, read_only or stopping.", "ready")]
    disk: DiskOut | None
    process: ProcessOut | None


class Overview(Gathered):
    """The current state of the node, and the history of its last half hour.

    In a cluster rates, totals, alerts and history are of all nodes together, and latencies the
    worst of them; version, uptime, disk and process are those of the node that was asked.
    """

    at: Milliseconds
    node_id: int
    version: str
    uptime_ms: int
    health: HealthOut
    rates: Rates
    latency_ms: LatenciesOut
    totals: Totals
    disk: DiskOut | None
    process: ProcessOut | None
    attention: Annotated[list[Attention], doc("The most urgent first.", [])]
    history: HistoryView
    nodes: Annotated[
        list[NodeOverview] | msgspec.UnsetType, doc("In a cluster: every node that has answered.")
    ] = msgspec.UNSET
    marks: Annotated[
        dict[str, int] | msgspec.UnsetType,
        doc("Between nodes: numbers that change when a list of the node does."),
    ] = msgspec.UNSET
