"""The whole API of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.acks import AckRoutes
from goqueue.protocols.http.admin import AdminRoutes
from goqueue.protocols.http.console import ConsoleRoutes
from goqueue.protocols.http.dead_letters import DeadLetterRoutes
from goqueue.protocols.http.delayed import DelayedRoutes
from goqueue.protocols.http.documents import DocumentRoutes
from goqueue.protocols.http.events import EventHub, EventRoutes
from goqueue.protocols.http.groups import GroupRoutes
from goqueue.protocols.http.maintenance import MaintenanceRoutes
from goqueue.protocols.http.members import MemberRoutes
from goqueue.protocols.http.messages import MessageRoutes
from goqueue.protocols.http.offsets import OffsetRoutes
from goqueue.protocols.http.overview import OverviewRoutes, OverviewSource
from goqueue.protocols.http.pipelines import PipelineRoutes
from goqueue.protocols.http.probes import ProbeRoutes
from goqueue.protocols.http.publishing import PublishRoutes
from goqueue.protocols.http.purging import PurgeRoutes
from goqueue.protocols.http.queue_settings import QueueSettingsRoutes
from goqueue.protocols.http.queue_stats import QueueStatsRoutes
from goqueue.protocols.http.routing import Router
from goqueue.protocols.http.schema_ids import SchemaRoutes
from goqueue.protocols.http.schema_subjects import SubjectRoutes
from goqueue.protocols.http.search import SearchRoutes
from goqueue.protocols.http.together import TogetherRoutes
from goqueue.protocols.http.topics import TopicRoutes
from goqueue.protocols.http.traces import TraceRoutes
from goqueue.protocols.http.transactions import TransactionRoutes

if TYPE_CHECKING:
    from goqueue.protocols.http.node_state import NodeState


def build_router(node: NodeState) -> Router:
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
        AckRoutes(node.broker),
        OffsetRoutes(node.broker),
        TransactionRoutes(node.broker),
        TogetherRoutes(node.broker),
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
        ProbeRoutes(node),
        DocumentRoutes(router),
        ConsoleRoutes(),
    ):
        router.add(family)
    return router
