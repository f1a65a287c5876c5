"""The state of every message of a partition, held against a dictionary."""

from __future__ import annotations

from array import array

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.model.errors import InvariantError
from goqueue.queues.delivery.leases import NUMBERS, Lease
from goqueue.queues.delivery.pages import PAGE, MessageState
from goqueue.queues.delivery.window import Window
from support.effort import examples

AVAILABLE, IN_FLIGHT, WAITING, DOOMED, SETTLED = MessageState
SPAN = 5 * PAGE
places = st.integers(0, SPAN)
lengths = st.one_of(st.integers(1, 5), st.integers(1, 3 * PAGE))
members = st.sampled_from(["ann", "bob", "cat"])
unsettled_states = st.sampled_from([AVAILABLE, WAITING, DOOMED])


class Known:
    """What the twin knows of one message."""

    def __init__(self):
        self.state = AVAILABLE
        self.count = 0
        self.lease = 0
        self.nonce = 0
        self.first_ms = 0


def as_ranges(offsets):
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def through_a_file(dumped):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(dumped))


def loaded(dumped, unacked):
    window = Window(0, unacked)
    for _ in window.restore(dumped):
        pass
    return window


def opened(start=0):
    return Window(start, {})


def lend(window, number, *ranges, member="ann", at_ms=1):
    window.add_lease(number, Lease(member, at_ms, 1000))
    for first, end in ranges:
        window.take(first, end, number, array("Q", range(first, end)))


class WindowMachine(RuleBasedStateMachine):
    @initialize(start=st.integers(0, 2 * PAGE))
    def open(self, start):
        self.base = self.floor = start
        self.unacked = {}
        self.window = Window(start, self.unacked)
        self.known: dict[int, Known] = {}
        self.leases: dict[int, tuple[str, int]] = {}
        self.next_lease = 1

    # --- The twin --------------------------------------------------------------------------------

    def of(self, offset):
        return self.known.setdefault(offset, Known())

    def state(self, offset):
        if offset < self.floor:
            return SETTLED
        known = self.known.get(offset)
        return AVAILABLE if known is None else known.state

    def these(self, place, length):
        return range(self.base + place, self.base + place + length)

    def in_state(self, offsets, state):
        return [offset for offset in offsets if self.state(offset) is state]

    def leave(self, offset, state):
        if self.state(offset) is SETTLED:
            return
        known = self.of(offset)
        if known.state is IN_FLIGHT and known.first_ms == 0:
            known.first_ms = self.leases[known.lease][1]
        known.state = state

    # --- What happens ----------------------------------------------------------------------------

    @rule(place=places, length=lengths, member=members, at_ms=st.integers(1, 1000))
    def take_what_is_available(self, place, length, member, at_ms):
        ranges = as_ranges(self.in_state(self.these(place, length), AVAILABLE))
        if not ranges:
            return
        number = self.next_lease
        self.next_lease += 1
        self.leases[number] = (member, at_ms)
        self.window.add_lease(number, Lease(member, at_ms, at_ms + 100))
        for first, end in ranges:
            nonces = array("Q", [number * 1_000_000 + offset for offset in range(first, end)])
            self.window.take(first, end, number, nonces)
            for offset in range(first, end):
                known = self.of(offset)
                known.state, known.lease = IN_FLIGHT, number
                known.nonce = number * 1_000_000 + offset
                known.count = min(known.count + 1, 255)

    @rule(place=places, length=lengths, now_ms=st.integers(0, 1100), flaw=st.integers(0, 20))
    def show_nonces(self, place, length, now_ms, flaw):
        offsets = self.these(place, length)
        nonces = array("Q", [self.of(each).nonce for each in offsets])
        if flaw < len(nonces) // 2:
            nonces[flaw] ^= 1
        held = all(
            self.state(each) is IN_FLIGHT
            and self.known[each].nonce == nonce
            and self.leases[self.known[each].lease][1] + 100 > now_ms
            for each, nonce in zip(offsets, nonces, strict=True)
        )
        shown = nonces.tobytes()
        assert self.window.is_held(offsets.start, offsets.stop, shown, now_ms) is held

    @rule(place=places, length=lengths)
    def move_what_one_lease_has(self, place, length):
        flying = self.in_state(self.these(place, length), IN_FLIGHT)
        if not flying:
            return
        old = self.known[flying[0]].lease
        member, at_ms = self.leases[old]
        number = self.next_lease
        self.next_lease += 1
        self.leases[number] = (member, at_ms)
        self.window.add_lease(number, Lease(member, at_ms, 77))
        mine = [offset for offset in flying if self.known[offset].lease == old]
        for first, end in as_ranges(mine):
            self.window.move(first, end, number)
        for offset in mine:
            self.known[offset].lease = number

    @rule(place=places, length=lengths)
    def untake(self, place, length):
        offsets = self.these(place, length)
        self.window.untake(offsets[0], offsets[-1] + 1)
        for offset in self.in_state(offsets, IN_FLIGHT):
            self.known[offset].state = AVAILABLE
            self.known[offset].count -= 1

    @rule(place=places, length=lengths, state=unsettled_states)
    def put(self, place, length, state):
        offsets = self.these(place, length)
        self.window.put(offsets[0], offsets[-1] + 1, state)
        for offset in offsets:
            self.leave(offset, state)

    @rule(place=places, length=lengths)
    def settle_a_range(self, place, length):
        offsets = self.these(place, length)
        self.window.put(offsets[0], offsets[-1] + 1, SETTLED)
        for offset in offsets:
            self.leave(offset, SETTLED)

    @rule(place=places)
    def settle_one(self, place):
        self.settle_a_range(place, 1)

    @rule(places=st.lists(places, max_size=40))
    def settle_many_singles(self, places):
        for place in places:
            self.settle_a_range(place, 1)

    @rule(length=st.one_of(lengths, st.integers(1, 2 * SPAN)))
    def settle_a_prefix(self, length):
        end = self.window.start + length
        self.window.put(0, end, SETTLED)
        self.floor = max(self.floor, end)

    @rule()
    def settle_far_ahead(self):
        """Thousands of pages that nobody touched, and begin again behind them."""
        end = self.window.start + 5000 * PAGE + 17
        self.window.put(self.window.start, end, SETTLED)
        self.base = self.floor = end
        assert self.window.start >= end
        self.known = {at: known for at, known in self.known.items() if at >= end}

    @rule()
    def keep_and_load(self):
        dumped = through_a_file(self.window.dump())
        self.unacked = {}
        self.window = loaded(dumped, self.unacked)

    # --- What is true ----------------------------------------------------------------------------

    @invariant()
    def the_window_agrees_with_itself(self):
        self.window.check_invariants()

    @invariant()
    def states_are_those_of_the_twin(self):
        start = self.window.start
        assert start >= self.floor
        assert self.state(start) is not SETTLED
        assert not self.in_state(range(self.floor, start), AVAILABLE)
        assert all(self.state(at) is SETTLED for at in range(self.floor, start))
        below = min(self.base, start)
        everything = range(below, below + 2 * SPAN)
        for state in MessageState:
            mine = [at for at in everything if at >= start and self.state(at) is state]
            assert list(self.window.in_state(below, everything[-1] + 1, state)) == as_ranges(mine)

    @invariant()
    def counts_receipts_and_leases_are_those_of_the_twin(self):
        left: dict[int, int] = {}
        unacked: dict[str, int] = {}
        for offset, known in self.known.items():
            state = self.state(offset)
            assert self.window.state(offset) is state
            if state is SETTLED:
                continue
            assert self.window.count(offset) == known.count
            assert self.window.first_delivery_ms(offset) == known.first_ms
            if state is IN_FLIGHT:
                assert self.window.nonce(offset) == known.nonce
                assert next(self.window.flights(offset, offset + 1))[2] == known.lease
                member, _ = self.leases[known.lease]
                left[known.lease] = left.get(known.lease, 0) + 1
                unacked[member] = unacked.get(member, 0) + 1
        assert {number: lease.left for number, lease in self.window.leases.items()} == left
        assert self.unacked == unacked
        for number in left:
            held = self.window.held(number)
            mine = [at for at, known in self.known.items() if known.lease == number]
            assert held == as_ranges(self.in_state(mine, IN_FLIGHT))

    @invariant()
    def totals_are_those_of_the_twin(self):
        for state in (IN_FLIGHT, WAITING, DOOMED):
            mine = [at for at in self.known if self.state(at) is state]
            assert self.window.totals[state] == len(mine)


TestWindow = WindowMachine.TestCase
TestWindow.settings = settings(max_examples=examples(60), stateful_step_count=25)


def test_a_new_window_has_everything_available():
    window = opened(300)
    assert window.state(299) is SETTLED
    assert window.state(300) is AVAILABLE
    assert window.state(10**18) is AVAILABLE
    assert window.count(10**18) == 0


def test_the_start_moves_over_what_is_settled_already():
    window = opened()
    window.put(1, 3 * PAGE, SETTLED)
    assert window.start == 0
    window.put(0, 1, SETTLED)
    assert window.start == 3 * PAGE
    assert window.dump()["pages"] == []


def test_pages_that_are_settled_whole_cost_next_to_nothing():
    window = opened()
    window.put(1, 1000 * PAGE, SETTLED)
    assert all(page is None for number, page in window.dump()["pages"] if number)


def test_deliveries_are_counted_up_to_what_a_byte_holds():
    window = opened()
    for number in range(1, 300):
        lend(window, number, (5, 6))
        window.put(5, 6, AVAILABLE)
    assert window.count(5) == 255


def test_a_delivery_that_did_not_happen_leaves_no_trace():
    window = opened()
    lend(window, 1, (0, 10), at_ms=500)
    window.untake(0, 10)
    assert window.count(3) == 0
    assert window.first_delivery_ms(3) == 0
    assert window.leases == {}


def test_what_is_settled_cannot_be_untaken():
    window = opened()
    lend(window, 1, (0, 3 * PAGE))
    window.put(5, 2 * PAGE, SETTLED)
    window.untake(0, 3 * PAGE)
    window.check_invariants()
    assert list(window.in_state(0, 3 * PAGE, SETTLED)) == [(5, 2 * PAGE)]


def test_what_is_settled_dead_or_with_somebody_is_not_taken():
    window = opened()
    window.put(1, 2 * PAGE, SETTLED)
    lend(window, 1, (2 * PAGE, 2 * PAGE + 5), member="bob")
    window.put(2 * PAGE + 5, 2 * PAGE + 7, DOOMED)
    lend(window, 2, (0, 2 * PAGE + 10))
    window.check_invariants()
    assert window.held(1) == [(2 * PAGE, 2 * PAGE + 5)]
    assert window.held(2) == [(0, 1), (2 * PAGE + 7, 2 * PAGE + 10)]
    assert window.nonce(2 * PAGE + 8) == 2 * PAGE + 8
    assert window.start == 0


def test_two_leases_never_have_the_same_number():
    window = opened()
    lend(window, 7, (0, 1))
    with pytest.raises(InvariantError):
        lend(window, 7, (1, 2))


def test_whether_others_have_something_is_known_at_once():
    window = opened()
    assert not window.is_held_by_others("ann")
    lend(window, 1, (0, 2), member="ann")
    assert not window.is_held_by_others("ann")
    assert window.is_held_by_others("bob")
    lend(window, 2, (2, 4), member="bob")
    window.put(0, 2, SETTLED)
    assert window.is_held_by_others("ann")
    assert not window.is_held_by_others("bob")


def test_numbers_of_leases_begin_anew_and_pass_over_those_in_use():
    window = opened()
    lend(window, NUMBERS - 1, (0, 1))
    lend(window, 2, (1, 2))
    assert window.unused_leases(NUMBERS - 2, 4) == [NUMBERS - 2, 1, 3, 4]


@given(st.integers(1, NUMBERS - 1), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_every_number_of_a_lease_and_every_nonce_is_kept(number, nonces):
    window = opened(PAGE - 20)
    window.add_lease(number, Lease("ann", 1, 2))
    first = PAGE - 20
    window.take(first, first + len(nonces), number, array("Q", nonces))
    again = loaded(through_a_file(window.dump()), {})
    offsets = range(first, first + len(nonces))
    assert [again.nonce(offset) for offset in offsets] == nonces
    assert {next(again.flights(offset, offset + 1))[2] for offset in offsets} == {number}


def test_a_million_messages_in_flight_are_restored_in_many_steps():
    """The event loop turns between two of them: in one go they would hold it for half a second."""
    window = opened(0)
    for number in range(1, 1001):
        window.add_lease(number, Lease("ann", 1, 2))
        window.take((number - 1) * 1000, number * 1000, number, array("Q", bytes(8000)))
    again = Window(0, unacked := {})
    steps = sum(1 for _ in again.restore(through_a_file(window.dump())))
    assert steps > 1_000_000 // PAGE // 20
    assert again.totals == window.totals
    assert unacked == {"ann": 1_000_000}
    again.check_invariants()
