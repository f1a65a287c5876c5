"""A node: the shells of the cluster in a few lines each, over the real cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster import elections
from goqueue.cluster.elections import LogEnd
from goqueue.cluster.metadata import ABSENT, Committed, Condition, Conflict, Put, SessionId
from goqueue.cluster.records import (
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    decode,
    encode,
    node_key,
)
from goqueue.cluster.suspicion import PING_S
from goqueue.cluster.view import ClusterView
from simulation.repairing import RepairingProcess
from simulation.replica import FLUSH_S, SAVE_S
from simulation.world import STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.controller import Inquiry
    from goqueue.cluster.metadata import Change, Revision, Snapshot, TransactionResult
    from goqueue.cluster.suspicion import Ping
    from simulation.cluster import Cluster
    from simulation.model_log import ModelLog


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

    def lose_disk(self) -> None:
        """End the process, and begin with an empty disk."""
        self.kill()
        self.lost_power = True
        self.saved_watermarks.clear()
        for key, log in self.logs.items():
            self.cluster.oracle.lost(self.node_id, key)
            log.restart(0)
            log.trimmed.clear()


class Process(RepairingProcess):
    """Registering, the view, the controller; the roles are in `ReplicaProcess`."""

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
        if self.cluster.mistakes.forget_losses:
            self.machine.lost_power = False
        for log in self.machine.logs.values():
            log.flush()
        self.register()
        self.later(self.world.rng.random() * PING_S, self.tick)
        self.later(FLUSH_S, self.flush)
        self.later(SAVE_S, self.save)

    def register(self, *, anew: bool = True) -> None:
        """Put the node's record, under a session of its own."""
        if self.is_registering:
            return
        self.is_registering = True
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
            self.is_registering = False
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
        if self.incarnation and not self.is_registering:
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
        if self.view.is_fenced(self.node_id) and not self.is_registering:
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
        if key in self.failed or self.machine.log(key).damaged is not None:
            return
        if elections.may_lead(stored, self.node_id, self.incarnation):
            if key not in self.led and self.last_led.get(key, -1) < record.epoch:
                self._lead(key, stored)
        elif record.leader is not None and record.leader != self.node_id:
            self._follow(key, record)

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
        self.repair_all()
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
        suspected, lapsed = self.suspicion.agreed(now_s), self.suspicion.lapsed(now_s)
        for proposal in core.decide(view, now_s, suspected, lapsed=lapsed):
            self.propose(core, proposal)
        for inquiry in list(core.inquiries(view)):
            self._recover(inquiry)

    def _recover(self, inquiry: Inquiry) -> None:
        """Ask every replica that lost something how far its log reaches."""
        ends: dict[int, LogEnd] = {}

        def reply(node_id: int, end: LogEnd) -> None:
            ends[node_id] = end
            if len(ends) == len(inquiry.nodes):
                proposal = self.controller.recover(inquiry, ends, self.view, self.world.now_s)
                if proposal is not None:
                    self.propose(self.controller, proposal)

        for node_id in inquiry.nodes:
            self.send(node_id, "tell_end", inquiry.key, self.node_id, reply)

    def tell_end(self, key: PartitionKey, asker: int, reply: Callable[[int, LogEnd], None]) -> None:
        """The controller asks how far the log reaches."""
        log = self.machine.log(key)
        if key in self.failed or self.state is not NodeState.ACTIVE or log.damaged is not None:
            return
        end = LogEnd(log.epochs.epoch_at(log.end - 1), log.end, log.start, self.incarnation)
        self.send(asker, "told_end", reply, self.node_id, end)
        self.cluster.on_answer(self.node_id)

    @staticmethod
    def told_end(reply: Callable[[int, LogEnd], None], node_id: int, end: LogEnd) -> None:
        """A replica's answer arrived at the controller."""
        reply(node_id, end)

    # --- Stopping --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Hand over what is led, then end in order."""
        if self.state is not NodeState.ACTIVE or self.is_registering:
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
