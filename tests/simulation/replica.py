"""The replicas of a node: leading, following, and disks that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster import elections, following
from goqueue.cluster.following import (
    Append,
    Cut,
    FetchAnswer,
    FetchProblem,
    FollowerState,
    Ignore,
    Restart,
)
from goqueue.cluster.progress import LeaderProgress
from goqueue.cluster.proposals import PartitionChange, bundles
from goqueue.cluster.records import (
    NodeState,
    PartitionKey,
    PartitionRecord,
)
from goqueue.cluster.view import ClusterView, Stored
from simulation.oracle import show
from simulation.process import BaseProcess, Failure, Leader

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.following import FetchAsk
    from goqueue.cluster.metadata import Revision, Snapshot, TransactionResult
    from simulation.model_log import Record


FETCH_WAIT_S = 0.5
FETCH_TIMEOUT_S = 1.0
FETCH_RECORDS = 8
FLUSH_S = 0.5
SAVE_S = 3.0


class ReplicaProcess(BaseProcess):
    """What a process does with its partitions."""

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
        log = self.machine.log(key)
        has_dropped = log.flushed < log.end and self.world.rng.random() < 0.5
        leader, followed = self.led.get(key), self.followed.get(key)
        epoch = followed.epoch if followed is not None else -1
        if leader is not None:
            epoch = leader.progress.epoch
        self.failed[key] = Failure(has_dropped, epoch)
        self.cluster.oracle.lost(self.node_id, key)
        if leader is not None:
            leader.is_stopped = True
            proposal = leader.progress.resign(self.world.now_s, self.view, lost=True)
            if proposal is not None:
                self.propose(leader.progress, proposal)

    def _tell_failed(self, key: PartitionKey) -> None:
        """Be counted on no more, whatever was fetched before; then cut and follow."""
        if self.is_registering or key in self.asking or self.state is not NodeState.ACTIVE:
            return
        if self._leads_on_alone(key):
            return
        self.asking.add(key)
        self.cluster.store.read(self.node_id, lambda found: self.do(self._give_up, key, found))

    def _leads_on_alone(self, key: PartitionKey) -> bool:
        """Nobody else can lead: a leader goes on if its disk has dropped nothing, or waits.

        With a hole it would lead without what the others have.
        """
        leader = self.led.get(key)
        if leader is None or leader.progress.is_pending:
            return False
        if elections.handed_over(leader.progress.record, self.view, lost=True) is not None:
            proposal = leader.progress.resign(self.world.now_s, self.view, lost=True)
            if proposal is not None:
                self.propose(leader.progress, proposal)
            return True
        progress, log = leader.progress, self.machine.log(key)
        if self.failed[key].has_dropped:
            if not {*progress.maximal, *progress.record.elr} - {self.node_id}:
                return False  # nobody else counts
            if not self.cluster.mistakes.go_on_with_holes:
                return True
            log.hole(log.flushed)
        log.flush()
        del self.failed[key]
        leader.is_stopped = False
        self.world.say(f"node {self.node_id} leads on, with all it had")
        self.cluster.oracle.confessed(self.node_id, key)
        self._note_position(key)
        return True

    def _give_up(self, key: PartitionKey, snapshot: Snapshot | None) -> None:
        self.asking.discard(key)
        if snapshot is None or key not in self.failed:
            return
        fresh = ClusterView()
        fresh.reset(snapshot)
        stored = fresh.partitions[key]
        record = stored.value
        if elections.is_counted(record, self.node_id, self.failed[key].epoch):
            is_alone = {*record.isr, *record.elr} == {self.node_id}
            if is_alone:
                struck = elections.strike(record, self.node_id)
            else:
                struck = elections.given_up(record, self.node_id, self.view)
            if struck is not None:
                self._strike_failed(key, stored.revision, struck)
            if struck is not None or not is_alone:
                return
        if self.view.revision < snapshot.revision:
            return  # the view may still give this run a role that it was struck from
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

    def _strike_failed(
        self, key: PartitionKey, revision: Revision, struck: PartitionRecord
    ) -> None:
        change = PartitionChange(key, revision, struck)
        (proposal,) = bundles("strike", [change], self.view, self.world.token)
        self.asking.add(key)

        def answer(_: TransactionResult) -> None:
            self.asking.discard(key)

        self.transact("strike", proposal.conditions, proposal.operations, answer)
