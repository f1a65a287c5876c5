"""The whole API of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.access.acls import AclRoutes
from goqueue.protocols.http.access.keys import KeyRoutes
from goqueue.protocols.http.access.sessions import SessionRoutes
from goqueue.protocols.http.access.tenants import TenantRoutes
from goqueue.protocols.http.access.usage import UsageRoutes
from goqueue.protocols.http.access.users import RoleRoutes, UserRoutes
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.backups.backups import BackupRoutes
from goqueue.protocols.http.groups.deliveries import DeliveryRoutes
from goqueue.protocols.http.groups.groups import GroupRoutes, QueueSettingsRoutes
from goqueue.protocols.http.groups.members import MemberRoutes
from goqueue.protocols.http.groups.offsets import OffsetRoutes
from goqueue.protocols.http.messages.export import ExportRoutes
from goqueue.protocols.http.messages.publishing import PublishRoutes
from goqueue.protocols.http.messages.purge import PurgeRoutes
from goqueue.protocols.http.messages.reading import MessageRoutes
from goqueue.protocols.http.messages.search import SearchRoutes
from goqueue.protocols.http.operations.admin import AdminRoutes, MaintenanceRoutes
from goqueue.protocols.http.operations.api_documents import DocumentRoutes
from goqueue.protocols.http.operations.clients import ClientRoutes
from goqueue.protocols.http.operations.cluster import ClusterRoutes
from goqueue.protocols.http.operations.configuration import ConfigurationRoutes
from goqueue.protocols.http.operations.console import ConsoleRoutes
from goqueue.protocols.http.operations.events import EventHub, EventRoutes
from goqueue.protocols.http.operations.histories import HistoryRoutes
from goqueue.protocols.http.operations.overview import OverviewRoutes, OverviewSource
from goqueue.protocols.http.operations.pipelines import PipelineRoutes
from goqueue.protocols.http.operations.probes import ProbeRoutes
from goqueue.protocols.http.operations.traces import TraceRoutes
from goqueue.protocols.http.queues.dead_letters import DeadLetterRoutes
from goqueue.protocols.http.queues.delayed import DelayedRoutes
from goqueue.protocols.http.queues.letter_selection import LetterSelectionRoutes
from goqueue.protocols.http.queues.queue_stats import QueueStatsRoutes
from goqueue.protocols.http.schemas.schemas import SchemaRoutes
from goqueue.protocols.http.schemas.subjects import SubjectRoutes
from goqueue.protocols.http.topics.topics import TopicRoutes
from goqueue.protocols.http.transactions.atomic_commit import AtomicCommitRoutes
from goqueue.protocols.http.transactions.transactions import TransactionRoutes
from goqueue.protocols.http.webhooks.webhooks import WebhookRoutes

if TYPE_CHECKING:
    from goqueue.protocols.http.api.served_node import ServedNode


def build_router(node: ServedNode) -> Router:
    """Every route over one node."""
    router = Router()
    overview = _overview(node)
    for family in (
        TopicRoutes(node.broker),
        PublishRoutes(node.broker),
        MessageRoutes(node.broker),
        SearchRoutes(node.broker),
        ExportRoutes(node.broker),
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
        LetterSelectionRoutes(node.broker),
        DelayedRoutes(node.broker),
        TraceRoutes(node.broker),
        SubjectRoutes(node.broker),
        SchemaRoutes(node.broker),
        PipelineRoutes(node.broker),
        OverviewRoutes(node, overview),
        HistoryRoutes(node.broker),
        ClientRoutes(node),
        ConfigurationRoutes(node),
        EventRoutes(EventHub(node.broker, overview)),
        AdminRoutes(node),
        MaintenanceRoutes(node.broker),
        BackupRoutes(node.broker),
        WebhookRoutes(node.broker),
        UserRoutes(node.broker),
        KeyRoutes(node.broker),
        AclRoutes(node.broker),
        RoleRoutes(node.broker),
        SessionRoutes(node.broker),
        UsageRoutes(node.broker),
        TenantRoutes(node.broker),
        ClusterRoutes(node.broker),
        ProbeRoutes(node),
        DocumentRoutes(router),
        ConsoleRoutes(),
    ):
        router.add(family)
    return router


def _overview(node: ServedNode) -> OverviewSource:
    if node.broker.forwards is None:
        return OverviewSource(node)
    from goqueue.protocols.http.operations.cluster_overview import (  # noqa: PLC0415 - not alone
        ClusterOverviewSource,
    )

    return ClusterOverviewSource(node, node.broker.forwards)
