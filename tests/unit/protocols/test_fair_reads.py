from __future__ import annotations

from goqueue.protocols.kafka.connection.fair_reads import (
    ALONE_TURNS,
    READS_IN_ROW,
    SHARE_S,
    FairReads,
)


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
    noisy, other = turns.share_of("noisy"), turns.share_of("other")
    for number in range(3):
        turns.wait(noisy, Reader(f"noisy {number}", read))
    turns.wait(other, Reader("other", read))
    loop.turn()
    assert [name.split()[0] for name in read] == ["noisy", "other"]
    while loop.turn():
        pass
    assert sorted(read) == ["noisy 0", "noisy 1", "noisy 2", "other"]


def test_connections_of_one_client_take_turns_after_a_few_reads_in_a_row():
    loop, read = Loop(), []
    turns = FairReads(loop.call_soon)
    client = turns.share_of("client")
    readers = {name: Reader(name, read) for name in ("first", "second")}
    for each in readers.values():
        turns.wait(client, each)
    for _ in range(4 * READS_IN_ROW):
        loop.turn()
        turns.wait(client, readers[read[-1]])
    for name in readers:
        assert READS_IN_ROW <= read.count(name) <= 3 * READS_IN_ROW
    for start in range(len(read) - READS_IN_ROW):
        assert len(set(read[start : start + READS_IN_ROW + 1])) == 2


def test_a_connection_that_is_closed_takes_no_turn_of_its_client():
    loop, read = Loop(), []
    turns = FairReads(loop.call_soon)
    client = turns.share_of("a")
    turns.wait(client, Reader("open", read))
    turns.wait(client, Reader("closed", read, is_open=False))
    assert loop.turn()
    assert read == ["open"]
    assert not loop.turn()


class Held:
    """A connection of which something has arrived, that takes a part of a share to serve."""

    def __init__(self, name, turns, share, served):
        self.name, self._turns, self._share, self._served = name, turns, share, served
        self.reads_in_row = 0

    def read_on(self):
        self._served.append(self.name)
        self._turns.used(self._share, 0.6 * SHARE_S)
        return self._turns.has_had_its_share(self._share)


def test_of_many_held_connections_a_share_of_each_client_is_served_in_a_turn():
    loop, served = Loop(), []
    turns = FairReads(loop.call_soon)
    noisy, other = turns.share_of("noisy"), turns.share_of("other")
    for number in range(5):
        turns.hold(noisy, Held(f"noisy {number}", turns, noisy, served))
    loop.turn()
    assert served == ["noisy 0", "noisy 1"]
    turns.hold(other, Held("other", turns, other, served))
    loop.turn()
    assert served == ["noisy 0", "noisy 1", "noisy 2", "noisy 3", "other"]
    while loop.turn():
        pass
    assert served[5:] == ["noisy 4"]


def test_a_share_that_is_used_up_is_there_again_in_the_next_turn():
    loop = Loop()
    turns = FairReads(loop.call_soon)
    client = turns.share_of("client")
    turns.used(client, 2 * SHARE_S)
    assert turns.is_used_up(client)
    loop.turn()
    assert not turns.is_used_up(client)


def test_what_comes_while_others_of_a_client_wait_waits_behind_them():
    loop = Loop()
    turns = FairReads(loop.call_soon)
    client = turns.share_of("client")
    turns.hold(client, Held("held", turns, client, []))
    assert turns.is_used_up(client)


def test_turns_are_shared_from_the_second_client_on_until_one_is_alone_for_long():
    loop = Loop()
    turns = FairReads(loop.call_soon)
    first, second = turns.share_of("first"), turns.share_of("second")
    turns.changed(first)
    assert not turns.is_shared
    turns.changed(second)
    assert turns.is_shared
    for _ in range(ALONE_TURNS + 1):
        turns.used(second, 0.0)
        loop.turn()
    assert not turns.is_shared


def test_a_client_without_connections_is_forgotten():
    turns = FairReads(Loop().call_soon)
    share = turns.share_of("client")
    assert turns.share_of("client") is share
    share.used_s = 1.0
    del share
    assert turns.share_of("client").used_s == 0


def test_after_a_long_request_of_a_client_the_next_turn_belongs_to_the_others():
    loop, served = Loop(), []
    turns = FairReads(loop.call_soon)
    client = turns.share_of("client")
    turns.used(client, 5 * SHARE_S)
    turns.hold(client, Held("held", turns, client, served))
    loop.turn()
    assert served == []
    loop.turn()
    assert served == ["held"]
