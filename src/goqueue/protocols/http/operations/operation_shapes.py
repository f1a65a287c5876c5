"""What is answered by probes, and about maintenance and pipelines."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.model.pipeline_reports import PipelineReport
from goqueue.protocols.http.api.gathered import Gathered, Unanswered
from goqueue.protocols.http.api.shapes import Milliseconds, doc


class Health(msgspec.Struct):
    """The health of the server."""

    status: Annotated[str, doc("`ok`, or `failing`.", "ok")]
    timestamp: Milliseconds
    clock: Annotated[
        str,
        doc("`ok`, or a wall clock jump that has stopped retention and TTL.", "ok"),
    ] = "ok"
    storage: Annotated[str, doc("`ok`, or the reason why messages cannot be stored.", "ok")] = "ok"


class Status(msgspec.Struct):
    """A status."""

    status: str


class Summary(msgspec.Struct):
    """Totals."""

    node_id: int
    cluster_id: str
    uptime_s: float
    topic_count: int
    partition_count: int
    size_bytes: int
    failed_partitions: Annotated[list[str], doc("Partitions that refuse appends.", [])]


class Readiness(msgspec.Struct, omit_defaults=True):
    """Readiness."""

    status: str
    checks: Annotated[dict[str, str] | None, doc("`ok`, or the problem, by check.")] = None
    broker: Summary | None = None


class Version(msgspec.Struct):
    """Version of the server and its runtime."""

    version: str
    commit: Annotated[str, doc("The commit that it was built from.", "4c21639a0aa4")]
    built: Annotated[
        str, doc("When it was built; `checkout` for one that runs from its sources.", "checkout")
    ]
    record_codec: str
    python: str
    event_loop: str
    platform: str


class TopicStats(msgspec.Struct):
    """Totals of one topic."""

    partition_count: int
    size_bytes: int
    offset_span: Annotated[int, doc("Messages that can be read.", 120)]
    internal: Annotated[bool, doc("Whether the topic is internal.")]
    published_per_s: Annotated[float, doc("Messages per second, over the last minute.", 12.5)]
    failed_partitions: Annotated[int, doc("Partitions that refuse appends.", 0)]


class Stats(Summary):
    """Totals of all partitions and of each topic."""

    topics: dict[str, TopicStats]
    unanswered: Unanswered = msgspec.UNSET


class MaintenanceStatus(Gathered):
    """Whether retention and TTL are running."""

    status: Annotated[str, doc("`running`, or `stopped` by a wall clock jump.", "running")]
    reason: Annotated[str | None, doc("Why it is stopped, and what to do.")] = None
    clock_jump_ms: Annotated[int, doc("Size of the wall clock jump; 0 when there is none.", 0)] = 0


class MaintenanceResumed(Gathered):
    """Retention and TTL are running again."""

    resumed: Annotated[bool, doc("Whether they were stopped.")]
    accepted_jump_ms: Annotated[int, doc("The jump of the wall clock that was accepted.", 0)]


class PipelineList(msgspec.Struct):
    """Every pipeline, by name."""

    pipelines: list[PipelineReport]


class PipelineRemoved(msgspec.Struct):
    """The pipeline that was removed."""

    removed: str
