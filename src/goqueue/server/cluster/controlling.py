"""The controller of a cluster: every node could be it, and one at a time is.

The core decides (`goqueue.cluster.controller`); here is when it is asked, what it is told, and how
its transactions are sent: together, since none of them waits for another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from goqueue.cluster.controller import ControllerCore
from goqueue.cluster.elections import with_min_isr
from goqueue.cluster.metadata import Committed, Condition, Conflict, Put
from goqueue.cluster.proposals import PartitionChange, bundles
from goqueue.cluster.records import CONTROLLER, PartitionKey, new_token
from goqueue.cluster.units import NO_UNITS, units_of
from goqueue.model.errors import GoQueueError, MetadataUnavailableError, TopicExistsError
from goqueue.model.internal_topics import COMPANIONS, INTERNAL_TOPICS
from goqueue.server.cluster.recovering import Recovering
from goqueue.topics.cluster_catalogue import INSYNC_SETTING
from goqueue.topics.replica_assignments import Replication

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from uuid import UUID

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.view_keeper import Touched, ViewKeeper
    from goqueue.runtime.clock import Clock
    from goqueue.server.cluster.membership import Membership
    from goqueue.server.cluster.pings import Pings
    from goqueue.server.cluster.recovering import LogEnds
    from goqueue.topics.cluster_catalogue import ClusterTopics

logger = logging.getLogger(__name__)

TICK_S: Final = 0.2
"""How often the core is asked when nothing happens."""
_COALESCE_S: Final = 0.005
"""Changes that come this close together are decided on together."""
_TRANSACTIONS_AT_ONCE: Final = 16
PROOF_KEY: Final = "cluster/proof"
"""Written every 10 s by the controller: that the store commits."""
PROOF_S: Final = 10.0
_UPKEEP_S: Final = 1.0
"""How often internal topics and the minima of records are looked at."""
_ELECTIONS: Final = frozenset({"elect", "preferred", "recover", "unit"})
"""Purposes of proposals that name another leader."""
_SAFE_NODES: Final = 3
"""Internal topics have this many replicas where there are as many nodes."""


class Controlling:
    """This node's part in controlling: nothing, until it is its turn."""

    def __init__(
        self,
        store: MetadataStore,
        keeper: ViewKeeper,
        pings: Pings,
        membership: Membership,
        topics: ClusterTopics,
        *,
        clock: Clock,
        size: int,
        internal_topics: Mapping[str, int],
        ask: LogEnds,
        on_elected: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`size` nodes are configured; `internal_topics` are made, with so many partitions.

        `ask` asks a node how far the logs of its replicas reach; `on_elected` is told how many
        seconds an election took to be stored.
        """
        self.core = ControllerCore(membership.node_id)
        self.since_s: float | None = None
        """When this node became the controller; None while it is not."""
        self._store = store
        self._keeper = keeper
        self._pings = pings
        self._membership = membership
        self._topics = topics
        self._clock = clock
        self._wanted_nodes = min(_SAFE_NODES, size)
        self._internal_topics = dict(internal_topics)
        self._on_elected = on_elected
        self._woken = asyncio.Event()
        self._sending = asyncio.Semaphore(_TRANSACTIONS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._proven_s = -PROOF_S
        self._upkept_s = -_UPKEEP_S
        self._recovering = Recovering(self.core, keeper, topics, clock, ask)
        self._is_recovering = False
        self._counted = -1
        self._counts: dict[UUID, int] = {}
        """Partitions of each topic, of that version of the catalogue."""
        self._units = NO_UNITS
        """Of the same version."""
        self._compared = (0, 0)
        """The revision and the version of the catalogue at which records and topics agreed."""

    @property
    def is_controller(self) -> bool:
        """Whether this node decides, as far as it knows."""
        return self.core.is_controller

    def start(self) -> None:
        """Be a candidate."""
        self._keeper.on_change(self._on_change)
        self._spawn(self._run())

    async def stop(self) -> None:
        """Decide nothing more; another node takes over."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self) -> None:
        """Look at the cluster again: somebody is suspected, or not any more."""
        self._woken.set()

    def _on_change(self, _touched: Touched) -> None:
        self._woken.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TICK_S):
                    await self._woken.wait()
                await asyncio.sleep(_COALESCE_S)
            except TimeoutError:
                pass
            self._woken.clear()
            try:
                self._step()
            except Exception:  # the next step may do better, and without it nobody decides
                logger.exception("a step of the controller failed")

    def _step(self) -> None:
        view, now_s = self._keeper.view, self._clock.monotonic_s()
        topics = self._partition_counts()
        suspected, lapsed = self._pings.agreed(), self._pings.lapsed()
        proposals = self.core.decide(view, now_s, suspected, topics, self._units, lapsed=lapsed)
        if not self.core.is_controller and self._pings.may_take(view):
            taking = self.core.take(view, self._membership.incarnation, now_s)
            proposals += [] if taking is None else [taking]
        for proposal in proposals:
            self._spawn(self._send(proposal))
        self._tell(now_s)
        if self.core.is_controller:
            self._maintain(now_s)

    def _partition_counts(self) -> Mapping[UUID, int] | None:
        """None when this node does not know all topics: then no record is one of none."""
        catalogue = self._topics.catalogue
        if self._topics.unreadable:
            return None
        if catalogue.version != self._counted:
            self._counted = catalogue.version
            self._counts = {
                each.topic_id: each.partition_count for each in catalogue.by_name.values()
            }
            self._units = units_of(
                {
                    each.name: (each.topic_id, each.partition_count)
                    for each in catalogue.by_name.values()
                    if each.is_internal
                }
            )
        return self._counts

    def _tell(self, now_s: float) -> None:
        if not self.core.is_controller and self.since_s is not None:
            self.since_s = None
            logger.info("node %d is no longer the controller", self.core.node_id)
        elif self.core.is_controller and self.since_s is None:
            self.since_s = now_s
            logger.info(
                "node %d is the controller now, in epoch %d", self.core.node_id, self.core.epoch
            )

    async def _send(self, proposal: Proposal) -> None:
        began_s = self._clock.monotonic_s()
        async with self._sending:
            try:
                result = await self._store.transact(proposal.conditions, proposal.operations)
            except MetadataUnavailableError:
                self.core.unknown(proposal)
                return
            except Exception:  # without an answer, nothing else would be decided about its keys
                logger.exception("%s was not stored, trying again", proposal.purpose)
                self.core.unknown(proposal)
                return
        if isinstance(result, Committed):
            self.core.committed(proposal, result.revision)
            if proposal.purpose in _ELECTIONS:
                self._on_elected(self._clock.monotonic_s() - began_s)
            if proposal.purpose != "take":
                logger.info("%s: %d keys", proposal.purpose, len(proposal.operations))
        elif isinstance(result, Conflict):
            self.core.conflicted(proposal, result.current)
        else:
            self.core.unknown(proposal)
            return
        self._woken.set()

    # --- What is done now and then ---------------------------------------------------------------

    def _maintain(self, now_s: float) -> None:
        if now_s - self._proven_s >= PROOF_S:
            self._proven_s = now_s
            self._spawn(self._prove())
        if now_s - self._upkept_s >= _UPKEEP_S:
            self._upkept_s = now_s
            if not self._internal_topics.keys() <= self._topics.catalogue.by_name.keys():
                self._spawn(self._make_internal_topics())
            if not self._is_recovering:
                self._spawn(self._recover())
            seen = self._keeper.view.revision, self._topics.catalogue.version
            if seen != self._compared:
                self._compared = seen
                self._follow_minima()

    async def _prove(self) -> None:
        """Write something: a store that answers and commits nothing is found out by this."""
        value = str(self._clock.now_ms()).encode()
        try:
            await self._store.transact([], [Put(PROOF_KEY, value)])
        except GoQueueError as error:
            logger.warning("the metadata store commits nothing: %s", error)

    async def _make_internal_topics(self) -> None:
        """Make the broker's own topics as soon as there are nodes for all their replicas."""
        active = sum(1 for _ in self._keeper.view.active())
        if active < self._wanted_nodes:
            return
        for name, count in self._internal_topics.items():
            if name in self._topics.catalogue.by_name:
                continue
            try:
                await self._topics.create(
                    name,
                    count,
                    INTERNAL_TOPICS[name],
                    internal=True,
                    replication=self._replication(name, count),
                )
            except TopicExistsError:
                continue
            except GoQueueError as error:
                logger.warning("internal topic %s was not made: %s", name, error)

    def _replication(self, name: str, count: int) -> Replication:
        """Where an internal topic is: with the topic that its partitions belong to, if to any."""
        head_name, members = COMPANIONS.get(name, ("", 0))
        head = self._topics.catalogue.by_name.get(head_name)
        if head is None:
            return Replication(self._wanted_nodes)
        stored = self._topics.records_of(head)
        heads = [PartitionKey(head.topic_id, number // members) for number in range(count)]
        return Replication(assignments=[stored[each].value.replicas for each in heads])

    async def _recover(self) -> None:
        """Choose leaders for partitions of which every replica may have lost something."""
        self._is_recovering = True
        try:
            for proposal in await self._recovering.proposals():
                self._spawn(self._send(proposal))
        finally:
            self._is_recovering = False

    def _follow_minima(self) -> None:
        """Bring records in line with `min.insync.replicas` of their topics.

        A change of one topic is written with its records as far as they fit into a transaction; a
        change of the default of all topics is written without any.
        """
        revision = self.core.revision
        if revision is None:
            return
        guard = (Condition(CONTROLLER, revision),)
        changes = self._other_minima()
        for proposal in bundles("minimum", changes, self._keeper.view, new_token, guard):
            self._spawn(self._send_once(proposal))

    def _other_minima(self) -> Iterator[PartitionChange]:
        partitions = self._keeper.view.partitions
        for topic in self._topics.catalogue.by_name.values():
            minimum = topic.settings.number(INSYNC_SETTING)
            for number in range(topic.partition_count):
                key = PartitionKey(topic.topic_id, number)
                stored = partitions.get(key)
                if stored is not None and stored.value.min_isr != minimum:
                    changed = with_min_isr(stored.value, minimum)
                    yield PartitionChange(key, stored.revision, changed)

    async def _send_once(self, proposal: Proposal) -> None:
        """Send what is proposed anew when it does not come about."""
        async with self._sending:
            try:
                await self._store.transact(proposal.conditions, proposal.operations)
            except MetadataUnavailableError as error:
                logger.info("%s: %s", proposal.purpose, error)
