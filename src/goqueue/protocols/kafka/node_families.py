"""What only a whole broker can answer to other nodes, beside what it answers to clients.

Another family is another line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.internal.backup_part import BackupPartApi
from goqueue.protocols.kafka.internal.find_producers import FindProducersApi
from goqueue.protocols.kafka.internal.handover import HandoverApi
from goqueue.protocols.kafka.internal.settle_receipts import SettleReceiptsApi
from goqueue.protocols.kafka.internal.state_applied import StateAppliedApi
from goqueue.protocols.kafka.internal.trace_events import TraceEventsApi
from goqueue.protocols.kafka.internal.watch_sources import WatchSourcesApi
from goqueue.protocols.kafka.share.node_turns import ShareTurnsApi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.broker import Broker


def node_families(broker: Broker) -> Sequence[object]:
    """The handlers that only the internal listener has."""
    return (
        HandoverApi(broker.topics, broker.targets),
        FindProducersApi(broker.transactions),
        ShareTurnsApi(broker),
        SettleReceiptsApi(broker.acknowledger),
        WatchSourcesApi(broker.topics, broker.partitions),
        StateAppliedApi(broker.state_copies, broker.keeper),
        BackupPartApi(broker.backups),
        TraceEventsApi(broker.tracer),
    )
