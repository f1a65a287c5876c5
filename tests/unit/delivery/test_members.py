"""Who is in a shared group."""

from __future__ import annotations

import pytest

from goqueue.model.errors import FencedMemberEpochError, GroupMaxSizeError, UnknownMemberError
from goqueue.queues.delivery import members as module
from goqueue.queues.delivery.members import Members, SharedMember


def group_of(*names, now_ms=0, session_ms=100):
    members = Members()
    for name in names:
        members.join(SharedMember(name, frozenset({"orders"}), session_ms=session_ms), now_ms)
    return members


def test_every_change_of_who_is_there_is_a_new_epoch():
    members = group_of("ann", "bob")
    assert members.epoch == 2
    members.leave("ann")
    assert members.epoch == 3
    assert "ann" not in members
    assert [each.member_id for each in members] == ["bob"]


def test_a_heartbeat_brings_a_member_to_the_epoch_of_the_group():
    members = group_of("ann", "bob")
    assert members.get("ann").epoch == 1
    assert members.heartbeat("ann", 1, None, 50).epoch == 2
    assert members.get("ann").deadline_ms == 150


def test_a_member_that_missed_the_last_answer_may_repeat_itself():
    members = group_of("ann", "bob")
    members.heartbeat("ann", 1, None, 0)
    assert members.heartbeat("ann", 1, None, 0).epoch == 2


@pytest.mark.parametrize("epoch", [-1, 0, 3, 99])
def test_a_member_that_speaks_for_an_epoch_it_never_had_is_fenced(epoch):
    members = group_of("ann", "bob")
    members.heartbeat("ann", 1, None, 0)
    with pytest.raises(FencedMemberEpochError):
        members.heartbeat("ann", epoch, None, 0)
    with pytest.raises(FencedMemberEpochError):
        members.heartbeat("bob", epoch, None, 0)


def test_a_member_that_was_fenced_is_not_kept_alive_by_it():
    members = group_of("ann")
    with pytest.raises(FencedMemberEpochError):
        members.heartbeat("ann", 99, None, 50)
    assert members.expired(100) == ["ann"]


def test_other_topics_are_a_new_epoch_and_the_same_ones_are_not():
    members = group_of("ann", "bob")
    members.heartbeat("bob", 2, ["orders"], 0)
    assert members.epoch == 2
    member = members.heartbeat("bob", 2, ["orders", "bills"], 0)
    assert (member.epoch, members.epoch) == (3, 3)
    assert member.topics == {"orders", "bills"}


@pytest.mark.parametrize("ask", ["get", "leave"])
def test_who_is_not_there_is_unknown(ask):
    members = group_of("ann")
    members.leave("ann")
    with pytest.raises(UnknownMemberError):
        getattr(members, ask)("ann")
    with pytest.raises(UnknownMemberError):
        members.heartbeat("ann", 1, None, 0)


def test_who_joins_again_is_the_same_member_in_a_new_epoch():
    members = group_of("ann", "ann")
    assert len(members) == 1
    assert members.get("ann").epoch == 2
    with pytest.raises(FencedMemberEpochError):
        members.heartbeat("ann", 1, None, 0)


def test_a_member_of_whom_nothing_is_heard_has_expired_and_one_that_waits_has_not():
    members = group_of("ann", "bob", "cat")
    members.heartbeat("bob", None, None, 50)
    members.get("cat").polls = 1
    assert members.next_deadline_ms() == 100
    assert members.expired(99) == []
    assert members.expired(100) == ["ann"]
    assert members.expired(150) == ["ann", "bob"]


def test_an_empty_group_waits_for_nothing():
    assert Members().next_deadline_ms() is None
    assert Members().expired(10**15) == []


def test_a_full_group_takes_nobody_but_who_is_there_may_come_back(monkeypatch):
    monkeypatch.setattr(module, "_MAX_MEMBERS", 2)
    members = group_of("ann", "bob")
    with pytest.raises(GroupMaxSizeError):
        members.join(SharedMember("cat", frozenset()), 0)
    members.join(SharedMember("bob", frozenset()), 0)
    assert len(members) == 2
