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
    """Message tracing; see the page on tracing."""

    enabled: bool = setting(True, Switch(), "Messages are traced.")
    sampling: float = setting(
        _TRACING.sampling,
        Share(),
        "The share of batches that is traced. A topic may override it (`goqueue.trace`).",
    )
    max_batches: int = setting(
        _TRACING.max_batches_a_second,
        Whole(0, 1_000_000),
        "The most batches traced per second, of topics without `goqueue.trace`. 0: no bound.",
    )
    max_share: float = setting(
        _TRACING.max_share,
        Share(),
        "The size of trace files beside the bytes published since the start, above the first 4 MB. "
        "Beyond it only topics with `goqueue.trace` are traced. 1: no bound.",
    )
    ring_size: int = setting(
        RING_SPANS,
        Whole(100, MAX_RING_SPANS),
        "Events held in memory, for searches.",
    )
    files: bool = setting(
        True, Switch(), "Events are written to files under `traces/` in the data folder."
    )
    file_bytes: int = setting(
        _FILES.file_bytes,
        Size(64 * 1024, 1 << 30),
        "A new file is started at this size.",
        name="file_size",
    )
    kept_files: int = setting(
        _FILES.kept_files,
        Whole(1, 10_000),
        "Files that are retained; the oldest beyond it are deleted.",
    )
    kept_days: int = setting(_FILES.kept_days, Whole(1, 3650), "Older files are deleted.")
    stdout: bool = setting(False, Switch(), "Spans are printed, a line of JSON each.")
    otlp_endpoint: str | None = setting(
        None,
        Word(),
        "The OTLP endpoint of a collector, such as `localhost:4317`, or `http://localhost:4318` "
        "for "
        "HTTP. Needs the extra `goqueue[otlp]`. Not set: nothing is sent.",
    )
    otlp_protocol: OtlpProtocol = setting(
        OtlpProtocol.GRPC, Choice(OtlpProtocol), "The OTLP protocol."
    )
    otlp_service: str = setting("goqueue", Word(), "The service name in exported spans.")
