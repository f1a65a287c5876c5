"""The whole API of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.cluster.facts import not_in_cluster
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.groups.deliveries import DeliveryRoutes
from goqueue.protocols.http.groups.groups import GroupRoutes, QueueSettingsRoutes
from goqueue.protocols.http.groups.members import MemberRoutes
from goqueue.protocols.http.groups.offsets import OffsetRoutes
from goqueue.protocols.http.messages.publishing import PublishRoutes
from goqueue.protocols.http.messages.purge import PurgeRoutes
from goqueue.protocols.http.messages.reading import MessageRoutes
from goqueue.protocols.http.messages.search import SearchRoutes
from goqueue.protocols.http.operations.admin import AdminRoutes, MaintenanceRoutes
from goqueue.protocols.http.operations.api_documents import DocumentRoutes
from goqueue.protocols.http.operations.cluster import ClusterRoutes
from goqueue.protocols.http.operations.console import ConsoleRoutes
from goqueue.protocols.http.operations.events import EventHub, EventRoutes
from goqueue.protocols.http.operations.overview import OverviewRoutes, OverviewSource
from goqueue.protocols.http.operations.pipelines import PipelineRoutes
from goqueue.protocols.http.operations.probes import ProbeRoutes
from goqueue.protocols.http.operations.traces import TraceRoutes
from goqueue.protocols.http.queues.dead_letters import DeadLetterRoutes
from goqueue.protocols.http.queues.delayed import DelayedRoutes
from goqueue.protocols.http.queues.queue_stats import QueueStatsRoutes
from goqueue.protocols.http.schemas.schemas import SchemaRoutes
from goqueue.protocols.http.schemas.subjects import SubjectRoutes
from goqueue.protocols.http.topics.topics import TopicRoutes
from goqueue.protocols.http.transactions.atomic_commit import AtomicCommitRoutes
from goqueue.protocols.http.transactions.transactions import TransactionRoutes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.protocols.http.api.served_node import ServedNode


_ONE_NODE: Final[Mapping[type, str]] = {
    QueueSettingsRoutes: "queue groups",
    MemberRoutes: "members of groups over HTTP",
    DeliveryRoutes: "members of groups over HTTP",
    TransactionRoutes: "transactions",
    AtomicCommitRoutes: "transactions",
    QueueStatsRoutes: "queue groups",
    DeadLetterRoutes: "dead-letter queues",
    DelayedRoutes: "delayed messages",
    SubjectRoutes: "schemas",
    SchemaRoutes: "schemas",
    PipelineRoutes: "reports of pipelines",
}
"""Families that a cluster does not serve yet, and what they are."""


def build_router(node: ServedNode) -> Router:
    """Every route over one node."""
    router = Router()
    overview = OverviewSource(node)
    for family in (
        TopicRoutes(node.broker),
        PublishRoutes(node.broker),
        MessageRoutes(node.broker),
        SearchRoutes(node.broker),
        PurgeRoutes(node.broker),
        GroupRoutes(node.broker),
        MemberRoutes(node.broker),
        QueueSettingsRoutes(node.broker),
        DeliveryRoutes(node.broker),
        OffsetRoutes(node.broker),
        TransactionRoutes(node.broker),
        AtomicCommitRoutes(node.broker),
        QueueStatsRoutes(node.broker),
        DeadLetterRoutes(node.broker),
        DelayedRoutes(node.broker),
        TraceRoutes(node.broker),
        SubjectRoutes(node.broker),
        SchemaRoutes(node.broker),
        PipelineRoutes(node.broker),
        OverviewRoutes(node, overview),
        EventRoutes(EventHub(node.broker, overview)),
        AdminRoutes(node),
        MaintenanceRoutes(node.broker),
        ClusterRoutes(node.broker),
        ProbeRoutes(node),
        DocumentRoutes(router),
        ConsoleRoutes(),
    ):
        what = _ONE_NODE.get(type(family)) if node.broker.facts.is_cluster else None
        router.add(family, None if what is None else not_in_cluster(what))
    return router
