"""A shard of queue groups is built from its log alone, whichever partitions the node has."""

from __future__ import annotations

from uuid import uuid4

from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import QueueGroup
from goqueue.queues.delivery.members import SharedMember
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.entries import (
    QueueReplay,
    changes_entry,
    dump,
    member_entry,
    member_key,
    settings_entry,
)

PLACE = (uuid4(), 3)
URGENT, NORMAL = 0, 2


def replayed(entries):
    lost = []
    replay = QueueReplay(lost.append)
    for _ in replay.take(entries, is_damaged=False):
        pass
    assert lost == []
    return replay.groups["g"]


def entries_of(*operations):
    """What is stored of a group that reads one partition, of which this node has nothing."""
    group = QueueGroup("g", QueueSettings())
    stored = [settings_entry("g", group.settings)]
    stored += [changes_entry(group, PLACE, [each]) for each in (ops.Opened(0), *operations)]
    return stored


def test_acknowledgements_of_a_partition_that_is_not_here_are_kept():
    """The trap: a replay that leaves out what it has no partition for loses them silently."""
    taken = ops.Taken(1, "ann", 0, 60_000, b"seed", [(NORMAL, 0, 10)])
    group = replayed(entries_of(taken, ops.Settled([(0, 4)])))
    queue = group.queues[PLACE]
    queue.check_invariants()
    assert queue.start == 4
    assert queue.held_by("ann") == [(4, 10)]
    assert set(queue.window.counts(4, 10)) == {1}


def test_nothing_is_offered_before_the_lanes_are_known_and_everything_after():
    taken = ops.Taken(1, "ann", 0, 60_000, b"seed", [(URGENT, 5, 7), (NORMAL, 0, 2)])
    back = ops.Released([(6, 7), (0, 1)])
    waits = ops.Postponed([(5, 9_000)])
    queue = replayed(entries_of(taken, back, waits)).queues[PLACE]
    assert queue.line.ready(10, 100) == [0] * 5
    lanes = LaneIndex()
    lanes.note(0, [NORMAL] * 5 + [URGENT] * 2 + [NORMAL] * 3)
    queue.follow(lanes)
    queue.check_invariants()
    assert queue.line.choose(queue.window, URGENT, 10, 10) == [(6, 7)]
    assert queue.line.choose(queue.window, NORMAL, 10, 10) == [(0, 1), (2, 5), (7, 10)]
    assert queue.is_blocked(URGENT, "ann"), "the first of the urgent ones waits"


def test_a_snapshot_of_a_queue_that_nobody_has_read_yet_loses_nothing():
    taken = ops.Taken(1, "ann", 0, 60_000, b"seed", [(NORMAL, 0, 8)])
    group = replayed(entries_of(taken, ops.Released([(2, 4)]), ops.Settled([(0, 2)])))
    again = replayed(list(dump({"g": group}))).queues[PLACE]
    lanes = LaneIndex()
    lanes.advance_to(10)
    again.follow(lanes)
    again.check_invariants()
    assert again.total(MessageState.IN_FLIGHT) == 4
    assert again.line.choose(again.window, NORMAL, 10, 10) == [(2, 4), (8, 10)]


def test_members_are_there_again_until_they_have_left():
    group = QueueGroup("g", QueueSettings())
    ann = SharedMember("ann", frozenset({"t", "u"}), "app", "host", 9_000)
    bob = SharedMember("bob", frozenset({"t"}))
    stored = [
        settings_entry("g", group.settings),
        member_entry(group, ann),
        member_entry(group, bob),
        (member_key(group, "bob"), None),
    ]
    for found in (replayed(stored), replayed(list(dump({"g": replayed(stored)})))):
        (member,) = found.members
        assert member.member_id == "ann"
        assert (member.topics, member.client_id, member.session_ms) == (ann.topics, "app", 9_000)
