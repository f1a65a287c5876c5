from __future__ import annotations

from goqueue.protocols.kafka.connection.fair_reads import READS_IN_ROW, FairReads


class Reader:
    """A connection whose reads are noted."""

    def __init__(self, name, read, *, is_open=True):
        self.name, self._read, self._is_open = name, read, is_open
        self.reads_in_row = 0

    def read_on(self):
        if self._is_open:
            self._read.append(self.name)
        return self._is_open


class Loop:
    def __init__(self):
        self._ready = []

    def call_soon(self, callback):
        self._ready.append(callback)

    def turn(self):
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()
        return bool(ready)


def test_each_client_is_read_from_once_a_turn_however_many_connections_it_has():
    loop, read = Loop(), []
    turns = FairReads(loop.call_soon)
    for number in range(3):
        turns.wait("noisy", Reader(f"noisy {number}", read))
    turns.wait("other", Reader("other", read))
    loop.turn()
    assert [name.split()[0] for name in read] == ["noisy", "other"]
    while loop.turn():
        pass
    assert sorted(read) == ["noisy 0", "noisy 1", "noisy 2", "other"]


def test_connections_of_one_client_take_turns_after_a_few_reads_in_a_row():
    loop, read = Loop(), []
    turns = FairReads(loop.call_soon)
    readers = {name: Reader(name, read) for name in ("first", "second")}
    for each in readers.values():
        turns.wait("client", each)
    for _ in range(4 * READS_IN_ROW):
        loop.turn()
        turns.wait("client", readers[read[-1]])
    for name in readers:
        assert READS_IN_ROW <= read.count(name) <= 3 * READS_IN_ROW
    for start in range(len(read) - READS_IN_ROW):
        assert len(set(read[start : start + READS_IN_ROW + 1])) == 2


def test_a_connection_that_is_closed_takes_no_turn_of_its_client():
    loop, read = Loop(), []
    turns = FairReads(loop.call_soon)
    turns.wait("a", Reader("open", read))
    turns.wait("a", Reader("closed", read, is_open=False))
    assert loop.turn()
    assert read == ["open"]
    assert not loop.turn()
