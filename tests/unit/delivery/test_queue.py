"""One partition as a queue, held against a twin that has one object for each message.

A second queue is told only the operations, as they are stored, as after a crash: it never wakes
messages and never chooses any, and has to know the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import ExpiredReceiptError, UnknownReceiptError
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import decisions, operations as ops, receipts as checks
from goqueue.queues.delivery.leases import NUMBERS
from goqueue.queues.delivery.pages import PAGE, MessageState
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import QueueSettings
from support.effort import examples

ALL = 1_000_000

AVAILABLE, IN_FLIGHT, WAITING, DOOMED, SETTLED = MessageState
SETTINGS = QueueSettings(max_deliveries=3, max_waiting=40)
LANES = range(5)
NORMAL = 2

members = st.sampled_from(["ann", "bob", "cat"])
pick = st.integers(0, 2**16)
amounts = st.one_of(st.integers(1, 4), st.integers(1, 2 * PAGE))


def through_a_file(dumped):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(dumped))


def loaded(dumped):
    queue = PartitionQueue(0, {})
    for _ in queue.restore(dumped):
        pass
    return queue


def reloaded(queue, lanes):
    found = loaded(through_a_file(queue.dump()))
    found.follow(lanes)
    return found


def queue_of(count, lanes=None):
    """A queue with so many messages; whoever chooses must not go beyond them."""
    lanes = lanes or LaneIndex()
    lanes.advance_to(count)
    queue = PartitionQueue(0, {})
    queue.follow(lanes)
    return queue


def take(queue, member, count, *, until, lane=NORMAL, now_ms=0, visibility_ms=1000):
    ranges = queue.line.choose(queue.window, lane, count, until)
    taken = queue.taken([(lane, *part) for part in ranges], member, now_ms, visibility_ms, b"seed")
    queue.apply(taken)
    return taken


def receipts(queue, offsets):
    window = queue.window
    return {at: Receipt("t", 0, at, window.count(at), window.nonce(at)) for at in offsets}


@dataclass
class Message:
    offset: int
    lane: int
    state: MessageState = AVAILABLE
    count: int = 0
    member: str = ""
    taken_ms: int = 0
    deadline_ms: int = 0
    due_ms: int = 0
    first_ms: int = 0
    error: str = ""
    reason: str = ""
    handed_out: int = 0
    receipts: list[Receipt] = field(default_factory=list)
    expired: set[Receipt] = field(default_factory=set)

    def come_back(self):
        self.first_ms = self.first_ms or self.taken_ms


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        start=st.integers(0, 2 * PAGE),
        lanes=st.lists(st.sampled_from([0, 1, 2, 2, 2, 3, 4]), min_size=1),
    )
    def open(self, start, lanes):
        self.lanes = LaneIndex()
        self.lanes.advance_to(start)
        self.now_ms = 1_000_000
        self.opened_at = self.end = start
        self.queue = PartitionQueue(start, {})
        self.queue.follow(self.lanes)
        self.replica = PartitionQueue(start, {})  # which never hears of a partition
        self.messages: dict[int, Message] = {}
        self.seeds = 0
        self.publish(PAGE, lanes)

    def tell(self, *operations):
        for operation in operations:
            self.queue.apply(operation)
        for operation in ops.decode(ops.encode(list(operations))):
            self.replica.apply(operation)

    def those(self, *states):
        return [each for each in self.messages.values() if each.state in states]

    def some(self, messages, at, amount):
        """Some of them, spread over all."""
        step = max(len(messages) // amount, 1)
        return messages[at % max(step, 1) :: step]

    # --- What happens ----------------------------------------------------------------------------

    @rule(amount=amounts, lanes=st.lists(st.sampled_from([0, 1, 2, 2, 2, 3, 4]), min_size=1))
    def publish(self, amount, lanes):
        if len(self.messages) > 4 * PAGE:
            return
        priorities = [lanes[index % len(lanes)] for index in range(amount)]
        self.lanes.note(self.end, priorities)
        for lane in priorities:
            self.messages[self.end] = Message(self.end, lane)
            self.end += 1

    @rule(
        member=members,
        wanted=st.lists(st.tuples(st.sampled_from(LANES), amounts), min_size=1, max_size=6),
        visibility_ms=st.integers(1, 5000),
    )
    def take(self, member, wanted, visibility_ms):
        chosen = []
        mine: list[Message] = []
        for lane, count in wanted:
            ready = self.queue.line.ready(self.end, count)[lane]
            expected = [each for each in self.those(AVAILABLE) if each.lane == lane][:count]
            assert ready >= len(expected)
            ranges = self.queue.line.choose(self.queue.window, lane, count, self.end)
            offsets = [at for first, end in ranges for at in range(first, end)]
            assert offsets == [each.offset for each in expected]
            chosen += [(lane, *part) for part in ranges]
            for each in expected:
                each.state = IN_FLIGHT
            mine += expected
        if not chosen:
            return
        self.seeds += 1
        seed = self.seeds.to_bytes(8, "big")
        self.tell(self.queue.taken(chosen, member, self.now_ms, visibility_ms, seed))
        for each in mine:
            each.count += 1
            each.handed_out += 1
            each.member, each.taken_ms = member, self.now_ms
            each.deadline_ms = self.now_ms + visibility_ms
            nonce = self.queue.window.nonce(each.offset)
            each.receipts.append(Receipt("t", 0, each.offset, each.count, nonce))

    @rule(member=members, lane=st.sampled_from(LANES), count=amounts)
    def take_of_a_lane(self, member, lane, count):
        self.take(member, [(lane, count)], 3000)

    def honoured(self, messages):
        """Those whose last receipt counts; it must be those that are still within their time."""
        found = []
        for each in messages:
            refusal = checks.refusal(self.queue, each.receipts[-1], self.now_ms)
            assert (refusal is None) == (each.deadline_ms > self.now_ms)
            if refusal is None:
                found.append(each)
        return found

    @rule(at=pick, amount=amounts)
    def acknowledge(self, at, amount):
        mine = self.honoured(self.some(self.those(IN_FLIGHT), at, amount))
        if mine:
            self.tell(ops.Settled(ops.ranges_of([each.offset for each in mine])))
        for each in mine:
            each.state = SETTLED

    @rule(at=pick, amount=amounts, delay=st.sampled_from([None, 0, 700]), error=st.text(max_size=3))
    def hand_back(self, at, amount, delay, error):
        mine = self.honoured(self.some(self.those(IN_FLIGHT), at, amount))
        room = SETTINGS.max_waiting - len(self.those(WAITING))
        offsets = [each.offset for each in mine]
        self.tell(
            *decisions.postpone(
                self.queue, offsets, SETTINGS, self.now_ms, delay_ms=delay, error=error
            )
        )
        for each in mine:
            each.error = error or each.error
            each.come_back()
            if each.count >= 3:
                each.state, each.reason = DOOMED, Reason.MAX_RETRIES_EXCEEDED
            elif room <= 0:
                each.state, each.reason = DOOMED, Reason.BACKPRESSURE
            else:
                room -= 1
                wait_ms = 1000 << (each.count - 1) if delay is None else delay
                each.state, each.due_ms = WAITING, self.now_ms + wait_ms

    @rule(member=members, at=pick, amount=amounts)
    def hand_back_wait_and_take_again(self, member, at, amount):
        """The replica never hears that the waiting was over."""
        self.hand_back(at, amount, 700, "")
        self.time_goes_on(700)
        self.wake()
        self.take(member, [(lane, amount) for lane in LANES], 3000)

    @rule(at=pick, amount=amounts, error=st.text(max_size=3))
    def reject(self, at, amount, error):
        mine = self.honoured(self.some(self.those(IN_FLIGHT), at, amount))
        offsets = [each.offset for each in mine]
        self.tell(*decisions.doom(offsets, Reason.REJECTED, SETTINGS, self.now_ms, error))
        for each in mine:
            each.error = error or each.error
            each.come_back()
            each.state, each.reason = DOOMED, Reason.REJECTED

    @rule(at=pick, amount=amounts)
    def outlive(self, at, amount):
        """Messages die that nobody has."""
        mine = self.some(self.those(AVAILABLE, WAITING), at, amount)
        offsets = [each.offset for each in mine]
        self.tell(*decisions.doom(offsets, Reason.TTL_EXPIRED, SETTINGS, self.now_ms))
        for each in mine:
            each.state, each.reason = DOOMED, Reason.TTL_EXPIRED

    @rule(at=pick, amount=amounts, longer_ms=st.integers(1, 9000))
    def extend(self, at, amount, longer_ms):
        mine = self.honoured(self.some(self.those(IN_FLIGHT), at, amount))
        deadline_ms = self.now_ms + longer_ms
        ranges = [(each.offset, each.offset + 1) for each in mine]
        self.tell(*decisions.extend(self.queue, ranges + ranges[:1], deadline_ms))
        for each in mine:
            each.deadline_ms = deadline_ms

    @rule(member=members)
    def release_everything_of(self, member):
        mine = [each for each in self.those(IN_FLIGHT) if each.member == member]
        held = self.queue.held_by(member)
        assert sorted(at for first, end in held for at in range(first, end)) == sorted(
            each.offset for each in mine
        )
        self.queue.expire(held)
        self.tell(*decisions.release(self.queue, held, SETTINGS, self.now_ms))
        self.come_back(mine)

    @rule(at=pick, amount=amounts)
    def untake(self, at, amount):
        mine = self.some(self.those(IN_FLIGHT), at, amount)
        if mine:
            self.tell(ops.Untaken(ops.ranges_of([each.offset for each in mine])))
        for each in mine:
            each.state = AVAILABLE
            each.count -= 1
            each.handed_out -= 1
            each.receipts.pop()

    def come_back(self, messages):
        for each in messages:
            each.come_back()
            each.expired.add(each.receipts[-1])
            each.state = AVAILABLE
            if each.count >= 3:
                each.state, each.reason = DOOMED, Reason.MAX_RETRIES_EXCEEDED

    @rule(more_ms=st.integers(1, 4000))
    def time_goes_on(self, more_ms):
        self.now_ms += more_ms

    @rule()
    def let_time_work(self):
        late = [each for each in self.those(IN_FLIGHT) if each.deadline_ms <= self.now_ms]
        for ranges in self.queue.overdue(self.now_ms):
            assert ranges
            self.tell(*decisions.release(self.queue, ranges, SETTINGS, self.now_ms))
        self.come_back(late)
        self.wake()
        deadline_ms = self.queue.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    @rule()
    def wake(self):
        due = [each for each in self.those(WAITING) if each.due_ms <= self.now_ms]
        assert self.queue.wake(self.now_ms, ALL) == bool(due)
        for each in due:
            each.state = AVAILABLE

    @rule(more=amounts)
    def commit_up_to(self, more):
        upto = min(self.queue.start + more, self.end)
        self.tell(ops.Settled([(self.queue.start, upto)]))
        for each in self.messages.values():
            if each.offset < upto:
                each.state = SETTLED

    @rule(at=pick, length=st.one_of(st.integers(1, 9), st.integers(1, PAGE)))
    def skip(self, at, length):
        first = self.opened_at + at % len(self.messages)
        upto = min(first + length, self.end)
        self.tell(ops.Settled([(first, upto)]))
        for offset in range(first, upto):
            self.messages[offset].state = SETTLED

    @rule(at=pick, amount=amounts)
    def bury(self, at, amount):
        mine = self.some(self.those(DOOMED), at, amount)
        if not mine:
            return
        offsets = [each.offset for each in mine]
        self.tell(ops.Moving("t.dlq", 0, 5, offsets, 1))
        self.tell(ops.Settled(ops.ranges_of(offsets)))
        assert self.queue.moving == []
        for each in mine:
            each.state = SETTLED

    @rule(at=pick)
    def show_an_old_receipt(self, at):
        shown = [each for each in self.messages.values() if each.receipts]
        if not shown:
            return
        each = shown[at % len(shown)]
        receipt = each.receipts[at % len(each.receipts)]
        counts = receipt == each.receipts[-1] and each.state is IN_FLIGHT
        if counts and each.deadline_ms > self.now_ms:
            assert checks.refusal(self.queue, receipt, self.now_ms) is None
            return
        late = counts or receipt in each.expired
        kind = ExpiredReceiptError if late else UnknownReceiptError
        assert type(checks.refusal(self.queue, receipt, self.now_ms)) is kind

    def forget_expired(self):
        """Which receipts have expired is kept in memory only."""
        for each in self.messages.values():
            each.expired.clear()

    @rule()
    def keep_and_load(self):
        self.queue = reloaded(self.queue, self.lanes)
        self.forget_expired()

    @rule()
    def crash(self):
        """What was only in memory is gone; what waited long enough is found again."""
        self.queue = reloaded(self.replica, self.lanes)
        self.forget_expired()
        self.wake_again()

    @rule()
    def snapshot_of_the_replica(self):
        self.replica = loaded(through_a_file(self.replica.dump()))

    def wake_again(self):
        due = [each for each in self.those(WAITING) if each.due_ms <= self.now_ms]
        self.queue.wake(self.now_ms, ALL)
        for each in due:
            each.state = AVAILABLE

    # --- What is true ----------------------------------------------------------------------------

    @invariant()
    def both_agree_with_themselves(self):
        self.queue.check_invariants()
        self.replica.check_invariants()

    @invariant()
    def the_queue_knows_what_the_twin_knows(self):
        queue, window = self.queue, self.queue.window
        unsettled = [each.offset for each in self.messages.values() if each.state is not SETTLED]
        assert queue.start == min(unsettled, default=self.end)
        for state in (IN_FLIGHT, WAITING, DOOMED):
            assert queue.total(state) == len(self.those(state))
        held = dict.fromkeys(("ann", "bob", "cat"), 0)
        for each in self.messages.values():
            at = each.offset
            assert window.state(at) is each.state
            if each.state is SETTLED:
                continue
            assert window.count(at) == each.count == each.handed_out <= 3
            if each.state is IN_FLIGHT:
                lease = window.leases[next(window.flights(at, at + 1))[2]]
                assert (lease.member, lease.deadline_ms) == (each.member, each.deadline_ms)
                assert lease.at_ms == each.taken_ms
                held[each.member] += 1
            if each.state is DOOMED:
                doom = queue.dooms[at]
                assert (doom.reason, doom.error, doom.deliveries) == (
                    each.reason,
                    each.error,
                    each.count,
                )
                assert doom.first_delivery_ms == each.first_ms
        for member, count in held.items():
            got = queue.held_by(member)
            assert sum(end - first for first, end in got) == count

    @invariant()
    def what_is_next_is_known(self):
        moments = [each.deadline_ms for each in self.those(IN_FLIGHT)]
        moments += [each.due_ms for each in self.those(WAITING)]
        assert self.queue.next_deadline_ms() == min(moments, default=None)

    @invariant()
    def order_is_guarded(self):
        waiting = {each.lane for each in self.those(WAITING)}
        flying = {each.member for each in self.those(IN_FLIGHT)}
        for lane in LANES:
            for member in ("ann", "bob"):
                blocked = lane in waiting or bool(flying - {member})
                assert self.queue.is_blocked(lane, member) == blocked

    @invariant()
    def the_replica_knows_the_same(self):
        mine, other = self.queue.window, self.replica.window
        assert self.replica.start == self.queue.start
        assert self.replica.dooms == self.queue.dooms
        assert self.replica.moving == self.queue.moving
        assert other.leases == mine.leases
        for each in self.messages.values():
            at, state = each.offset, other.state(each.offset)
            if each.state is AVAILABLE:
                assert state in (AVAILABLE, WAITING)
                assert state is AVAILABLE or each.due_ms <= self.now_ms
            else:
                assert state is each.state
            if each.state is not SETTLED:
                assert other.count(at) == each.count
            if each.state is IN_FLIGHT:
                assert next(other.flights(at, at + 1))[2] == next(mine.flights(at, at + 1))[2]
                assert other.nonce(at) == mine.nonce(at)

    def teardown(self):
        """Whatever is not settled is handed out until its deliveries are exhausted."""
        if not hasattr(self, "queue"):
            return
        for _ in range(5):
            self.time_goes_on(100_000)
            self.let_time_work()
            self.take("ann", [(lane, len(self.messages) + 1) for lane in LANES], 1)
        assert not self.those(AVAILABLE, WAITING, IN_FLIGHT)
        spent = Reason.MAX_RETRIES_EXCEEDED
        assert all(each.handed_out == 3 for each in self.those(DOOMED) if each.reason == spent)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=examples(50), stateful_step_count=40)


def test_what_was_taken_before_it_was_settled_stays_settled_though_told_late():
    """The operation of a take is stored when the messages were read, perhaps after others."""
    queue, replica = queue_of(100), queue_of(100)
    taken = take(queue, "ann", 20, until=100)
    settled = ops.Settled([(0, 15)])
    queue.apply(settled)
    for operation in (settled, taken):
        replica.apply(operation)
    replica.check_invariants()
    assert replica.start == queue.start == 15
    assert replica.held_by("ann") == queue.held_by("ann") == [(15, 20)]
    assert receipts(replica, range(15, 20)) == receipts(queue, range(15, 20))


def test_a_take_told_after_everything_of_it_is_settled_leaves_no_lease():
    queue = queue_of(100)
    taken = queue.taken([(NORMAL, 0, 10)], "ann", 0, 1000, b"seed")
    queue.apply(ops.Settled([(0, 10)]))
    queue.apply(taken)
    queue.check_invariants()
    assert queue.window.leases == {}
    assert queue.next_deadline_ms() is None


def test_of_two_takes_of_a_message_the_one_told_first_counts():
    queue, replica = queue_of(10), queue_of(10)
    slow = take(queue, "ann", 2, until=10, visibility_ms=5)
    for ranges in queue.overdue(5):
        (released,) = decisions.release(queue, ranges, SETTINGS, 5)
        queue.apply(released)
    quick = take(queue, "bob", 2, until=10, now_ms=5)
    for operation in (released, quick, slow):
        replica.apply(operation)
        replica.check_invariants()
    assert replica.held_by("bob") == [(0, 2)]
    assert replica.held_by("ann") == []


def test_what_is_given_back_late_is_not_taken_from_who_has_it_now():
    queue = queue_of(10)
    slow = take(queue, "ann", 4, until=10, visibility_ms=5)
    for ranges in queue.overdue(5):
        for operation in decisions.release(queue, ranges, SETTINGS, 5):
            queue.apply(operation)
    take(queue, "bob", 2, until=10, now_ms=5)
    queue.apply(ops.Untaken([(0, 4)], slow.lease))
    queue.check_invariants()
    assert queue.held_by("bob") == [(0, 2)]
    assert queue.window.count(0) == 2
    assert queue.line.choose(queue.window, NORMAL, 9, 10) == [(2, 10)]


def test_a_message_is_not_chosen_twice_after_a_replay():
    queue, replica = queue_of(3), queue_of(3)
    for _ in range(2):
        taken = take(queue, "ann", 3, until=3)
        (released,) = decisions.release(queue, [(0, 3)], SETTINGS, 0)
        queue.apply(released)
        for operation in (taken, released):
            replica.apply(operation)
    assert replica.line.ready(3, 100)[NORMAL] == 3
    assert take(replica, "bob", 100, until=3).ranges == [(NORMAL, 0, 3)]
    replica.check_invariants()


def test_messages_that_are_said_twice_count_once():
    queue = queue_of(10)
    take(queue, "ann", 6, until=10)
    for operation in (
        *decisions.extend(queue, [(1, 2), (1, 2), (0, 1), (1, 2)], 5000),
        *decisions.postpone(queue, [2, 2], SETTINGS, 0, error="no"),
        *decisions.doom([3, 3], Reason.REJECTED, SETTINGS, 0, "bad"),
        *decisions.release(queue, [(4, 5), (4, 5)], SETTINGS, 0),
    ):
        queue.apply(operation)
        queue.check_invariants()
    assert queue.waiting == 1
    assert queue.dooms[3].member == "ann"
    assert queue.held_by("ann") == [(0, 2), (5, 6)]
    assert queue.line.ready(10, 100)[NORMAL] == 5


def test_what_was_acknowledged_a_moment_ago_is_neither_dead_nor_waiting_nor_extended():
    queue = queue_of(10)
    take(queue, "ann", 3, until=10)
    late = [
        *decisions.extend(queue, [(1, 2)], 5000),
        *decisions.postpone(queue, [1], SETTINGS, 0),
        *decisions.doom([1], Reason.REJECTED, SETTINGS, 0),
        *decisions.release(queue, [(1, 2)], SETTINGS, 0),
        ops.Untaken([(1, 2)]),
    ]
    queue.apply(ops.Settled([(1, 2)]))
    for operation in late:
        queue.apply(operation)
        queue.check_invariants()
    assert queue.window.state(1) is SETTLED
    assert queue.waiting == 0
    assert queue.dooms == {}
    assert queue.held_by("ann") == [(0, 1), (2, 3)]


def test_numbers_of_leases_never_run_out():
    queue = queue_of(1000)
    queue.next_lease = NUMBERS - 2
    numbers = [take(queue, "ann", 1, until=1000).lease for _ in range(4)]
    assert numbers == [NUMBERS - 2, NUMBERS - 1, 1, 2]
    queue.next_lease = NUMBERS - 2
    assert take(queue, "ann", 1, until=1000).lease == 3
    queue.check_invariants()
    queue = reloaded(queue, LaneIndex())
    assert queue.held_by("ann") == [(0, 5)]


def test_leases_that_ended_early_are_not_remembered_until_their_deadline():
    queue = queue_of(100_000)
    take(queue, "ann", 1, until=100_000, visibility_ms=10)
    for at in range(1, 5000):
        take(queue, "bob", 1, until=100_000, visibility_ms=1000)
        queue.apply(ops.Settled([(at, at + 1)]))
    assert len(queue._deadlines) < 200
    assert queue.next_deadline_ms() == 10


def test_waits_that_ended_early_are_not_remembered_until_they_are_due():
    queue = queue_of(10)
    take(queue, "ann", 2, until=10)
    queue.apply(ops.Postponed([(0, 5)]))
    for _ in range(2000):
        queue.apply(ops.Postponed([(1, 9999)]))
        taken = queue.taken([(NORMAL, 1, 2)], "ann", 0, 10, b"seed")
        queue.apply(taken)
    assert len(queue._waiting) < 200
    assert queue.next_deadline_ms() == 5


def test_a_lane_is_free_again_when_the_index_has_forgotten_what_waited_in_it():
    lanes = LaneIndex()
    lanes.note(0, [0, 2, 0, 2])
    queue = PartitionQueue(0, {})
    queue.follow(lanes)
    take(queue, "ann", 1, lane=0, until=4)
    for operation in decisions.postpone(queue, [0], SETTINGS, 0):
        queue.apply(operation)
    assert queue.is_blocked(0, "ann")
    lanes.forget_before(2)
    queue.apply(ops.Settled([(0, 2)]))
    assert [queue.is_blocked(lane, "ann") for lane in LANES] == [False] * 5


def test_a_first_delivery_that_did_not_happen_is_not_the_first():
    queue = queue_of(10)
    take(queue, "ann", 1, until=10, now_ms=100)
    queue.apply(ops.Untaken([(0, 1)]))
    take(queue, "ann", 1, until=10, now_ms=500)
    for operation in decisions.doom([0], Reason.REJECTED, SETTINGS, 600):
        queue.apply(operation)
    assert queue.dooms[0].first_delivery_ms == 500
    assert queue.dooms[0].deliveries == 1


def test_a_message_that_is_taken_again_does_not_wait_any_more_for_whoever_replays():
    queue = queue_of(10)
    take(queue, "ann", 10, until=10)
    queue.apply(ops.Postponed([(at, 700) for at in range(10)]))
    for ranges in ([(NORMAL, 3, 4)], [(NORMAL, 5, 8)]):
        queue.apply(queue.taken(ranges, "bob", 700, 1000, b"seed"))
        queue.check_invariants()
    assert (queue.waiting, queue.total(WAITING), queue.total(IN_FLIGHT)) == (6, 6, 4)


def test_the_first_of_many_deadlines_is_known_whatever_their_order():
    queue = queue_of(1000)
    for number in range(300):
        take(queue, "ann", 1, until=1000, visibility_ms=5000 - number)
        if number % 10:
            queue.apply(ops.Settled([(number, number + 1)]))
    assert queue.next_deadline_ms() == 5000 - 290
    assert [ranges[0][0] for ranges in queue.overdue(5000)] == list(range(290, -1, -10))


def test_the_first_delivery_stays_the_first():
    queue = queue_of(10)
    for now_ms in (100, 200, 300):
        take(queue, "ann", 10, until=10, now_ms=now_ms)
        queue.apply(ops.Released([(0, 10)]))
    take(queue, "ann", 1, until=10, now_ms=400)
    queue.apply(ops.Doomed([(0, 1)], Reason.REJECTED, 500))
    assert (queue.dooms[0].first_delivery_ms, queue.dooms[0].last_delivery_ms) == (100, 400)
