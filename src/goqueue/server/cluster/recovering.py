"""Leaders for partitions of which every replica may have lost something: whoever has most leads.

Everybody who was in sync is back, or nothing is chosen. What nobody has is lost, as on one node
after a power cut; it is told with the offsets.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.cluster.elections import LogEnd
from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import GoQueueError
from goqueue.protocols.kafka.internal.log_ends import log_end
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.broker.log_broker import LogBroker
    from goqueue.cluster.controller import ControllerCore, Inquiry
    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.runtime.clock import Clock
    from goqueue.server.cluster.peers import PeerConnections
    from goqueue.topics.catalogue import Topics

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 1000
"""Partitions that nodes are asked about in one request."""


class LogEnds(Protocol):
    """Asks nodes about their replicas."""

    async def __call__(
        self, node_id: int, keys: Sequence[PartitionKey]
    ) -> Mapping[PartitionKey, LogEnd]:
        """How far the logs of these replicas of a node reach; those that cannot tell are left out.

        Raises:
            GoQueueError: the node cannot be asked.
        """


class NodeLogEnds:
    """Asks this node and the others, each in the run that answers."""

    def __init__(self, identity: NodeIdentity, peers: PeerConnections, logs: LogBroker) -> None:
        self._identity = identity
        self._peers = peers
        self._logs = logs

    async def __call__(
        self, node_id: int, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, LogEnd]:
        """How far the logs of these replicas of a node reach. See `LogEnds`."""
        identity, logs = self._identity, self._logs
        if node_id == identity.node_id:
            own = {key: log_end(logs.topics, logs.partitions, key) for key in keys}
            return {
                key: end._replace(incarnation=identity.incarnation)
                for key, end in own.items()
                if end is not None
            }
        asked = [{"topic_id": key.topic_id, "partition_index": key.partition} for key in keys]
        answer = await self._peers.ask(node_id, ApiKey.LOG_ENDS, 0, partitions=asked)
        return {
            PartitionKey(each.topic_id, each.partition_index): LogEnd(
                each.last_epoch, each.end_offset, each.start_offset, answer.incarnation
            )
            for each in answer.partitions
        }


class Recovering:
    """Asks the nodes, and lets the core decide on what they answered."""

    def __init__(
        self,
        core: ControllerCore,
        keeper: ViewKeeper,
        topics: Topics,
        clock: Clock,
        ask: LogEnds,
    ) -> None:
        self._core = core
        self._keeper = keeper
        self._topics = topics
        self._clock = clock
        self._ask = ask

    async def proposals(self) -> list[Proposal]:
        """What is to be stored, of the partitions whose nodes have all answered."""
        inquiries = list(itertools.islice(self._core.inquiries(self._keeper.view), _AT_ONCE))
        ends = await self._ends_of(inquiries)
        now_s, found = self._clock.monotonic_s(), []
        for inquiry in inquiries:
            told = ends[inquiry.key]
            proposal = self._core.recover(inquiry, told, self._keeper.view, now_s)
            if proposal is not None:
                self._tell(inquiry.key, told)
                found.append(proposal)
        return found

    async def _ends_of(self, inquiries: Sequence[Inquiry]) -> dict[PartitionKey, dict[int, LogEnd]]:
        by_node: dict[int, list[PartitionKey]] = {}
        for inquiry in inquiries:
            for node_id in inquiry.nodes:
                by_node.setdefault(node_id, []).append(inquiry.key)
        ends: dict[PartitionKey, dict[int, LogEnd]] = {each.key: {} for each in inquiries}
        for node_id, asked in by_node.items():
            try:
                for key, end in (await self._ask(node_id, asked)).items():
                    ends[key][node_id] = end
            except GoQueueError as error:
                logger.info("node %d does not say what it has: %s", node_id, error)
        return ends

    def _tell(self, key: PartitionKey, ends: Mapping[int, LogEnd]) -> None:
        topic = self._topics.catalogue.by_id.get(key.topic_id)
        logger.error(
            "%s-%d: every replica may have lost data; the longest log leads: %s",
            key.topic_id if topic is None else topic.name,
            key.partition,
            ", ".join(f"node {node} has up to {end.end}" for node, end in ends.items()),
        )
