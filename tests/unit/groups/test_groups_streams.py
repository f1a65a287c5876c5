"""Streams groups: what members are told, what is refused, and what survives a crash."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.groups.messages import UserEndpoint
from goqueue.groups.streams.assignor import Role
from goqueue.groups.streams.configured import StatusCode
from goqueue.groups.streams.topology import Topology
from goqueue.model.errors import (
    FencedMemberEpochError,
    GroupMaxSizeError,
    GroupNotFoundError,
    InconsistentGroupProtocolError,
    InvalidGroupRequestError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition
from unit.groups.group_driver import AT_ONCE, TOPOLOGY, Driver, subtopology

SESSION_MS = AT_ONCE.streams_session_timeout_ms


@pytest.fixture
def driver() -> Driver:
    found = Driver(AT_ONCE)
    found.create(lines=2, again=2, kept=2)
    return found


def codes(result: Any) -> list[StatusCode]:
    return [each.code for each in result.statuses]


def active(*tasks: tuple[str, int]) -> frozenset[tuple[Role, str, int]]:
    return frozenset((Role.ACTIVE, *task) for task in tasks)


EVERYTHING = active(("0", 0), ("0", 1), ("1", 0), ("1", 1))


# --- Joining ------------------------------------------------------------------------------------


def test_the_only_member_gets_every_task_at_once(driver: Driver) -> None:
    result = driver.stream_first("m")
    assert (result.epoch, result.assignment, result.statuses) == (1, EVERYTHING, ())
    assert driver.state() == "Stable"
    assert result.heartbeat_interval_ms == AT_ONCE.streams_heartbeat_interval_ms


def test_a_member_is_told_its_tasks_only_when_they_are_news(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    assert driver.stream("m", epoch, owned=EVERYTHING).assignment is None
    assert driver.stream("m", epoch).assignment is None
    assert driver.stream("m", epoch, owned=frozenset()).assignment == EVERYTHING


def test_a_task_goes_to_a_new_member_only_after_the_old_one_gave_it_up(driver: Driver) -> None:
    old = driver.stream_first("old")
    new = driver.stream_first("new")
    assert new.assignment == frozenset()
    told = driver.stream("old", old.epoch)
    assert told.epoch == old.epoch, "it stays at its epoch until it has given up"
    assert len(told.assignment) == 2
    assert driver.stream("new", new.epoch, owned=frozenset()).assignment is None
    assert driver.stream("old", old.epoch, owned=told.assignment).epoch > old.epoch
    assert driver.stream("new", new.epoch).assignment == EVERYTHING - told.assignment
    assert driver.state() == "Stable"


def test_an_empty_group_waits_for_more_members_before_it_assigns() -> None:
    driver = Driver(replace(AT_ONCE, streams_initial_rebalance_delay_ms=3_000))
    driver.create(lines=2, again=2, kept=2)
    first = driver.stream_first("a")
    second = driver.stream_first("b")
    for each in (first, second):
        assert codes(each) == [StatusCode.ASSIGNMENT_DELAYED]
        assert each.assignment == frozenset()
    assert driver.state() == "NotReady"
    driver.advance(3_000)
    tasks = [
        driver.stream("a", first.epoch).assignment,
        driver.stream("b", second.epoch).assignment,
    ]
    assert [len(each) for each in tasks] == [2, 2]
    assert tasks[0] | tasks[1] == EVERYTHING
    assert codes(driver.stream("a", driver.generation())) == []


def test_standbys_are_kept_in_another_process_when_the_setting_says_so() -> None:
    driver = Driver(replace(AT_ONCE, streams_standby_count=1))
    driver.create(lines=1, again=1, kept=1)
    alone = driver.stream_first("a")
    assert alone.assignment == active(("0", 0), ("1", 0))
    other = driver.stream_first("b")
    told = driver.stream("a", alone.epoch)
    driver.stream("a", alone.epoch, owned=told.assignment)
    driver.stream("b", other.epoch)
    found = {
        each.member.process_id: {role for role, which, _ in each.member.assigned if which == "1"}
        for each in driver.coordinator.describe_streams("g").members
    }
    assert driver.state() == "Stable"
    assert sorted(map(sorted, found.values())) == [[Role.ACTIVE], [Role.STANDBY]]


def test_a_group_follows_its_own_standby_count_with_the_next_heartbeats(driver: Driver) -> None:
    driver.stream_first("a")
    driver.stream_first("b")
    lead_on(driver, "a", "b")
    assert standbys(driver) == set()
    driver.settings_of["g"] = replace(AT_ONCE, streams_standby_count=1)
    driver.coordinator.follow_settings("g")
    lead_on(driver, "a", "b")
    assert standbys(driver) == {("1", 0), ("1", 1)}
    driver.restart()
    assert standbys(driver) == {("1", 0), ("1", 1)}
    driver.settings_of.clear()
    driver.coordinator.follow_settings("g")
    lead_on(driver, "a", "b")
    assert standbys(driver) == set()


def lead_on(driver: Driver, *member_ids: str) -> None:
    """Heartbeats of members that do as they are told, until the group is stable."""
    for _ in range(4):
        for member_id in member_ids:
            members = driver.coordinator.describe_streams("g").members
            (member,) = (each.member for each in members if each.member.member_id == member_id)
            driver.stream(member_id, member.epoch, owned=member.assigned)
    assert driver.state() == "Stable"


def standbys(driver: Driver) -> set[tuple[str, int]]:
    members = driver.coordinator.describe_streams("g").members
    return {
        (which, number)
        for each in members
        for role, which, number in each.member.assigned
        if role is Role.STANDBY
    }


# --- Topics -------------------------------------------------------------------------------------


def test_missing_source_topics_leave_the_group_without_tasks_until_they_are_made() -> None:
    driver = Driver(AT_ONCE)
    waiting = driver.stream_first("m")
    assert codes(waiting) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert driver.state() == "NotReady"
    driver.create(lines=1)
    asked = driver.stream("m", waiting.epoch)
    assert codes(asked) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert [(each.name, each.partition_count) for each in asked.missing_topics] == [
        ("again", 1),
        ("kept", 1),
    ]
    driver.create(again=1, kept=1)
    ready = driver.stream("m", asked.epoch)
    assert (codes(ready), ready.assignment) == ([], active(("0", 0), ("1", 0)))


def test_tasks_are_taken_back_when_a_source_topic_is_deleted(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    topics = {k: v for k, v in driver.catalogue.topics.items() if k != "lines"}
    driver.catalogue = replace(driver.catalogue, version=99, topics=topics)
    told = driver.stream("m", epoch)
    assert codes(told) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert told.assignment == frozenset()


def test_a_member_with_an_older_topology_is_told_and_gets_no_tasks(driver: Driver) -> None:
    newer = replace_epoch(TOPOLOGY, 3)
    driver.stream_first("new", topology=newer)
    stale = driver.stream_first("old")
    assert codes(stale) == [StatusCode.STALE_TOPOLOGY]
    assert stale.assignment == frozenset()
    assert driver.coordinator.describe_streams("g").topology.epoch == 3


def test_a_changed_topology_takes_the_place_of_the_one_before(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    changed = Topology(0, (subtopology("0", "lines"),))
    driver.stream_first("m", topology=changed)
    assert driver.generation() > epoch
    assert driver.coordinator.describe_streams("g").topology == changed


def replace_epoch(topology: Topology, epoch: int) -> Topology:
    return Topology(epoch, topology.subtopologies)


# --- Members that go, and shutdown --------------------------------------------------------------


def test_tasks_of_a_member_that_leaves_are_shared_out(driver: Driver) -> None:
    driver.stream_first("a")
    other = driver.stream_first("b")
    assert driver.stream("a", -1).epoch == -1
    assert driver.stream("b", other.epoch).assignment == EVERYTHING


def test_a_silent_member_is_removed_when_its_session_ends(driver: Driver) -> None:
    driver.stream_first("m")
    driver.advance(SESSION_MS)
    assert driver.state() == "Empty"
    with pytest.raises(UnknownMemberError):
        driver.stream("m", 1)


def test_a_group_with_a_session_timeout_of_its_own_follows_it(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    driver.settings_of["g"] = replace(AT_ONCE, streams_session_timeout_ms=SESSION_MS + 10_000)
    driver.coordinator.follow_settings("g")
    driver.stream("m", epoch)
    driver.advance(SESSION_MS + 9_999)
    assert driver.state() == "Stable"
    driver.restart()
    driver.advance(SESSION_MS + 9_999)
    assert driver.state() == "Stable"
    driver.advance(1)
    assert driver.state() == "Empty"


def test_a_member_that_keeps_what_it_must_give_up_is_removed(driver: Driver) -> None:
    old = driver.stream_first("old", rebalance_timeout_ms=5_000)
    driver.stream_first("new")
    driver.stream("old", old.epoch)
    driver.advance(5_000)
    with pytest.raises(UnknownMemberError):
        driver.stream("old", old.epoch)
    assert driver.stream("new", driver.generation() - 1).assignment == EVERYTHING


def test_one_member_can_ask_all_others_to_shut_down(driver: Driver) -> None:
    first = driver.stream_first("a")
    second = driver.stream_first("b")
    driver.stream("a", first.epoch, wants_shutdown=True)
    assert StatusCode.SHUTDOWN_APPLICATION in codes(driver.stream("b", second.epoch))
    driver.stream("a", -1)
    driver.stream("b", -1)
    assert codes(driver.stream_first("c")) == []


def test_a_member_of_another_process_under_the_same_id_starts_with_nothing(driver: Driver) -> None:
    driver.stream_first("m")
    other = driver.stream_first("other")
    again = driver.stream_first("m", process_id="elsewhere")
    rest = driver.stream("other", other.epoch)
    assert len(again.assignment) == len(rest.assignment) == 2
    assert again.assignment | rest.assignment == EVERYTHING


# --- Endpoints ----------------------------------------------------------------------------------


def test_members_learn_where_to_ask_for_what(driver: Driver) -> None:
    here = UserEndpoint("here", 1)
    result = driver.stream_first("m", endpoint=here)
    (found,) = result.endpoints
    assert found.endpoint == here
    assert found.active == {("lines", 0), ("lines", 1), ("again", 0), ("again", 1)}
    known = driver.stream("m", result.epoch, endpoint_epoch=result.endpoint_epoch)
    assert known.endpoints is None
    driver.stream_first("other", endpoint=UserEndpoint("there", 2))
    news = driver.stream("m", result.epoch, endpoint_epoch=result.endpoint_epoch)
    assert [each.endpoint.host for each in news.endpoints] == ["here", "there"]


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"topology": None},
        {"process_id": None},
        {"process_id": ""},
        {"owned": None},
        {"owned": EVERYTHING},
        {"rebalance_timeout_ms": -1},
        {"rack_id": ""},
        {"instance_id": "static"},
        {"tags": tuple((str(n), "") for n in range(101))},
    ],
)
def test_a_first_heartbeat_that_lacks_something_is_refused(
    driver: Driver, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidGroupRequestError):
        driver.stream_first("m", **fields)
    assert driver.state() == "missing"


def test_a_topology_after_the_first_heartbeat_is_refused(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    with pytest.raises(InvalidGroupRequestError):
        driver.stream("m", epoch, topology=TOPOLOGY)
    with pytest.raises(InvalidGroupRequestError):
        driver.stream("m", epoch, process_id="another")
    with pytest.raises(InvalidGroupRequestError):
        driver.stream("m", -2)


def test_a_member_at_another_epoch_is_fenced(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    with pytest.raises(FencedMemberEpochError):
        driver.stream("m", epoch + 1)


def test_a_full_group_refuses_a_further_member() -> None:
    driver = Driver(replace(AT_ONCE, max_group_size=1))
    driver.stream_first("a")
    with pytest.raises(GroupMaxSizeError):
        driver.stream_first("b")


def test_a_topology_or_a_member_that_says_too_much_is_refused(driver: Driver) -> None:
    long = Topology(0, (subtopology("0", "x" * ((1 << 20) + 1)),))
    with pytest.raises(InvalidGroupRequestError):
        driver.stream_first("m", topology=long)
    with pytest.raises(InvalidGroupRequestError):
        driver.stream_first("m", process_id="p" * (1 << 20))
    assert driver.state() == "missing"


def test_a_topology_counts_once_for_the_memory_of_all_groups() -> None:
    driver = Driver(replace(AT_ONCE, member_memory_bytes=100_000))
    wide = Topology(0, (subtopology("0", "x" * 60_000),))
    driver.stream_first("m", group_id="a", topology=wide)
    driver.stream_first("n", group_id="a", topology=wide)
    driver.stream_first("m", group_id="a", topology=wide)
    with pytest.raises(GroupMaxSizeError):
        driver.stream_first("m", group_id="b", topology=wide)


# --- Offsets ------------------------------------------------------------------------------------


def test_commits_and_fetches_are_held_to_the_epoch_of_the_member(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    driver.result(driver.commit(("lines", 0, 5), member_id="m", generation_or_epoch=epoch))
    assert driver.offset("lines", 0) == 5
    for member_id, wrong, kind in (
        ("m", epoch + 1, StaleMemberEpochError),
        ("stranger", epoch, UnknownMemberError),
        ("", -1, UnknownMemberError),
    ):
        with pytest.raises(kind):
            driver.result(
                driver.commit(("lines", 0, 9), member_id=member_id, generation_or_epoch=wrong)
            )
    fetch = driver.coordinator.fetch_offsets
    assert fetch("g", [TopicPartition("lines", 0)], member_id="m", epoch=epoch)
    with pytest.raises(StaleMemberEpochError):
        fetch("g", [TopicPartition("lines", 0)], member_id="m", epoch=epoch + 1)


def test_offsets_outlive_members_and_may_then_be_set_from_outside(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    driver.result(driver.commit(("lines", 0, 5), member_id="m", generation_or_epoch=epoch))
    driver.stream("m", -1)
    driver.result(driver.commit(("lines", 0, 2)))
    assert driver.offset("lines", 0) == 2


# --- Other kinds of groups ----------------------------------------------------------------------


def test_an_empty_group_of_any_kind_becomes_a_streams_group_and_back(driver: Driver) -> None:
    (member_id,) = driver.stable()
    driver.result(driver.commit(("lines", 0, 7), member_id=member_id, generation_or_epoch=1))
    with pytest.raises(GroupNotFoundError):
        driver.stream_first("m")
    driver.leave(member_id)
    epoch = driver.stream_first("m").epoch
    assert (epoch > 1, driver.offset("lines", 0)) == (True, 7)
    with pytest.raises(InconsistentGroupProtocolError):
        driver.result(driver.join())
    with pytest.raises(GroupNotFoundError):
        driver.consume_first("c")
    driver.stream("m", -1)
    assert driver.consume_first("c").epoch > epoch
    driver.consume("c", -1)
    driver.stream_first("m")
    driver.stream("m", -1)
    driver.result(driver.join())
    assert driver.offset("lines", 0) == 7


def test_requests_of_the_classic_protocol_find_no_member(driver: Driver) -> None:
    epoch = driver.stream_first("m").epoch
    for token in (driver.heartbeat("m", epoch), driver.sync("m", epoch)):
        with pytest.raises(UnknownMemberError):
            driver.result(token)
    ((_, error),) = driver.result(driver.leave("m")).members
    assert isinstance(error, UnknownMemberError)


def test_a_group_is_listed_described_and_deleted_as_a_streams_group(driver: Driver) -> None:
    driver.stream_first("m")
    (line,) = driver.coordinator.list_groups(types=["Streams"])
    assert (line.group_type, line.protocol_type, line.state) == ("streams", "streams", "Stable")
    (described,) = driver.coordinator.describe_streams("g").members
    assert described.partitions == {("lines", 0), ("lines", 1), ("again", 0), ("again", 1)}
    assert driver.coordinator.reading("g").named == described.partitions

    def delete() -> Any:
        token = driver.token()
        driver.apply(driver.coordinator.delete_groups(["g"], token, driver.now_ms))
        return driver.result(token).groups[0][1]

    assert isinstance(delete(), NonEmptyGroupError)
    driver.stream("m", -1)
    assert delete() is None
    assert driver.log == {}


# --- Crashes ------------------------------------------------------------------------------------


def test_members_go_on_after_a_crash_without_a_rebalance(driver: Driver) -> None:
    endpoint = UserEndpoint("here", 1)
    epoch = driver.stream_first("m", endpoint=endpoint, tags=(("zone", "1"),)).epoch
    before = driver.coordinator.describe_streams("g")
    driver.restart()
    assert driver.coordinator.describe_streams("g") == before
    assert driver.stream("m", epoch, owned=EVERYTHING).epoch == epoch
    assert driver.generation() == epoch
    assert driver.state() == "Stable"
