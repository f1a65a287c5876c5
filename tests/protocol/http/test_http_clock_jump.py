"""A node whose wall clock jumps says so wherever somebody looks, and goes on when it is told to."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import grpc

from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AdminServiceStub
from support.brokers import read_all
from support.clocks import ShiftedClock
from support.nodes_in_loop import running_nodes
from support.server import HOST

GOQUEUE = Path(sys.executable).with_name("goqueue")
DAY_MS = 24 * 3600 * 1000


async def call(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    def ask() -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        with urlopen(Request(f"http://{HOST}:{port}{path}", data, headers), timeout=60) as answer:
            return json.loads(answer.read()) if path != "/metrics" else answer.read().decode()

    return await asyncio.to_thread(ask)


async def goqueue(port: int, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        GOQUEUE, *arguments, "-s", f"http://{HOST}:{port}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def test_a_jump_is_reported_everywhere_and_resumed(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ShiftedClock()
        flags = ("--storage-retention-check", "50ms")
        async with running_nodes(tmp_path, *flags, clock=clock) as nodes:
            await nodes.broker.create_topic("t", 1, {"internal.segment.bytes": "1024"})
            node = await nodes.leading("t")
            http = node.http.port
            for _ in range(20):
                await node.broker.writer.publish("t", [NewMessage(b"." * 200)])
            due = NewMessage(b"v", partition=0, deliver_at_ms=clock.now_ms() + 9 * DAY_MS)
            (stored,) = await node.broker.writer.publish("t", [due])
            assert stored.error is None
            assert (await call(http, "/health"))["clock"] == "ok"
            assert (await goqueue(http, "maintenance", "status", "-o", "json"))[0] == 0

            clock.shift_ms = 10 * DAY_MS
            async with asyncio.timeout(60):
                while (await read_all(node.broker, "t"))[-1].value != b"v":  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.05)
            assert "jumped forward by 10.0 days" in (await call(http, "/health"))["clock"]
            ready = await call(http, "/readyz?verbose=true")
            assert ready["status"] == "ready"
            assert "goqueue maintenance resume" in ready["checks"]["clock"]
            (line, *_) = (await call(http, "/overview"))["attention"]
            assert line["title"] == "The wall clock jumped forward by 10.0 days"
            assert "goqueue_storage_clock_jump_seconds" in await call(http, "/metrics")
            code, shown = await goqueue(http, "top", "--once", "--interval", "10ms")
            assert code == 0
            assert "the wall clock jumped" in shown
            assert (await goqueue(http, "cluster", "health"))[0] == 1
            async with grpc.aio.insecure_channel(f"{HOST}:{node.grpc.port}") as channel:
                told = await AdminServiceStub(channel).DescribeMaintenance(pb.MaintenanceRequest())
            assert told.stopped
            status = await call(http, "/admin/maintenance")
            assert status["status"] == "stopped"
            assert status["clock_jump_ms"] > 9 * DAY_MS
            partition = node.broker.partitions.partition(TopicPartition("t", 0))
            assert partition.log_start == 0

            code, shown = await goqueue(http, "maintenance", "resume", "--force", "-o", "json")
            assert code == 0
            assert json.loads(shown)["resumed"] is True
            async with asyncio.timeout(60):
                while not partition.log_start:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.05)
            assert (await call(http, "/admin/maintenance"))["status"] == "running"

    asyncio.run(scenario())


def test_grpc_resumes_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ShiftedClock()
        async with (
            running_nodes(tmp_path, clock=clock) as nodes,
            grpc.aio.insecure_channel(f"{HOST}:{nodes.all[0].grpc.port}") as channel,
        ):
            clock.shift_ms = -2 * 3600 * 1000
            admin = AdminServiceStub(channel)
            before = await admin.ResumeMaintenance(pb.MaintenanceRequest())
            assert before.stopped
            assert before.clock_jump_ms < -3600 * 1000
            assert not (await admin.DescribeMaintenance(pb.MaintenanceRequest())).stopped

    asyncio.run(scenario())
