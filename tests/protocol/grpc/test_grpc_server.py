"""The server around the services: health, reflection, limits, errors, and the contract itself."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import goqueue
from goqueue.model.errors import GoQueueError, InvariantError, OffsetOutOfRangeError
from goqueue.protocols.grpc.errors import GRPC_CODES, status_of, to_error
from goqueue.protocols.grpc.listener import SERVICES
from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import HealthServiceStub
from support.grpc_node import run
from support.grpc_stubs import Stubs

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PROTO = "goqueue/wire/grpc/v1/goqueue.proto"


def test_the_checked_in_stubs_are_what_the_contract_makes(tmp_path):
    binaries = str(Path(sys.executable).parent)
    outputs = ("--python_out", "--grpc_python_out", "--mypy_out", "--mypy_grpc_out")
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "src")),
            *(f"{option}={tmp_path}" for option in outputs),
            PROTO,
        ],
        env={**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        check=True,
    )
    folder = Path(PROTO).parent
    made = sorted(path.name for path in (tmp_path / folder).iterdir())
    assert len(made) == 4
    for name in made:
        kept = (ROOT / "src" / folder / name).read_text(encoding="utf-8")
        assert kept == (tmp_path / folder / name).read_text(encoding="utf-8"), "run: make proto"


# --- Errors ---------------------------------------------------------------------------------------


def every_error() -> Iterator[type[GoQueueError]]:
    for package in pkgutil.walk_packages(goqueue.__path__, "goqueue."):
        if package.name.endswith("errors"):
            importlib.import_module(package.name)
    waiting: list[type[GoQueueError]] = [GoQueueError]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind.__module__.startswith(("goqueue.model", "goqueue.protocols.grpc")):
            yield kind


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_line_that_says_more_than_something_went_wrong(kind):
    vague = kind is GoQueueError or issubclass(kind, InvariantError)
    assert (status_of(kind).code == 500) == vague


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_what_is_the_client_s_to_try_again_has_a_status_that_says_so(kind):
    again = {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.NOT_FOUND,
    }
    if kind.retriable:
        assert status_of(kind).status in again


def test_a_class_without_a_line_takes_its_ancestor_s():
    class NarrowError(OffsetOutOfRangeError):
        pass

    assert NarrowError not in GRPC_CODES
    assert status_of(NarrowError) == status_of(OffsetOutOfRangeError)


def test_an_error_carries_what_a_program_may_want_to_know():
    error = to_error(OffsetOutOfRangeError(9, 2, 5))
    assert dict(error.details) == {"offset": "9", "log_start": "2", "log_end": "5"}


def test_a_bug_is_logged_and_not_shown(tmp_path, caplog, monkeypatch):
    async def scenario(node):
        monkeypatch.setattr(node.broker.topics, "catalogue", "a secret")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{node.port}") as channel:
            call = Stubs(channel).admin.DescribeTopic(pb.TopicRequest(name="t"))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert "str" not in caught.value.details()
        monkeypatch.undo()

    run(tmp_path, scenario)
    assert "/goqueue.v1.AdminService/DescribeTopic failed" in caplog.text


# --- Health and reflection ------------------------------------------------------------------------


def test_every_service_is_healthy_until_the_server_stops(tmp_path):
    async def scenario(node):
        stub: Any = health_pb2_grpc.HealthStub(node.channel)
        for name in ("", *SERVICES):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.create_task(node.stop_listening(2.0))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        await stopping

    run(tmp_path, scenario)


def test_health_is_in_the_contract_too(tmp_path):
    async def scenario(node):
        stub = HealthServiceStub(node.channel)
        for name in ("", *SERVICES):
            answer = await stub.Check(pb.HealthCheckRequest(service=name))
            assert answer.status == pb.SERVING_STATUS_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(pb.HealthCheckRequest(service="nobody"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        stranger = stub.Watch(pb.HealthCheckRequest(service="nobody"))
        assert (await stranger.read()).status == pb.SERVING_STATUS_SERVICE_UNKNOWN
        watch = stub.Watch(pb.HealthCheckRequest(service=SERVICES[0]))
        assert (await watch.read()).status == pb.SERVING_STATUS_SERVING
        stopping = asyncio.create_task(node.stop_listening(60.0))
        assert (await watch.read()).status == pb.SERVING_STATUS_NOT_SERVING
        assert await watch.read() is grpc.aio.EOF
        await stopping

    run(tmp_path, scenario)


@pytest.mark.parametrize("reflection", [True, False])
def test_strangers_may_ask_for_the_services_only_where_the_settings_say_so(tmp_path, reflection):
    async def scenario(node):
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(node.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        if reflection:
            found = {each.name for each in (await call.read()).list_services_response.service}
            assert set(SERVICES) <= found
            call.cancel()
        else:
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED

    run(tmp_path, scenario, reflection=reflection)


# --- Limits ---------------------------------------------------------------------------------------


def test_a_request_beyond_the_limit_is_refused_and_nothing_is_stored(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        request = pb.PublishRequest(topic="t")
        request.messages.add(value=bytes(MAX_MESSAGE_BYTES))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await node.stubs.publish.Publish(request)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        seen = await node.stubs.admin.DescribeTopic(pb.TopicRequest(name="t"))
        assert seen.partitions[0].log_end == 0

    run(tmp_path, scenario)


def test_a_stored_message_that_grpc_cannot_carry_is_named(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1, {"max.message.bytes": str(8 << 20)})
        await node.broker.writer.publish("t", [NewMessage(bytes(5 << 20))])
        call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t"))
        await call.read()
        with pytest.raises(grpc.aio.AioRpcError, match="offset 0") as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(tmp_path, scenario)


def test_two_servers_cannot_share_a_port(tmp_path):
    async def scenario(node):
        from goqueue.protocols.grpc.listener import GrpcListener, GrpcSettings  # noqa: PLC0415

        second = GrpcListener(node.broker, GrpcSettings(port=node.port))
        with pytest.raises(OSError, match="in use"):
            await second.start()

    run(tmp_path, scenario)
