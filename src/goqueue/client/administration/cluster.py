"""`client.cluster`: brokers, their health, their totals, and their maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.administration.calls import Calls
from goqueue.client.link.codes import check_code
from goqueue.model.pipeline_reports import PipelineReport
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from goqueue.client.link.link import Link

_DESCRIBE_CLUSTER: Final = 0


class Health(msgspec.Struct, frozen=True):
    """Whether messages can be stored."""

    status: str
    """`ok` or `failing`."""
    timestamp_ms: int = msgspec.field(name="timestamp")
    clock: str = "ok"
    """`ok`, or the jump of the wall clock that has stopped retention and TTL."""
    storage: str = "ok"
    """`ok`, or why messages cannot be stored."""

    @property
    def is_ok(self) -> bool:
        """Whether messages can be stored."""
        return self.status == "ok"


class Totals(msgspec.Struct, frozen=True):
    """A broker and what it holds."""

    node_id: int
    cluster_id: str
    uptime_s: float
    topic_count: int
    partition_count: int
    size_bytes: int
    failed_partitions: tuple[str, ...]
    """Those that refuse appends."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether clients may come, by check."""

    status: str
    checks: dict[str, str]
    """`ok`, or what is wrong."""
    totals: Totals = msgspec.field(name="broker")

    @property
    def is_ready(self) -> bool:
        """Whether clients may come."""
        return self.status == "ready"


class TopicStats(msgspec.Struct, frozen=True):
    """The totals of one topic."""

    partition_count: int
    size_bytes: int
    offset_span: int
    """Messages that can be read."""
    is_internal: bool = msgspec.field(name="internal")
    published_per_s: float
    """Over the last minute."""
    failed_partitions: int


class ClusterStats(Totals, frozen=True, kw_only=True):
    """The totals of a broker and of each topic."""

    topics: dict[str, TopicStats]


class Version(msgspec.Struct, frozen=True):
    """The version of a broker, and what it runs on."""

    version: str
    commit: str
    """The commit that it was built from."""
    built: str
    """When it was built; `checkout` for one that runs from its sources."""
    record_codec: str
    python: str
    event_loop: str
    platform: str


class Node(msgspec.Struct, frozen=True):
    """A broker of the cluster."""

    node_id: int
    host: str
    port: int
    is_controller: bool


class Maintenance(msgspec.Struct, frozen=True):
    """Whether retention and TTL are running."""

    status: str
    """`running`, or `stopped` by a jump of the wall clock."""
    reason: str | None = None
    clock_jump_ms: int = 0


class _Resumed(msgspec.Struct):
    resumed: bool


class _Pipelines(msgspec.Struct):
    pipelines: list[PipelineReport]


class AsyncCluster:
    """`client.cluster`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def nodes(self) -> list[Node]:
        """The brokers of the cluster."""
        link = self._calls.link
        answer = await link.retry(
            "describing the cluster",
            lambda: link.ask(
                ApiKey.DESCRIBE_CLUSTER,
                _DESCRIBE_CLUSTER,
                include_cluster_authorized_operations=False,
            ),
        )
        check_code(answer.error_code, "describing the cluster", answer.error_message)
        return [
            Node(each.broker_id, each.host, each.port, each.broker_id == answer.controller_id)
            for each in answer.brokers
        ]

    async def health(self) -> Health:
        """Whether messages can be stored, and the broker's time."""
        return await self._calls.get(Health, "/health")

    async def readiness(self) -> Readiness:
        """Whether clients may come, by check."""
        return await self._calls.get(Readiness, "/readyz", verbose=True)

    async def stats(self) -> ClusterStats:
        """The totals of the broker and of each topic."""
        return await self._calls.get(ClusterStats, "/stats")

    async def version(self) -> Version:
        """The version of the broker, and what it runs on."""
        return await self._calls.get(Version, "/version")

    async def metrics(self) -> str:
        """Every metric, as Prometheus reads it."""
        return (await self._calls.get(bytes, "/metrics")).decode(errors="replace")

    async def maintenance(self) -> Maintenance:
        """Whether retention and TTL are stopped because the wall clock has jumped."""
        return await self._calls.get(Maintenance, "/admin/maintenance")

    async def resume_maintenance(self) -> bool:
        """Accept the wall clock's time and resume retention and TTL; whether they were stopped."""
        found = await self._calls.post(_Resumed, "/admin/maintenance/resume", again=True)
        return found.resumed

    async def pipelines(self) -> list[PipelineReport]:
        """What Spark pipelines last reported, by name."""
        return (await self._calls.get(_Pipelines, "/pipelines")).pipelines

    async def remove_pipeline(self, name: str) -> None:
        """Forget the reports of a pipeline."""
        await self._calls.delete(msgspec.Raw, "/pipelines/{}", name)
