"""The settings of tracing."""

# ruff: noqa: RUF009, FBT003 - `setting` makes a field, whatever its default is

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from goqueue.model.limits import MAX_RING_SPANS
from goqueue.server.config_kinds import Choice, Share, Size, Switch, Whole, Word
from goqueue.server.config_table import setting
from goqueue.tracing.files import FileLimits
from goqueue.tracing.ring import RING_SPANS
from goqueue.tracing.store import TracingSettings

_TRACING: Final = TracingSettings()
_FILES: Final = FileLimits()


class OtlpProtocol(StrEnum):
    """How a collector is spoken to."""

    GRPC = "grpc"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSection:
    """What happens to messages, noted event by event; see the page on tracing."""

    enabled: bool = setting(True, Switch(), "Messages are traced.")
    sampling: float = setting(
        _TRACING.sampling,
        Share(),
        "The share of batches that is traced. A topic may say otherwise (`goqueue.trace`).",
    )
    max_batches: int = setting(
        _TRACING.max_batches_a_second,
        Whole(0, 1_000_000),
        "Batches that are traced in a second at most, of topics that do not say otherwise. "
        "0: without bound.",
    )
    max_share: float = setting(
        _TRACING.max_share,
        Share(),
        "The size of trace files beside the bytes published since the start, above the first 4 MB. "
        "Beyond it no batch is traced, but of topics that say otherwise. 1: without bound.",
    )
    ring_size: int = setting(
        RING_SPANS,
        Whole(100, MAX_RING_SPANS),
        "Events that are kept in memory, where searches look.",
    )
    files: bool = setting(
        True, Switch(), "Events are written to files under `traces/` in the data folder."
    )
    file_bytes: int = setting(
        _FILES.file_bytes,
        Size(64 * 1024, 1 << 30),
        "A file of this size is followed by a new one.",
        name="file_size",
    )
    kept_files: int = setting(
        _FILES.kept_files, Whole(1, 10_000), "Files that are kept; of more, the oldest go."
    )
    kept_days: int = setting(_FILES.kept_days, Whole(1, 3650), "Older files go.")
    stdout: bool = setting(False, Switch(), "Spans are printed, a line of JSON each.")
    otlp_endpoint: str | None = setting(
        None,
        Word(),
        "Where a collector takes OTLP, such as `localhost:4317`, or `http://localhost:4318` for "
        "HTTP. Needs the extra `goqueue[otlp]`. Without it nothing is sent.",
    )
    otlp_protocol: OtlpProtocol = setting(
        OtlpProtocol.GRPC, Choice(OtlpProtocol), "How the collector is spoken to."
    )
    otlp_service: str = setting("goqueue", Word(), "What the collector is told that this is.")
