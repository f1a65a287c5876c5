"""The node at a glance: what the console shows first, and how groups got on lately."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

import goqueue
from goqueue.insight.lines import STEP_S
from goqueue.insight.overview import Inventory, history_view, take_inventory
from goqueue.model.errors import GoQueueError
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response, json
from goqueue.protocols.http.api.rights import DESCRIBE, on_cluster
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.operations.attention import attention
from goqueue.protocols.http.operations.changes import marks_of
from goqueue.protocols.http.operations.fresh import Fresh
from goqueue.protocols.http.operations.overview_answer import (
    DiskOut,
    HealthOut,
    LatenciesOut,
    Overview,
    ProcessOut,
)
from goqueue.protocols.http.operations.probes import metadata_check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.partitions.health import HealthReport
    from goqueue.protocols.http.api.served_node import ServedNode

_TAG: Final = "overview"
_STEP_MS: Final = round(STEP_S * 1000)


class OverviewSource:
    """The overview as JSON, refreshed at most once a second for all clients."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node
        self._own = Fresh(node.broker.clock, self._make)
        self.elsewhere: Mapping[str, object] = {}
        """What other nodes have last said of each list, for whoever compares."""

    async def read(self) -> bytes:
        """The overview, no older than `FRESH_S`."""
        return await self._own.read()

    async def part(self) -> Overview:
        """What this node knows of itself, for another that puts the parts of all together."""
        return msgspec.structs.replace(await self._make(), marks=marks_of(self._node.broker))

    async def look_elsewhere(self) -> None:
        """Learn what has changed on other nodes; one node has none."""

    async def _make(self) -> Overview:
        node = self._node
        broker = node.broker
        metadata = await metadata_check(node)
        inventory = await take_inventory(broker, node.connection_count)
        await asyncio.sleep(0)  # others have their turn between what takes milliseconds
        report = _report(node)
        lately = broker.history.lately()
        await asyncio.sleep(0)
        return Overview(
            at=broker.clock.now_ms(),
            node_id=broker.settings.node_id,
            version=goqueue.__version__,
            uptime_ms=round(node.uptime_s * 1000),
            health=_health(node, inventory, metadata),
            rates=lately.rates,
            latency_ms=LatenciesOut(lately.publish, lately.fetch, lately.ack),
            totals=inventory.totals,
            disk=None if report is None else _disk(report),
            process=None if report is None else _process(report),
            attention=attention(broker, inventory, lately, report),
            history=history_view(broker, _STEP_MS),
        )


def _report(node: ServedNode) -> HealthReport | None:
    try:
        return node.broker.health.report()
    except GoQueueError:
        return None  # the disk cannot be measured; everything else can still be shown


def _health(node: ServedNode, inventory: Inventory, metadata: str) -> HealthOut:
    disk_full = node.broker.publisher.disk_full
    failed = len(inventory.failed)
    checks = {
        "node": "ok" if node.is_ready else "starting or stopping",
        "metadata": metadata,
        "storage": disk_full or "ok",
        "partitions": f"{failed} refuse to be published to" if failed else "ok",
    }
    if not node.is_ready:
        status = "stopping"
    elif disk_full:
        status = "read_only"
    else:
        status = "ready" if all(each == "ok" for each in checks.values()) else "degraded"
    return HealthOut(status, checks)


def _disk(report: HealthReport) -> DiskOut:
    disk = report.disk
    return DiskOut(disk.total_bytes - disk.free_bytes, disk.total_bytes, disk.free_bytes)


def _process(report: HealthReport) -> ProcessOut:
    use = report.process
    return ProcessOut(
        use.resident_bytes,
        round(report.loop_lag_s * 1000, 3),
        use.open_files,
        use.max_open_files,
        round(report.gc_pause_s * 1000, 3),
    )


class OverviewRoutes:
    """The node at a glance."""

    def __init__(self, node: ServedNode, source: OverviewSource) -> None:
        self._node = node
        self._source = source

    @route(
        "GET",
        "/overview",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        answers={200: Overview},
        place=LOCAL,
    )
    async def overview(self, request: Request) -> Response:
        """The overview page: rates, latency, totals, alerts.

        Refreshed at most once a second. In a cluster it is of all nodes together.
        """
        if request.is_part:
            return json(await self._source.part())
        return Response(200, await self._source.read())
