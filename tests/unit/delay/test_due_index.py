"""Due times in memory and in slots, against a dictionary."""

from __future__ import annotations

from array import array
from itertools import chain

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.delays.due.due_index import STEP_MS, DueIndex
from goqueue.delays.due.slots import SLOT_MS, SlotFiles, by_slot, slot_of
from goqueue.delays.due.wheel import TICK_MS
from support.disks import FaultyDisk, HastyDisk
from support.effort import examples

START_MS = 1_700_000_000_000
DELAYS = st.one_of(
    st.integers(0, 10_000),
    st.integers(0, 3 * STEP_MS),
    st.integers(0, 2 * SLOT_MS),
    st.integers(0, 20 * SLOT_MS),
)


class IndexAndTwin(RuleBasedStateMachine):
    """The index with files that are a dictionary, and a dictionary of what waits."""

    def __init__(self):
        super().__init__()
        self.now_ms, self.next_id = START_MS, 0
        self.index, self.files = DueIndex(START_MS), {}
        self.index.expect_slot(slot_of(START_MS))
        self.due, self.fired = {}, set()

    def is_pending(self, delayed_id):
        return delayed_id in self.due

    @rule(delays=st.lists(DELAYS, min_size=1, max_size=5))
    def add(self, delays):
        for delay_ms in delays:
            self.index.add(self.now_ms + delay_ms, self.next_id)
            self.due[self.next_id] = self.now_ms + delay_ms
            self.next_id += 1

    @rule(data=st.data())
    def cancel(self, data):
        if self.due:
            delayed_id = data.draw(st.sampled_from(sorted(self.due)))
            self.index.cancel(delayed_id)
            del self.due[delayed_id]

    @rule(fails=st.booleans())
    def save(self, fails):
        entries = self.index.take_unsaved()
        if fails:
            self.index.not_saved(entries)
            return
        for slot, portion in by_slot(entries).items():
            self.files.setdefault(slot, array("q")).extend(portion)

    @rule()
    def restart(self):
        unsaved = self.index.unsaved
        self.index = DueIndex(self.now_ms)
        self.index.expect_slot(slot_of(self.now_ms))
        for slot, entries in self.files.items():
            if slot <= slot_of(self.now_ms):
                self.index.take_over(entries, self.is_pending)
        for at in range(0, len(unsaved), 2):
            if self.is_pending(unsaved[at + 1]):
                self.index.add(unsaved[at], unsaved[at + 1])

    @rule(step_ms=DELAYS)
    def advance(self, step_ms):
        self.now_ms += step_ms
        while (slot := self.index.wanted_slot(self.now_ms)) is not None:
            self.index.expect_slot(slot)
            lately = by_slot(self.index.unsaved).get(slot, array("q"))
            self.index.take_over(lately, self.is_pending)
            self.index.take_over(self.files.get(slot, array("q")), self.is_pending)
        for delayed_id in chain.from_iterable(self.index.advance(self.now_ms, self.is_pending)):
            due_ms = self.due.pop(delayed_id, None)
            if due_ms is not None:
                assert due_ms <= self.now_ms
                assert delayed_id not in self.fired
                self.fired.add(delayed_id)

    @rule(step_ms=st.integers(1, SLOT_MS))
    def set_back(self, step_ms):
        self.now_ms -= step_ms
        list(self.index.turn_back(self.now_ms))

    @invariant()
    def nothing_is_late_or_forgotten(self):
        overdue = [due_ms for due_ms in self.due.values() if due_ms <= self.now_ms - 2 * TICK_MS]
        hint_ms = self.index.next_due_hint()
        if overdue:
            assert hint_ms <= self.now_ms + TICK_MS  # it was set back, or has just restarted
        elif self.due:
            assert hint_ms <= min(self.due.values()) + TICK_MS


IndexAndTwin.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestIndexAndTwin = IndexAndTwin.TestCase


def test_memory_holds_what_is_near_and_nothing_of_what_is_far():
    index = DueIndex(START_MS)
    index.expect_slot(slot_of(START_MS))
    for delayed_id in range(1000):
        index.add(START_MS + 5 * SLOT_MS + delayed_id, delayed_id)
    index.take_unsaved()
    assert len(index.wheel) == 0
    assert len(index.unsaved) == 0
    assert index._steps == {}


def entries_of(*pairs):
    return array("q", [number for pair in pairs for number in pair])


def test_slots_grow_are_read_as_a_whole_and_go(tmp_path):
    files = SlotFiles(HastyDisk(), tmp_path / "slots")
    assert files.slots() == []
    files.append({})
    files.append({7: entries_of((70, 1)), 3: entries_of((30, 2), (31, 3))})
    files.append({7: entries_of((71, 4))})
    assert files.slots() == [3, 7]
    assert files.load(7).entries == entries_of((70, 1), (71, 4))
    assert files.load(5).entries == array("q")
    files.remove(7)
    assert files.slots() == [3]


def test_a_cut_off_end_of_a_slot_is_written_over(tmp_path):
    files = SlotFiles(HastyDisk(), tmp_path)
    files.append({7: entries_of((70, 1))})
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + b"torn")
    assert files.load(7).entries == entries_of((70, 1))
    files.append({7: entries_of((71, 2))})
    assert files.load(7).entries == entries_of((70, 1), (71, 2))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_appended_to_a_slot_is_there_after_a_power_cut(tmp_path, seed):
    disk = FaultyDisk(tmp_path, seed=seed)
    files = SlotFiles(disk, tmp_path / "slots")
    files.append({7: entries_of((70, 1))})
    files.append({7: entries_of((71, 2)), 8: entries_of((80, 3))})
    disk.crash()
    assert files.load(7).entries == entries_of((70, 1), (71, 2))
    assert files.load(8).entries == entries_of((80, 3))
