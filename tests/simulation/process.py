"""One run of a node: what it knows, and how it acts on others, on the store and on itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.cluster.controller import ControllerCore
from goqueue.cluster.metadata import ABSENT, Committed, Condition, Conflict, SessionId
from goqueue.cluster.progress import LeaderProgress
from goqueue.cluster.records import (
    NodeState,
    PartitionKey,
)
from goqueue.cluster.suspicion import Suspicion
from goqueue.cluster.view import ClusterView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cluster.following import (
        FetchAnswer,
        FetchAsk,
        FollowerState,
    )
    from goqueue.cluster.metadata import Operation, TransactionResult
    from goqueue.cluster.proposals import Proposal
    from simulation.model_log import ModelLog, Record
    from simulation.node import Machine


class Leader:
    """A partition that is led here."""

    def __init__(self, progress: LeaderProgress, log: ModelLog) -> None:
        self.progress = progress
        self.waiting: list[tuple[int, Callable[[str], None]]] = []
        """Publishers that wait for the high watermark to reach an offset."""
        self.parked: list[tuple[FetchAsk, int, Callable[[FetchAnswer, list[Record]], None]]] = []
        self.last: dict[int, tuple[int, int]] = {}
        """By producer: the last sequence number, and its offset."""
        self.last |= log.trimmed
        for offset in range(log.start, log.end):
            record = log.at(offset)
            if record is not None:
                self.last[record.producer] = (record.sequence, offset)
        self.is_stopped = False
        """Whether appends are refused: it resigns."""

    def wait(self, end: int, tell: Callable[[str], None]) -> None:
        """Tell when everything below `end` is committed."""
        at = len(self.waiting)
        while at and self.waiting[at - 1][0] > end:
            at -= 1
        self.waiting.insert(at, (end, tell))


class Failure(NamedTuple):
    """A log of which a write has failed."""

    has_dropped: bool
    """Whether the disk has dropped something."""
    epoch: int
    """In which it was led, or fetched, last."""


class BaseProcess:
    """What every part of a process shares."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.node_id = machine.node_id
        self.cluster = machine.cluster
        self.world = self.cluster.world
        self.run = machine.runs
        self.view = ClusterView()
        self.is_dead = False
        self.is_paused = False
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.is_clean = not machine.lost_power
        self.state = NodeState.STARTING
        self.incarnation = 0
        self.session: SessionId | None = None
        self.registered_at = ABSENT
        self.store_heard_s = self.world.now_s
        self.suspicion = Suspicion(self.node_id, self.world.now_s)
        self.controller = ControllerCore(self.node_id, self.world.token)
        self.led: dict[PartitionKey, Leader] = {}
        self.followed: dict[PartitionKey, FollowerState] = {}
        self.last_led: dict[PartitionKey, int] = {}
        """The newest epoch that this run led in: there is one `LeaderProgress` an epoch."""
        self.watermarks = dict(machine.saved_watermarks)
        self.failed: dict[PartitionKey, Failure] = {}
        """Logs of which a write has failed, and which are counted on perhaps."""
        self.is_registering = False
        self._is_backing_off = False
        self._back_off_s = 0.2
        self._striking = 0
        self.asking: set[PartitionKey] = set()
        self.lacking: dict[tuple[PartitionKey, int], set[int]] = {}
        """By what is damaged in a log: the nodes that do not have it either."""

    # --- Being a process -------------------------------------------------------------------------

    def later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call something of this process, when it runs."""
        self.world.at(delay_s, self.do, call, *arguments)

    def do(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call something now, or when a pause is over, or never when the process is gone."""
        if self.is_dead:
            return
        if self.is_paused:
            self._inbox.append((call, arguments))
            return
        call(*arguments)

    def pause(self, length_s: float) -> None:
        """Do nothing for a while; then everything that came meanwhile."""
        if not self.is_paused:
            self.is_paused = True
            self.world.at(length_s, self.resume)

    def resume(self) -> None:
        """Go on."""
        self.is_paused = False
        inbox, self._inbox = self._inbox, []
        for call, arguments in inbox:
            self.do(call, *arguments)

    def send(self, target: int, call: str, *arguments: Any) -> None:
        """Call a method of the process that runs on another node now, should the network let it."""
        other = self.cluster.machines[target].process
        if other is not None:
            method = getattr(other, call)
            self.cluster.network.send(self.node_id, target, other.do, method, *arguments)

    def transact(
        self,
        purpose: str,
        conditions: Iterable[Condition],
        operations: Iterable[Operation],
        answer: Callable[[TransactionResult], None],
    ) -> None:
        """Ask the store."""

        def told(result: TransactionResult) -> None:
            if isinstance(result, Committed | Conflict):
                self.store_heard_s = self.world.now_s
            answer(result)

        self.cluster.store.transact(
            self.node_id, purpose, conditions, operations, lambda result: self.do(told, result)
        )

    def propose(self, core: LeaderProgress | ControllerCore, proposal: Proposal) -> None:
        """Send a proposal of a core, and tell it the answer."""

        def answer(result: TransactionResult) -> None:
            if isinstance(result, Committed):
                core.committed(proposal, result.revision)
            elif isinstance(result, Conflict):
                core.conflicted(proposal, result.current)
            else:
                core.unknown(proposal)
            if isinstance(core, LeaderProgress):
                self.after(core.key)

        if isinstance(core, LeaderProgress):
            for node_id in core.maximal.difference(core.isr):
                self.cluster.on_entry(node_id)
        self.transact(proposal.purpose, proposal.conditions, proposal.operations, answer)

    # --- What the parts ask of each other --------------------------------------------------------

    def register(self, *, anew: bool = True) -> None:
        """Put the node's record into the store, as another run when `anew`."""
        raise NotImplementedError

    def refresh(self, key: PartitionKey) -> None:
        """Take the role that the view gives in a partition."""
        raise NotImplementedError

    def after(self, key: PartitionKey) -> None:
        """Something changed in a led partition."""
        raise NotImplementedError
