"""Spans at a real OTLP receiver, over gRPC and HTTP."""

from __future__ import annotations

import gzip
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from support.http_api import HttpApi
from support.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

__all__ = ["start_server"]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


class Receiver(TraceServiceServicer):
    """Keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.tokens: set[str | None] = set()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - as the contract has it
        self.tokens.add(dict(context.invocation_metadata()).get("x-token"))
        self.requests.append(request)
        return ExportTraceServiceResponse()

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def over_grpc() -> Iterator[tuple[Receiver, list[str]]]:
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield receiver, ["--tracing-otlp-endpoint", f"127.0.0.1:{port}"]
    server.stop(None).wait()


@pytest.fixture
def over_http() -> Iterator[tuple[Receiver, list[str]]]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            receiver.tokens.add(self.headers.get("x-token"))
            receiver.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    yield receiver, ["--tracing-otlp-endpoint", url, "--tracing-otlp-protocol", "http"]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("wire", ["over_grpc", "over_http"])
def test_a_collector_receives_the_same_spans(
    start_server: Callable[..., ServerProcess], request: pytest.FixtureRequest, wire: str
) -> None:
    receiver, flags = request.getfixturevalue(wire)
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "x-token=secret"}
    server = start_server("--tracing-sampling", "1", *flags, environment=environment)
    api = HttpApi(server.http_port)
    api.post("/topics", {"name": "orders", "num_partitions": 1})
    traceparent = {"name": "traceparent", "value": f"00-{TRACE}-{SPAN}-01"}
    api.publish("orders", "own", headers=[traceparent])
    api.publish("orders", *(f"m{at}" for at in range(150)))
    member = api.post("/groups/g/join", {"topics": ["orders"], "assignment": "shared"})["member_id"]
    (message,) = api.get(f"/groups/g/poll?member_id={member}&timeout=60s&limit=1")["messages"]
    handle = {"receipt_handle": message["receipt_handle"], "reason": "torn"}
    api.post("/messages/reject", handle)
    wanted = 3 * 151 + 3
    deadline = time.monotonic() + 90
    while len(receiver.spans()) < wanted:
        assert time.monotonic() < deadline, len(receiver.spans())
        time.sleep(0.1)
    told = api.get(f"/traces/{TRACE}")["spans"]
    received = {span.span_id.hex(): span for span in receiver.spans()}
    assert len(received) == len(receiver.spans())
    for span in told:
        twin = received[span["span_id"]]
        assert twin.trace_id.hex() == TRACE
        assert twin.parent_span_id.hex() == SPAN
        assert twin.name == span["event"]
        assert twin.end_time_unix_nano == span["timestamp_ns"]
        said = {each.key: each.value for each in twin.attributes}
        assert said["messaging.destination.name"].string_value == "orders"
        assert said["messaging.kafka.offset"].int_value == 0
    assert {span["event"] for span in told} >= {"consume.rejected", "dlq.routed"}
    assert any(
        span.status.code == 2 and span.status.message == "torn" for span in received.values()
    )
    resource = receiver.requests[0].resource_spans[0].resource
    assert {each.key for each in resource.attributes} >= {"service.name", "service.instance.id"}
    assert (
        max(
            sum(len(s.spans) for r in each.resource_spans for s in r.scope_spans)
            for each in receiver.requests
        )
        <= 100
    )
    assert receiver.tokens == {"secret"}
    stats = api.get("/traces/stats")["exporters"]
    assert [each["dropped"] for each in stats] == [0, 0]
    api.close()


def test_a_collector_that_is_not_there_costs_traces_and_no_message(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server("--tracing-sampling", "1", "--tracing-otlp-endpoint", "127.0.0.1:9")
    api = HttpApi(server.http_port)
    api.post("/topics", {"name": "orders", "num_partitions": 1})
    assert [each["offset"] for each in api.publish("orders", "a", "b")] == [0, 1]
    assert api.get("/topics/orders/partitions/0/messages/1/trace")["status"] == "pending"
    started = time.monotonic()
    assert api.ask("GET", f"/traces/{TRACE}").code == "unknown_trace"
    assert time.monotonic() - started < 60
    api.close()
    assert server.stop() == 0
