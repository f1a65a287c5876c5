"""A node: the shells of the cluster in a few lines each, over the real cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.cluster import elections, following
from goqueue.cluster.controller import ControllerCore
from goqueue.cluster.elections import LogEnd
from goqueue.cluster.following import (
    Append,
    Cut,
    FetchAnswer,
    FetchProblem,
    FollowerState,
    Ignore,
    Restart,
)
from goqueue.cluster.metadata import ABSENT, Committed, Condition, Conflict, Put, SessionId
from goqueue.cluster.progress import LeaderProgress
from goqueue.cluster.records import (
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    decode,
    encode,
    node_key,
)
from goqueue.cluster.suspicion import PING_S, Suspicion
from goqueue.cluster.view import ClusterView, Stored
from simulation.oracle import show
from simulation.world import STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cluster.following import FetchAsk
    from goqueue.cluster.metadata import Change, Operation, Revision, Snapshot, TransactionResult
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.suspicion import Ping
    from simulation.cluster import Cluster
    from simulation.model_log import ModelLog, Record

FETCH_WAIT_S = 0.5
FETCH_TIMEOUT_S = 1.0
FETCH_RECORDS = 8
FLUSH_S = 0.5
SAVE_S = 3.0
ADDRESS = NodeAddress("node", 1)


class Machine:
    """What a node has when its process is gone: a disk, and whether the power stayed on."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.logs: dict[PartitionKey, ModelLog] = {}
        self.saved_watermarks: dict[PartitionKey, int] = {}
        """The file of high watermarks: old values, to start with."""
        self.lost_power = False
        """Since the last clean stop, or the last start that told so."""
        self.process: Process | None = None
        self.runs = 0

    def log(self, key: PartitionKey) -> ModelLog:
        """The log of a replica; an empty one when there was none."""
        if key not in self.logs:
            self.logs[key] = self.cluster.new_log(self.node_id, key)
        return self.logs[key]

    def start(self) -> None:
        """Start a process, unless one runs."""
        if self.process is None:
            self.runs += 1
            for log in self.logs.values():
                log.reopen()
            self.process = Process(self)
            self.process.open()

    def kill(self) -> None:
        """End the process; the page cache stays."""
        if self.process is not None:
            self.cluster.store.unwatch(self.node_id)
            self.process.is_dead = True
            self.process = None

    def power_cut(self) -> None:
        """End the process and lose what is not on the disk."""
        self.kill()
        self.lost_power = True
        for key, log in self.logs.items():
            self.cluster.oracle.lost(self.node_id, key)
            log.power_cut(self.cluster.world.rng, keep_hole=self.cluster.mistakes.keep_holes)


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


class Process:
    """One run of a node."""

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
        self.failed: dict[PartitionKey, int] = {}
        """Logs that lost something after a failed write, and have not told the store; with the
        incarnation in which they did."""
        self._is_registering = False
        self._is_backing_off = False
        self._back_off_s = 0.2
        self._striking = 0
        self._asking: set[PartitionKey] = set()

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

    # --- Starting, registering -------------------------------------------------------------------

    def open(self) -> None:
        """Read everything, watch, register."""
        self.cluster.store.read(self.node_id, lambda found: self.do(self._opened, found))

    def _opened(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            self.open()
            return
        # The watch begins at the reading; the model has no gap between the two.
        self.view.reset(self.cluster.store.snapshot())
        self.cluster.store.watch(self.node_id, lambda *told: self.do(self.watched, *told))
        for log in self.machine.logs.values():
            log.flush()
        self.register()
        self.later(self.world.rng.random() * PING_S, self.tick)
        self.later(FLUSH_S, self.flush)
        self.later(SAVE_S, self.save)

    def register(self, *, anew: bool = True) -> None:
        """Put the node's record, under a session of its own."""
        if self._is_registering:
            return
        self._is_registering = True
        if anew:
            self.incarnation = 0
        session = SessionId(self.cluster.next_session())
        record = NodeRecord(
            f"node-{self.node_id}",
            "folder",
            self.state,
            ADDRESS,
            {},
            incarnation=self.incarnation,
            boot_id=f"{self.run}-{session}",
            is_clean=self.is_clean,
        )
        self._try_register(record, session, self._own_revision())

    def _own_revision(self) -> Revision:
        node = self.view.nodes.get(self.node_id)
        return ABSENT if node is None else node.revision

    def _try_register(self, record: NodeRecord, session: SessionId, base: Revision) -> None:
        key = node_key(self.node_id)

        def answer(result: TransactionResult) -> None:
            revision = None
            if isinstance(result, Committed):
                revision = result.revision
            elif isinstance(result, Conflict):
                entry = result.current[key]
                if entry is not None:
                    stored = decode(entry.value, NodeRecord, key)
                    if stored.boot_id == record.boot_id:
                        revision = entry.revision
                if revision is None:
                    self._try_register(record, session, entry.revision if entry else ABSENT)
                    return
            else:
                self._try_register(record, session, base)
                return
            self._is_registering = False
            self.session = session
            self.registered_at = revision
            self.incarnation = self.incarnation or revision
            if record.state is self.state:
                self._registered()
            else:
                self.register(anew=False)

        put = Put(key, encode(record), session)
        self.transact("register", [Condition(key, base)], [put], answer)

    def _registered(self) -> None:
        if self.state is not NodeState.STARTING:
            self.refresh_all()
        elif self.is_clean:
            self._activate()
        else:
            self._strike_all()

    def _activate(self) -> None:
        if self.state is not NodeState.STARTING:
            return
        self.state = NodeState.ACTIVE
        self.machine.lost_power = False
        for key in self.machine.logs:
            self.cluster.oracle.confessed(self.node_id, key)
        self.world.say(f"node {self.node_id} is active")
        self.register(anew=False)

    def _strike_all(self) -> None:
        """Be struck from every record, then read them all once more."""
        if node_key(self.node_id) not in {node_key(each) for each in self.view.nodes}:
            self.later(0.02, self._strike_all)  # the watch has not shown the registration yet
            return
        proposals = list(elections.strikes(self.view, self.node_id, self.world.token))
        if not proposals:
            self.cluster.store.read(self.node_id, lambda found: self.do(self._reread, found))
            return
        self._striking = len(proposals)

        def answer(_: TransactionResult) -> None:
            self._striking -= 1
            if not self._striking:
                self.later(0.02, self._strike_all)

        for each in proposals:
            self.transact("strike", each.conditions, each.operations, answer)

    def _reread(self, snapshot: Snapshot | None) -> None:
        fresh = ClusterView()
        if snapshot is not None:
            fresh.reset(snapshot)
            if self.node_id in fresh.nodes and not any(
                True for _ in elections.strikes(fresh, self.node_id, self.world.token)
            ):
                self._activate()
                return
        self.later(0.05, self._strike_all)

    # --- The view --------------------------------------------------------------------------------

    def watched(self, revision: Revision, changes: list[Change]) -> None:
        """The store tells what a transaction has changed."""
        self.store_heard_s = self.world.now_s
        self.view.apply(revision, changes)
        for change in changes:
            if change.key.startswith("partitions/"):
                self.refresh(PartitionKey.parse(change.key))
        self._stay_registered()
        self.suspicion.watch(self.view, self.world.now_s)

    def _stay_registered(self) -> None:
        if self.incarnation and not self._is_registering:
            if self.view.is_fenced(self.node_id):
                self._fenced()
            elif self.node_id not in self.view.nodes and self.view.revision > self.registered_at:
                self.register(anew=False)

    def _fenced(self) -> None:
        """Register anew, after a while that doubles: whoever fenced this node may do so again."""
        if self._is_backing_off:
            return
        self.world.say(f"node {self.node_id} sees that it is fenced")
        self._is_backing_off = True
        self.later(self._back_off_s, self._unfence)
        self._back_off_s = min(2.0, self._back_off_s * 2)

    def _unfence(self) -> None:
        self._is_backing_off = False
        if self.view.is_fenced(self.node_id) and not self._is_registering:
            self.register()

    def refresh_all(self) -> None:
        """Take every role that the view gives."""
        for key in list(self.view.partitions):
            self.refresh(key)

    def refresh(self, key: PartitionKey) -> None:
        """Take the role that the view gives in a partition."""
        stored = self.view.partitions.get(key)
        if stored is None or self.node_id not in stored.value.replicas:
            return
        leader = self.led.get(key)
        if leader is not None:
            leader.progress.observed(stored)
            self.after(key)
        if self.incarnation == 0 or self.state is NodeState.STARTING:
            return
        record = stored.value
        if key in self.failed:
            return
        if elections.may_lead(stored, self.node_id, self.incarnation):
            if key not in self.led and self.last_led.get(key, -1) < record.epoch:
                self._lead(key, stored)
        elif record.leader is not None and record.leader != self.node_id:
            self._follow(key, record)

    # --- Leading ---------------------------------------------------------------------------------

    def _lead(self, key: PartitionKey, stored: Stored[PartitionRecord]) -> None:
        log, epoch = self.machine.log(key), stored.value.epoch
        self.followed.pop(key, None)
        self.world.say(f"node {self.node_id} leads from {log.end}: {show(stored.value)}")
        self.cluster.oracle.leads(self.node_id, self.incarnation, key, epoch)
        log.note_epoch(epoch)
        self.last_led[key] = epoch
        progress = LeaderProgress(
            key,
            self.node_id,
            stored,
            end=log.end,
            position=log.flushed if self.cluster.is_always else log.end,
            high_watermark=self.watermark(key),
            now_s=self.world.now_s,
            lag_s=self.cluster.lag_s,
            token=self.world.token,
        )
        self.led[key] = Leader(progress, log)
        self._note_position(key)
        self._moved(key)
        self.cluster.on_lead(self.node_id)

    def watermark(self, key: PartitionKey) -> int:
        """What this node knows to be committed."""
        return min(self.watermarks.get(key, 0), self.machine.log(key).end)

    def _note_position(self, key: PartitionKey) -> None:
        log, progress = self.machine.log(key), self.led[key].progress
        position = log.flushed if self.cluster.is_always else log.end
        progress.appended(log.end, position)
        self._moved(key)

    def _moved(self, key: PartitionKey) -> None:
        """Tell whoever waits for the high watermark."""
        leader = self.led[key]
        hw = leader.progress.hw
        if hw > self.watermarks.get(key, 0):
            self.watermarks[key] = hw
            self.cluster.oracle.moved(self.node_id, key, leader.progress.epoch, hw)
        while leader.waiting and leader.waiting[0][0] <= hw:
            leader.waiting.pop(0)[1]("")
        if leader.parked:
            parked, leader.parked = leader.parked, []
            for ask, told_hw, reply in parked:
                self._serve(key, ask, told_hw, reply)

    def after(self, key: PartitionKey) -> None:
        """Something changed in a led partition."""
        leader = self.led.get(key)
        if leader is None:
            return
        leader.progress.check_invariants()
        if leader.progress.is_leading:
            self._moved(key)
            if leader.progress.is_short and leader.waiting:
                waiting, leader.waiting = leader.waiting, []
                for _, tell in waiting:
                    tell("not enough replicas after the append")
            return
        del self.led[key]
        self.world.say(f"node {self.node_id} stops leading epoch {leader.progress.epoch}")
        for _, tell in leader.waiting:
            tell("not leader")
        for _, _, reply in leader.parked:
            reply(FetchAnswer(FetchProblem.NOT_LEADER), [])
        self.refresh(key)

    def produce(
        self, key: PartitionKey, producer: int, sequence: int, acks: int, tell: Callable[..., None]
    ) -> None:
        """A producer's request; `tell` is given a problem, or an offset."""
        problem = self._refusal(key, acks)
        if problem:
            tell(problem, None)
            return
        leader, log = self.led[key], self.machine.log(key)
        last, offset = leader.last.get(producer, (-1, -1))
        if sequence > last:
            if acks < 0 and sequence != last + 1 and not self.cluster.oracle.recovered_epoch:
                self._check_outdated(key, f"{producer}/{last + 1}")
                tell("out of order", None)
                return
            offset = log.end
            log.append(leader.progress.epoch, producer, sequence)
            leader.last[producer] = (sequence, offset)
        elif self.cluster.mistakes.duplicates_at_once:
            acks = 1
            self.cluster.oracle.acknowledged(key, offset, producer, sequence)

        def settled(problem: str) -> None:
            if not problem:
                self.cluster.oracle.acknowledged(key, offset, producer, sequence)
            tell(problem, offset)

        if acks > 0:
            tell("", offset)
        else:
            leader.wait(offset + 1, settled)
        if self.cluster.is_always:
            self.later(0.001 + self.world.rng.random() * 0.004, self._flushed, key, log.end)
        self._note_position(key)

    def _refusal(self, key: PartitionKey, acks: int) -> str:
        leader = self.led.get(key)
        if leader is None or leader.is_stopped or key in self.failed:
            return "not leader"
        if leader.progress.is_alone(self.world.now_s, self.store_heard_s):
            return "isolated"
        return "not enough replicas" if acks < 0 and leader.progress.is_short else ""

    def _check_outdated(self, key: PartitionKey, missing: str) -> None:
        """A leader may lack a record that another one has acknowledged only if it is none."""
        stored, epoch = self.cluster.oracle.records[key], self.led[key].progress.epoch
        if (stored.leader, stored.epoch) == (self.node_id, epoch):
            self.cluster.oracle.fail(f"the leader lacks {missing}, which was acknowledged")

    def fetch(
        self,
        key: PartitionKey,
        ask: FetchAsk,
        node_id: int,
        incarnation: int,
        reply: Callable[[FetchAnswer, list[Record]], None],
    ) -> None:
        """A follower's request."""
        leader = self.led.get(key)
        if leader is None or key in self.failed:
            reply(FetchAnswer(FetchProblem.NOT_LEADER), [])
            return
        progress, log = leader.progress, self.machine.log(key)
        if ask.epoch != progress.epoch:
            reply(FetchAnswer(FetchProblem.OTHER_EPOCH), [])
            return
        if not progress.is_current(node_id, incarnation):
            reply(FetchAnswer(FetchProblem.STALE_NODE), [])
            return
        diverging = following.divergence(ask, log.epochs, log.start, log.end)
        if isinstance(diverging, FetchProblem):
            reply(FetchAnswer(diverging, log_start=log.start), [])
            return
        if diverging is not None:
            reply(FetchAnswer(diverging=diverging), [])
            return
        progress.fetched(node_id, incarnation, ask.offset, self.world.now_s)
        self._moved(key)
        self._serve(key, ask, -1, reply)

    def _serve(
        self,
        key: PartitionKey,
        ask: FetchAsk,
        told_hw: int,
        reply: Callable[[FetchAnswer, list[Record]], None],
    ) -> None:
        """Answer with what there is, or when there is something, or after a while."""
        leader, log = self.led[key], self.machine.log(key)
        hw = leader.progress.hw
        if log.end > ask.offset or told_hw not in {-1, hw}:
            found = log.read(ask.offset, FETCH_RECORDS)
            after = ask.offset + len(found) if found else None
            answer = FetchAnswer(log_start=log.start, high_watermark=hw, next_offset=after)
            reply(answer, found)
            return
        parked = (ask, hw, reply)
        leader.parked.append(parked)
        if told_hw == -1:
            self.later(FETCH_WAIT_S, self._unpark, key, ask)

    def _unpark(self, key: PartitionKey, ask: FetchAsk) -> None:
        leader = self.led.get(key)
        if leader is None:
            return
        for parked in leader.parked:
            if parked[0] is ask:
                leader.parked.remove(parked)
                log = self.machine.log(key)
                parked[2](FetchAnswer(None, None, log.start, leader.progress.hw), [])
                return

    # --- Following -------------------------------------------------------------------------------

    def _follow(self, key: PartitionKey, record: PartitionRecord) -> None:
        state = self.followed.get(key)
        leader = record.leader
        assert leader is not None
        if state is not None and (state.leader, state.epoch) == (leader, record.epoch):
            return
        if key in self.led:
            return
        self.followed[key] = FollowerState(leader, record.epoch, self.watermark(key))
        self.machine.log(key).drop_empty_epoch()
        if self.cluster.mistakes.cut_by_hw:
            self.machine.log(key).truncate(self.watermark(key))
        self._fetch(key)

    def _fetch(self, key: PartitionKey) -> None:
        state = self.followed.get(key)
        if state is None or key in self.failed:
            return
        log = self.machine.log(key)
        position = log.flushed if self.cluster.is_always else log.end
        ask = state.plan(self.world.now_s, log.end, position, log.epochs)
        if ask is None:
            return
        source = ask.leader

        def reply(answer: FetchAnswer, found: list[Record]) -> None:
            self.cluster.network.send(
                source, self.node_id, self.do, self._fetched, key, state, ask, answer, found
            )

        self.send(source, "fetch", key, ask, self.node_id, self.incarnation, reply)
        self.later(FETCH_TIMEOUT_S, self._lost, key, state, ask)

    def _lost(self, key: PartitionKey, state: FollowerState, ask: FetchAsk) -> None:
        if self.followed.get(key) is state and not isinstance(
            state.lost(self.world.now_s, ask), Ignore
        ):
            self._again(key, state)

    def _again(self, key: PartitionKey, state: FollowerState) -> None:
        delay_s = max(state._wait_until_s - self.world.now_s, 0.0) + 0.0001
        self.later(delay_s, self._fetch, key)

    def _fetched(
        self,
        key: PartitionKey,
        state: FollowerState,
        ask: FetchAsk,
        answer: FetchAnswer,
        found: list[Record],
    ) -> None:
        if self.followed.get(key) is not state or key in self.failed:
            return
        log = self.machine.log(key)
        act = state.answered(
            self.world.now_s, ask, answer, log_start=log.start, end=log.end, epochs=log.epochs
        )
        if isinstance(act, Append):
            if act.has_batches:
                log.append_replica(found)
                if self.cluster.is_always:
                    delay_s = 0.001 + self.world.rng.random() * 0.004
                    self.later(delay_s, self._flushed, key, log.end)
            log.delete_before(min(act.log_start, log.end))
            if act.high_watermark > self.watermarks.get(key, 0):
                self.watermarks[key] = act.high_watermark
                self.cluster.oracle.follows(self.node_id, key, act.high_watermark)
        elif isinstance(act, Cut):
            self.world.say(f"node {self.node_id} cuts its log from {log.end} to {act.to}")
            log.truncate(act.to)
            self._cut_done(key, act)
        elif isinstance(act, Restart):
            self.world.say(f"node {self.node_id} begins its log anew at {act.at}")
            log.restart(act.at)
            log.trimmed = dict(self.cluster.machines[ask.leader].log(key).trimmed)
            self._cut_done(key, act)
        self._again(key, state)

    def _cut_done(self, key: PartitionKey, act: Cut | Restart) -> None:
        to = act.to if isinstance(act, Cut) else act.at
        self.cluster.oracle.cut(self.node_id, key, to, is_below_hw=act.is_below_hw)
        if act.is_below_hw:
            self.watermarks[key] = to

    # --- Disks -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Put everything on the disk now and then, as `fsync=interval` does."""
        if not self.cluster.is_always:
            for key, log in self.machine.logs.items():
                if key not in self.failed:
                    log.flush()
        self.later(FLUSH_S, self.flush)

    def save(self) -> None:
        """Write the file of high watermarks."""
        self.machine.saved_watermarks = dict(self.watermarks)
        self.later(SAVE_S, self.save)

    def _flushed(self, key: PartitionKey, end: int) -> None:
        log = self.machine.log(key)
        if key in self.failed or log.flushed >= end:
            return
        log.flush()
        if key in self.led:
            self._note_position(key)
        else:
            self._fetch(key)

    def disk_error(self, key: PartitionKey) -> None:
        """A write failed: what was not on the disk may be gone."""
        if key in self.failed:
            return
        self.world.say(f"node {self.node_id} has a disk error")
        self.failed[key] = self.incarnation
        self.cluster.oracle.lost(self.node_id, key)
        leader = self.led.get(key)
        if leader is not None:
            leader.is_stopped = True
            proposal = leader.progress.resign(self.world.now_s, self.view, lost=True)
            if proposal is not None:
                self.propose(leader.progress, proposal)

    def _tell_failed(self, key: PartitionKey) -> None:
        """Register anew, so that no fetch of before counts; be struck; then cut and follow."""
        if self._is_registering or key in self._asking or self.state is not NodeState.ACTIVE:
            return
        if self.failed[key] == 0:
            self.failed[key] = self.incarnation
        if self.failed[key] == self.incarnation:
            self.register()
            return
        self._asking.add(key)
        self.cluster.store.read(
            self.node_id, lambda found: self.do(self._strike_failed, key, found)
        )

    def _strike_failed(self, key: PartitionKey, snapshot: Snapshot | None) -> None:
        self._asking.discard(key)
        if snapshot is None or self._is_registering or self.failed[key] == self.incarnation:
            return
        fresh = ClusterView()
        fresh.reset(snapshot)
        if self.node_id not in fresh.nodes:
            return
        proposals = list(elections.strikes(fresh, self.node_id, self.world.token, [key]))
        if proposals:
            self._asking.add(key)

            def answer(_: TransactionResult) -> None:
                self._asking.discard(key)

            self.transact("strike", proposals[0].conditions, proposals[0].operations, answer)
            return
        leader = self.led.get(key)
        if leader is not None:
            leader.progress.deleted()
            self.after(key)
        log = self.machine.log(key)
        log.truncate(log.flushed)
        self.watermarks[key] = self.watermark(key)
        del self.failed[key]
        self.followed.pop(key, None)
        self.cluster.oracle.confessed(self.node_id, key)
        self.refresh(key)

    # --- Ten times a second ----------------------------------------------------------------------

    def tick(self) -> None:
        """Pings, in-sync sets, the controller's decisions."""
        now_s, view = self.world.now_s, self.view
        self.later(PING_S, self.tick)
        self.suspicion.tick(now_s)
        self._stay_registered()
        ping = self.suspicion.ping(
            now_s, incarnation=self.incarnation, wall_ms=int(now_s * 1000), lag_ms=0
        )
        for node_id, machine in self.cluster.machines.items():
            if node_id == self.node_id:
                continue
            if machine.process is None and (self.node_id, node_id) not in self.cluster.network.cut:
                self.suspicion.refused(node_id)
            else:
                self.send(node_id, "pinged", ping)
        if self.session is not None and int(now_s * 10) % 5 == 0:
            self.cluster.store.keep_alive(self.node_id, self.session, lambda: self.do(self._heard))
        for key in list(self.led):
            progress = self.led[key].progress
            proposal = progress.tick(now_s, view)
            self.after(key)
            if proposal is not None:
                self.propose(progress, proposal)
        for key in list(self.failed):
            self._tell_failed(key)
        if self.state is NodeState.ACTIVE and self.incarnation:
            self._control(now_s, view)

    def _heard(self) -> None:
        self.store_heard_s = self.world.now_s

    def pinged(self, ping: Ping) -> None:
        """Another node's ping arrived."""
        self.suspicion.heard(ping, self.world.now_s)

    def _control(self, now_s: float, view: ClusterView) -> None:
        core = self.controller
        if not core.is_controller and self.suspicion.may_take(view, now_s):
            proposal = core.take(view, self.incarnation, now_s)
            if proposal is not None:
                self.propose(core, proposal)
        for proposal in core.decide(view, now_s, self.suspicion.agreed(now_s)):
            self.propose(core, proposal)
        for key in list(core.recoverable(view)):
            self._recover(key)

    def _recover(self, key: PartitionKey) -> None:
        """Ask every replica that lost something how far its log reaches."""
        ends: dict[int, LogEnd] = {}
        wanted = self.view.partitions[key].value.struck

        def reply(node_id: int, end: LogEnd) -> None:
            ends[node_id] = end
            if len(ends) == len(wanted):
                proposal = self.controller.recover(key, ends, self.view, self.world.now_s)
                if proposal is not None:
                    self.propose(self.controller, proposal)

        for node_id in wanted:
            self.send(node_id, "tell_end", key, self.node_id, reply)

    def tell_end(self, key: PartitionKey, asker: int, reply: Callable[[int, LogEnd], None]) -> None:
        """The controller asks how far the log reaches."""
        if key in self.failed or self.state is not NodeState.ACTIVE:
            return
        log = self.machine.log(key)
        end = LogEnd(log.epochs.epoch_at(log.end - 1), log.end, log.start)
        self.send(asker, "told_end", reply, self.node_id, end)

    @staticmethod
    def told_end(reply: Callable[[int, LogEnd], None], node_id: int, end: LogEnd) -> None:
        """A replica's answer arrived at the controller."""
        reply(node_id, end)

    # --- Stopping --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Hand over what is led, then end in order."""
        if self.state is not NodeState.ACTIVE or self._is_registering:
            return
        self.world.say(f"node {self.node_id} stops in order")
        self.state = NodeState.STOPPING
        self.register(anew=False)
        self.later(0.2, self._resign_all, 6)

    def _resign_all(self, turns: int) -> None:
        for leader in self.led.values():
            leader.is_stopped = True
            proposal = leader.progress.resign(self.world.now_s, self.view)
            if proposal is not None:
                self.propose(leader.progress, proposal)
        if turns and self.led:
            self.later(0.1, self._resign_all, turns - 1)
            return
        for log in self.machine.logs.values():
            log.flush()
            log.close()
        session = self.session
        self.machine.saved_watermarks = dict(self.watermarks)
        self.machine.kill()
        if session is not None:
            self.cluster.network.send(self.node_id, STORE, self.cluster.store.end_session, session)
