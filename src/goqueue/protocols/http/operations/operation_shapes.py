"""What is answered by probes, and about maintenance and pipelines."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.model.pipeline_reports import PipelineReport
from goqueue.protocols.http.api.shapes import Milliseconds, doc


class Health(msgspec.Struct):
    """How the server is."""

    status: Annotated[str, doc("`ok`, or `failing`.", "ok")]
    timestamp: Milliseconds
    clock: Annotated[
        str,
        doc("`ok`, or that the wall clock has jumped, which stops retention and TTL.", "ok"),
    ] = "ok"
    storage: Annotated[str, doc("`ok`, or why messages cannot be stored.", "ok")] = "ok"


class Status(msgspec.Struct):
    """That it is so."""

    status: str


class Summary(msgspec.Struct):
    """How much there is."""

    node_id: int
    cluster_id: str
    uptime_s: float
    topic_count: int
    partition_count: int
    size_bytes: int
    failed_partitions: Annotated[list[str], doc("Those that refuse to be published to.", [])]


class Readiness(msgspec.Struct, omit_defaults=True):
    """Whether clients should be sent here."""

    status: str
    checks: Annotated[dict[str, str] | None, doc("Each is `ok`, or says what is not.")] = None
    broker: Summary | None = None


class Version(msgspec.Struct):
    """What exactly runs here."""

    version: str
    record_codec: str
    python: str
    event_loop: str
    platform: str


class TopicStats(msgspec.Struct):
    """How much there is of one topic."""

    partition_count: int
    size_bytes: int
    offset_span: Annotated[int, doc("Offsets that can be read.", 120)]
    internal: Annotated[bool, doc("The broker keeps its own state here.")]
    published_per_s: Annotated[float, doc("Messages, over the last minute.", 12.5)]
    failed_partitions: Annotated[int, doc("Those that refuse to be published to.", 0)]


class Stats(Summary):
    """How much there is, in all and by topic."""

    topics: dict[str, TopicStats]


class MaintenanceStatus(msgspec.Struct):
    """Whether anything is deleted by its age."""

    status: Annotated[str, doc("`running`, or `stopped` by a jump of the wall clock.", "running")]
    reason: Annotated[str | None, doc("Why it is stopped, and what to do.")] = None
    clock_jump_ms: Annotated[
        int, doc("How far the wall clock is from where it should be; 0 when it has not jumped.", 0)
    ] = 0


class MaintenanceResumed(msgspec.Struct):
    """That retention and TTL go on."""

    resumed: Annotated[bool, doc("Whether they were stopped.")]
    accepted_jump_ms: Annotated[int, doc("The jump of the wall clock that was accepted.", 0)]


class PipelineList(msgspec.Struct):
    """Every pipeline, by name."""

    pipelines: list[PipelineReport]


class PipelineRemoved(msgspec.Struct):
    """What was forgotten."""

    removed: str
