"""Health and information: what a supervisor, a load balancer and a person at a terminal ask."""

from __future__ import annotations

import asyncio
import platform
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import goqueue
from goqueue.model.errors import GoQueueError
from goqueue.protocols.http.responses import Response, json, problem
from goqueue.protocols.http.routing import route

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.metrics.registry import Metrics
    from goqueue.protocols.http.routing import Request

_CHECK_S: Final = 2.0
"""How long a part may take to say that it is well."""


class NodeState(Protocol):
    """What the probes know of the node around them."""

    @property
    def broker(self) -> Broker:
        """The broker."""
        ...

    @property
    def store(self) -> MetadataStore:
        """Where the topics are kept."""
        ...

    @property
    def metrics(self) -> Metrics | None:
        """What is counted; None when metrics are turned off."""
        ...

    @property
    def is_started(self) -> bool:
        """Everything has been started once."""
        ...

    @property
    def is_ready(self) -> bool:
        """Started, and not stopping."""
        ...

    @property
    def uptime_s(self) -> float:
        """Since the start began."""
        ...


class ProbeRoutes:
    """Small answers that need no permission."""

    def __init__(self, node: NodeState) -> None:
        self._node = node

    @route("GET", "/health")
    async def health(self, _request: Request) -> Response:
        """That somebody answers, and what time it is here."""
        return json({"status": "ok", "timestamp": self._node.broker.clock.now_ms()})

    @route("GET", "/healthz")
    async def alive(self, _request: Request) -> Response:
        """Liveness: this very answer shows that the event loop turns."""
        return json({"status": "ok"})

    @route("GET", "/livez")
    async def started(self, _request: Request) -> Response:
        """Whether the start is complete."""
        if not self._node.is_started:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the server is starting")
        return json({"status": "ok"})

    @route("GET", "/readyz")
    async def ready(self, request: Request) -> Response:
        """Whether clients should be sent here; with `?verbose=true`, why."""
        checks = {
            "node": "ok" if self._node.is_ready else "starting or stopping",
            "metadata": await self._metadata_check(),
            "storage": self._node.broker.publisher.disk_full or "ok",
        }
        is_ready = all(verdict == "ok" for verdict in checks.values())
        answer: dict[str, Any] = {"status": "ready" if is_ready else "not ready"}
        if request.flag("verbose"):
            answer |= {"checks": checks, "broker": self._summary()}
        return json(answer, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _metadata_check(self) -> str:
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._node.store.status()
        except TimeoutError:
            return f"no answer within {_CHECK_S:.0f} s"
        except GoQueueError as error:
            return str(error)
        return "ok"

    @route("GET", "/version")
    async def version(self, _request: Request) -> Response:
        """What exactly runs here."""
        from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - named where it is used

        loop = type(asyncio.get_running_loop())
        return json(
            {
                "version": goqueue.__version__,
                "record_codec": IMPLEMENTATION,
                "python": f"{platform.python_implementation()} {platform.python_version()}",
                "event_loop": loop.__module__.partition(".")[0],
                "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
            }
        )

    @route("GET", "/stats")
    async def stats(self, _request: Request) -> Response:
        """How much there is, in all and by topic."""
        broker = self._node.broker
        topics = {
            topic.name: _topic_stats(broker, topic.name)
            for topic in broker.topics.catalogue.by_name.values()
        }
        return json({**self._summary(), "topics": topics})

    def _summary(self) -> dict[str, Any]:
        broker = self._node.broker
        partitions = list(broker.partitions)
        return {
            "node_id": broker.settings.node_id,
            "cluster_id": broker.settings.cluster_id,
            "uptime_s": round(self._node.uptime_s, 3),
            "topic_count": len(broker.topics.catalogue.by_name),
            "partition_count": len(partitions),
            "size_bytes": sum(partition.log.size_bytes for partition in partitions),
            "failed_partitions": [str(p.id) for p in partitions if p.log.failure is not None],
        }

    @route("GET", "/metrics")
    async def metrics(self, request: Request) -> Response:
        """Every metric, in the text format that the client prefers."""
        if self._node.metrics is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "metrics are turned off")
        # Imports prometheus-client, which a server that nobody scrapes need not pay for.
        from goqueue.metrics.exposition import exposition  # noqa: PLC0415 - as said

        reading = self._node.metrics.read()
        accept = request.headers.get("accept", "")
        content_type, body = await asyncio.to_thread(exposition, reading, accept)
        return Response(HTTPStatus.OK, body, content_type)


def _topic_stats(broker: Broker, name: str) -> dict[str, Any]:
    partitions = broker.partitions.of_topic(broker.topics.catalogue.topic(name))
    return {
        "partition_count": len(partitions),
        "size_bytes": sum(partition.log.size_bytes for partition in partitions),
        "offset_span": sum(partition.log_end - partition.log_start for partition in partitions),
    }
