"""Spans for a collector that takes OTLP, over gRPC or HTTP: Jaeger, Tempo, and most others.

Needs the extra `goqueue[otlp]`. Nothing here is imported unless a collector is configured.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status as SpanStatus, StatusCode

from goqueue.model.errors import TraceExportError
from goqueue.tracing.events import Entry, Event, Span, span_of

if TYPE_CHECKING:
    from collections.abc import Mapping


BATCH: Final = 100
"""Spans in one request."""
FLUSH_S: Final = 5.0
_TIMEOUT_S: Final = 10.0
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_SCOPE: Final = InstrumentationScope("goqueue.tracing")
_KINDS: Final[dict[str, SpanKind]] = {
    Event.RECEIVED: SpanKind.SERVER,
    Event.FETCHED: SpanKind.SERVER,
    Event.ACKED: SpanKind.SERVER,
    Event.NACKED: SpanKind.SERVER,
    Event.REJECTED: SpanKind.SERVER,
}


class OtlpExporter:
    """Sends spans to a collector."""

    def __init__(self, endpoint: str, protocol: str, *, resource: Mapping[str, str]) -> None:
        self.name = f"OTLP at {endpoint}"
        self._resource = Resource(dict(resource))
        self._exporter = _exporter(endpoint, protocol)

    def export(self, entries: list[Entry]) -> None:
        """Send a span for each message.

        Raises:
            TraceExportError: the collector did not take them.
        """
        spans = (
            span_for(span_of(entry, offset), self._resource)
            for entry in entries
            for _, offset in entry.traces()
        )
        while portion := tuple(islice(spans, BATCH)):
            if self._exporter.export(portion) is not SpanExportResult.SUCCESS:
                raise TraceExportError("the collector did not take them")

    def close(self) -> None:
        """Stop trying."""
        self._exporter.shutdown()


def _exporter(endpoint: str, protocol: str) -> SpanExporter:
    """The library's own, which reads what headers to send from its environment variables."""
    if protocol == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - one of two
            OTLPSpanExporter as HttpExporter,
        )

        url = endpoint if "://" in endpoint else f"http://{endpoint}"
        if not url.rstrip("/").endswith("/v1/traces"):
            url = url.rstrip("/") + "/v1/traces"
        return HttpExporter(url, timeout=_TIMEOUT_S)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - one of two
        OTLPSpanExporter as GrpcExporter,
    )

    insecure = not endpoint.startswith("https://")
    return GrpcExporter(endpoint, insecure=insecure, timeout=_TIMEOUT_S)


def span_for(span: Span, resource: Resource) -> ReadableSpan:
    """A span as OpenTelemetry has it."""
    trace_id = int(span.trace_id, 16)
    parent = None
    if span.parent_id:
        parent = SpanContext(trace_id, int(span.parent_id, 16), is_remote=True)
    status = SpanStatus(StatusCode.ERROR, span.error) if span.error else SpanStatus()
    return ReadableSpan(
        span.event,
        SpanContext(trace_id, int(span.span_id, 16), is_remote=False, trace_flags=_SAMPLED),
        parent,
        resource,
        _attributes(span),
        kind=_KINDS.get(span.event, SpanKind.INTERNAL),
        status=status,
        start_time=span.timestamp_ns - span.duration_ns,
        end_time=span.timestamp_ns,
        instrumentation_scope=_SCOPE,
    )


def _attributes(span: Span) -> dict[str, str | int]:
    """What the conventions for messaging name, under their names; the rest under ours."""
    said: dict[str, str | int | None] = {
        "messaging.system": "goqueue",
        "messaging.destination.name": span.topic or None,
        "messaging.destination.partition.id": (
            None if span.partition is None else str(span.partition)
        ),
        "messaging.kafka.offset": span.offset,
        "messaging.consumer.group.name": span.group or None,
        "messaging.client.id": span.consumer or None,
        "goqueue.priority": span.priority,
        "goqueue.receipt": span.receipt or None,
        "goqueue.deliver_at_ms": span.deliver_at_ms,
        "goqueue.delay_ms": span.delay_ms,
        "goqueue.node": span.node or None,
        **{f"goqueue.{name}": value for name, value in span.attributes.items()},
    }
    return {name: value for name, value in said.items() if value is not None}
