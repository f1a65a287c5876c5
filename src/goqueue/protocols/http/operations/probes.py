"""Health and information: what a supervisor, a load balancer and a person at a terminal ask."""

from __future__ import annotations

import asyncio
import platform
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

import goqueue
from goqueue.cluster.facts import ACTIVE, AWAY, STOPPING
from goqueue.model.errors import DiskError, GoQueueError
from goqueue.partitions.health import failed_logs
from goqueue.protocols.http.api.errors import StoppingError, UnavailableError
from goqueue.protocols.http.api.places import LOCAL, gather
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response, json
from goqueue.protocols.http.api.rights import DESCRIBE, HEALTH, METRICS, on_cluster
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.operations.cluster_shapes import ClusterMetrics, NodeMetrics
from goqueue.protocols.http.operations.operation_merges import merge_metrics, merge_stats
from goqueue.protocols.http.operations.operation_shapes import (
    Health,
    Readiness,
    Stats,
    Status,
    Summary,
    TopicStats,
    Version,
)
from goqueue.runtime.build_info import build_info

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.metrics.registry import Reading
    from goqueue.partitions.partition import Partition
    from goqueue.protocols.http.api.served_node import ServedNode

_CHECK_S: Final = 2.0
"""How long a part may take to say that it is well."""
_HEALTH: Final = "health"
_STATS: Final = "statistics"


class ReadyQuery(msgspec.Struct):
    """Level of detail."""

    verbose: Annotated[bool, doc("Include the checks.")] = False


class ProbeRoutes:
    """Probes and totals."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node

    @route(
        "GET", "/health", right=HEALTH, tag=_HEALTH, answers={200: Health, 503: Health}, place=LOCAL
    )
    async def health(self) -> Response:
        """Whether messages can be stored, and the server's time.

        503 when the disk is full or has refused a write; `/healthz` only reports that the server
        responds.
        """
        broker, storage = self._node.broker, await storage_check(self._node)
        clock = broker.clock_guard.stopped() or "ok"
        is_well = storage == "ok"
        answer = Health("ok" if is_well else "failing", broker.clock.now_ms(), clock, storage)
        return json(answer, HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE)

    @route("GET", "/healthz", right=HEALTH, tag=_HEALTH, place=LOCAL)
    async def alive(self) -> Status:
        """Liveness: the event loop responds."""
        return Status("ok")

    @route("GET", "/livez", right=HEALTH, tag=_HEALTH, place=LOCAL)
    async def started(self) -> Status:
        """Startup: whether the start has completed."""
        if not self._node.is_started:
            raise StoppingError("the server is starting")
        return Status("ok")

    @route(
        "GET",
        "/readyz",
        right=HEALTH,
        tag=_HEALTH,
        answers={200: Readiness, 503: Readiness},
        place=LOCAL,
    )
    async def ready(self, query: ReadyQuery) -> Response:
        """Readiness; with `?verbose=true`, by check."""
        checks = {
            "node": "ok" if self._node.is_ready else "starting or stopping",
            "metadata": await metadata_check(self._node),
            "storage": await storage_check(self._node),
        }
        if self._node.broker.facts.is_cluster:
            checks["cluster"] = cluster_check(self._node.broker.facts)
        is_ready = all(
            verdict == "ok" or verdict.startswith("degraded") for verdict in checks.values()
        )
        checks["clock"] = self._node.broker.clock_guard.stopped() or "ok"  # clients may come
        answer = Readiness("ready" if is_ready else "not ready")
        if query.verbose:
            answer.checks = checks
            answer.broker = Summary(**self._summary(list(self._node.broker.partitions)))
        return json(answer, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @route("GET", "/version", right=HEALTH, tag=_HEALTH, place=LOCAL)
    async def version(self) -> Version:
        """Version of the server and its runtime."""
        from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - named where it is used

        loop = type(asyncio.get_running_loop())
        build = build_info()
        return Version(
            version=goqueue.__version__,
            commit=build.commit,
            built=build.built,
            record_codec=IMPLEMENTATION,
            python=f"{platform.python_implementation()} {platform.python_version()}",
            event_loop=loop.__module__.partition(".")[0],
            platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        )

    @route("GET", "/stats", right=on_cluster(DESCRIBE), tag=_STATS, place=gather(merge_stats))
    async def stats(self) -> Stats:
        """Totals of all partitions and of each topic."""
        broker = self._node.broker
        rates = broker.history.published_per_s()
        topics = {}
        for topic in broker.topics.catalogue.by_name.values():
            partitions = broker.partitions.of_topic(topic)
            figures = [each for each in broker.figures.of_topic(topic) if each is not None]
            topics[topic.name] = TopicStats(
                topic.partition_count,
                sum(each.size_bytes for each in figures),
                sum(each.message_count for each in figures),
                topic.is_internal,
                rates.get(topic.name, 0.0),
                sum(each.failure is not None for each in partitions),
            )
        led = [each for each in broker.partitions if each.is_leading]
        return Stats(**self._summary(led), topics=topics)

    def _summary(self, partitions: Sequence[Partition]) -> dict[str, Any]:
        broker = self._node.broker
        return {
            "node_id": broker.settings.node_id,
            "cluster_id": broker.settings.cluster_id,
            "uptime_s": round(self._node.uptime_s, 3),
            "topic_count": len(broker.topics.catalogue.by_name),
            "partition_count": len(partitions),
            "size_bytes": sum(partition.size_bytes for partition in partitions),
            "failed_partitions": [str(p.id) for p in broker.partitions if p.failure is not None],
        }

    @route("GET", "/metrics", right=METRICS, tag=_STATS, answers={200: "text/plain"}, place=LOCAL)
    async def metrics(self, request: Request) -> Response:
        """Every metric, in the text format that the client prefers."""
        content_type, body = await self._exposition(request.header(b"accept"))
        return Response(HTTPStatus.OK, body, content_type)

    @route("GET", "/cluster/metrics", tag=_STATS, right=METRICS, place=gather(merge_metrics))
    async def cluster_metrics(self) -> ClusterMetrics:
        """The metrics of every node, for those who can reach one node only."""
        _, body = await self._exposition("text/plain")
        return ClusterMetrics([NodeMetrics(self._node.broker.settings.node_id, body.decode())])

    async def _exposition(self, accept: str) -> tuple[str, bytes]:
        if self._node.metrics is None:
            raise UnavailableError("metrics are disabled")
        reading = await self._node.metrics.read_in_turns()
        return await asyncio.to_thread(_as_text, reading, accept)


async def storage_check(node: ServedNode) -> str:
    """`ok`, or why messages cannot be stored. The disk is measured now, not when it is next due."""
    try:
        await node.maintenance.check_disk()
    except DiskError as error:
        return str(error)
    return node.broker.publisher.disk_full or failed_logs(node.broker.partitions) or "ok"


def cluster_check(facts: ClusterFacts) -> str:
    """`ok`, or why the others do not count on this node."""
    states = {each.node_id: each.state for each in facts.members()}
    state = states.get(facts.node_id, AWAY)
    if state == AWAY:
        return "degraded: this node is not registered with the others"
    return "ok" if state in {ACTIVE, STOPPING} else f"this node is {state}"


async def metadata_check(node: ServedNode) -> str:
    """`ok`, or why the topics cannot be looked up.

    A node of a cluster has its own view of them. Without the store it is degraded and not down: it
    goes on to lead what it leads.
    """
    if node.degradation is not None:
        return f"degraded: {node.degradation}"
    if node.broker.facts.is_cluster:
        return "ok"
    try:
        async with asyncio.timeout(_CHECK_S):
            await node.store.status()
    except TimeoutError:
        return f"no answer within {_CHECK_S:.0f} s"
    except GoQueueError as error:
        return str(error)
    return "ok"


def _as_text(reading: Reading, accept: str) -> tuple[str, bytes]:
    """In a thread, the import too: a server that nobody scrapes need not pay for it."""
    from goqueue.metrics.exposition import exposition  # noqa: PLC0415 - as said

    return exposition(reading, accept)
