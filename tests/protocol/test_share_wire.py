"""Share groups on the wire: every refusal has Kafka's code, in both versions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.records import decode_rows, walk
from support import group_wire
from support.groups import FAST_GROUPS, make_topic
from support.kafka_wire import WireClient
from support.pace import in_time, unhurried
from support.server import ServerProcess, make_server, siblings
from support.share import (
    ACCEPT,
    FETCH,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    RawMember,
    acquired,
    configure,
    partitions,
    store,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIND_COORDINATOR = 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("share")
    make_topic(server, made, 1)
    return made


@pytest.fixture
def place(server: ServerProcess, topic: str) -> tuple[UUID, int]:
    """The one partition of the topic, as requests name it."""
    with WireClient(server.kafka_address) as client:
        return group_wire.topic_id(client, topic), 0


@pytest.fixture
def group(server: ServerProcess, name: Callable[[str], str]) -> str:
    """The name of a group that reads from the start."""
    made = name("group")
    configure(server, made, auto_offset_reset="earliest")
    return made


@pytest.fixture
def join(server: ServerProcess, group: str, topic: str) -> Iterator[Callable[..., RawMember]]:
    """Makes members of the group that read the topic."""
    made: list[RawMember] = []

    def joined(version: int = 2) -> RawMember:
        member = RawMember(server, group, version)
        made.append(member)
        assert member.heartbeat(0, [topic]).error_code is ErrorCode.none
        return member

    yield joined
    for member in made:
        member.close()


@pytest.fixture
def member(join: Callable[..., RawMember]) -> RawMember:
    return join()


def code(answer: Any, place: tuple[UUID, int]) -> ErrorCode:
    """What a ShareAcknowledge answer says of a partition."""
    found: ErrorCode = partitions(answer)[place].error_code
    return found


# --- ShareGroupHeartbeat -------------------------------------------------------------------------


def test_who_joins_is_assigned_every_partition_and_told_again_only_what_changes(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    answer = member.heartbeat(0, [topic, "not-there-yet"])
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (place[0], (0,))
    assert answer.heartbeat_interval.total_seconds() == 5
    assert answer.member_id == member.member_id
    assert member.heartbeat().assignment is None
    assert member.heartbeat(topics=[topic]).assignment is not None


def test_every_member_hears_of_a_new_epoch_when_another_one_joins(
    join: Callable[..., RawMember],
) -> None:
    one = join()
    before = one.epoch
    two = join()
    assert two.epoch > before
    one.heartbeat()
    assert one.epoch == two.epoch
    stale = one.heartbeat(before)
    assert stale.error_code is ErrorCode.none
    assert stale.member_epoch == one.epoch


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"epoch": -2}, ErrorCode.invalid_request),
        ({"epoch": 0}, ErrorCode.invalid_request),
        ({"epoch": 0, "topics": []}, ErrorCode.invalid_request),
        ({"epoch": 99}, ErrorCode.fenced_member_epoch),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(
    member: RawMember, said: dict[str, Any], expected: ErrorCode
) -> None:
    assert member.heartbeat(**said).error_code is expected


def test_members_and_groups_that_are_not_there_are_unknown(
    server: ServerProcess, member: RawMember, topic: str, name: Callable[[str], str]
) -> None:
    stranger = RawMember(server, member.group)
    assert stranger.heartbeat(1).error_code is ErrorCode.unknown_member_id
    assert stranger.heartbeat(-1).error_code is ErrorCode.unknown_member_id
    stranger.group = name("nowhere")
    assert stranger.heartbeat(1).error_code is ErrorCode.group_id_not_found
    stranger.member_id = ""
    assert stranger.heartbeat(0, [topic]).error_code is ErrorCode.invalid_request
    stranger.member_id, stranger.group = "me", ""
    assert stranger.heartbeat(0, [topic]).error_code is ErrorCode.invalid_request
    stranger.close()
    assert member.heartbeat(-1).member_epoch == -1
    assert member.heartbeat(1).error_code is ErrorCode.unknown_member_id


def test_a_member_that_is_silent_for_its_session_is_gone_and_its_messages_are_not(
    server: ServerProcess, group: str, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, ["a"])
    silent, other = RawMember(server, group), RawMember(server, group)
    other.heartbeat(0, [topic])
    other.fetch([place], max_records=0)
    configure(server, group, session_timeout_ms=3000, heartbeat_interval_ms=100)
    silent.heartbeat(0, [topic])
    assert acquired(silent.fetch([place])) == [(0, 0, 1)]
    assert acquired(other.fetch(max_wait_ms=60_000)) == [(0, 0, 2)]
    assert silent.heartbeat().error_code is ErrorCode.unknown_member_id
    silent.close()
    other.close()


def test_consumer_groups_and_share_groups_do_not_share_a_name(
    server: ServerProcess, member: RawMember, topic: str, name: Callable[[str], str]
) -> None:
    with WireClient(server.kafka_address) as client:
        classic = group_wire.join(client, member.group)
        assert classic.error_code is ErrorCode.inconsistent_group_protocol
        newer = group_wire.consumer_join(client, member.group, [topic])
        assert newer.error_code is ErrorCode.inconsistent_group_protocol
        placed = group_wire.commit(client, member.group, topic, 0)
        assert placed is ErrorCode.inconsistent_group_protocol
        keeper = RawMember(server, "__goqueue_redrive")
        assert keeper.heartbeat(0, [topic]).error_code is ErrorCode.invalid_group_id
        keeper.close()
        taken = name("consumers")
        assert group_wire.join_fully(client, taken).error_code is ErrorCode.none
        sharer = RawMember(server, taken)
        refused = sharer.heartbeat(0, [topic])
        assert refused.error_code is ErrorCode.inconsistent_group_protocol
        assert "consumer group" in refused.error_message
        sharer.close()


def test_share_coordinators_are_found_under_every_key_type(server: ServerProcess) -> None:
    with WireClient(server.kafka_address) as client:
        for key_type in (0, 2):
            answer = client.call(
                FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=[f"g:{uuid4()}:0"]
            )
            (found,) = answer.coordinators
            assert found.error_code is ErrorCode.none
            assert found.port in siblings(server.kafka_port)


# --- Sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_is_opened_advances_by_one_and_ends(
    server: ServerProcess,
    join: Callable[..., RawMember],
    topic: str,
    place: tuple[UUID, int],
    version: int,
) -> None:
    member = join(version)
    assert member.fetch(epoch=1).error_code is ErrorCode.share_session_not_found
    assert member.acknowledge({}, epoch=1).error_code is ErrorCode.share_session_not_found
    assert member.acknowledge({}, epoch=-1).error_code is ErrorCode.share_session_not_found
    opened = member.fetch([place])
    assert opened.error_code is ErrorCode.none
    assert list(partitions(opened)) == [place]
    assert member.fetch(epoch=7).error_code is ErrorCode.invalid_share_session_epoch
    assert member.acknowledge({}, epoch=0).error_code is ErrorCode.invalid_share_session_epoch
    assert member.acknowledge({}, epoch=7).error_code is ErrorCode.invalid_share_session_epoch
    store(server, topic, ["a"])
    assert acquired(member.fetch()) == [(0, 0, 1)]  # epoch 1: the partition is remembered
    quiet = member.fetch()
    assert quiet.responses == ()  # nothing to say
    member.acknowledge({place: [(0, 0, [ACCEPT])]})
    assert member.fetch(epoch=-1).error_code is ErrorCode.none
    assert member.fetch().error_code is ErrorCode.share_session_not_found


def test_partitions_are_forgotten_and_added_while_a_session_lasts(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    member.fetch([place])
    member.fetch(forgotten=[place])
    store(server, topic, ["a"])
    assert acquired(member.fetch()) == []
    assert acquired(member.fetch([place])) == [(0, 0, 1)]


def test_opening_a_session_anew_does_not_give_up_what_the_member_has(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, ["a", "b"])
    assert acquired(member.fetch([place], max_records=1, mode=RECORD_LIMIT)) == [(0, 0, 1)]
    member.session_epoch = 0
    assert acquired(member.fetch([place])) == [(1, 1, 1)]
    assert code(member.acknowledge({place: [(0, 1, [ACCEPT])]}), place) is ErrorCode.none


def test_what_a_member_has_goes_back_when_its_session_ends(
    server: ServerProcess, join: Callable[..., RawMember], topic: str, place: tuple[UUID, int]
) -> None:
    one, two = join(), join()
    store(server, topic, ["a", "b", "c"])
    assert acquired(one.fetch([place])) == [(0, 2, 1)]
    ended = one.acknowledge({place: [(1, 1, [ACCEPT])]}, epoch=-1)
    assert code(ended, place) is ErrorCode.none
    assert acquired(two.fetch([place])) == [(0, 0, 2), (2, 2, 2)]


def test_the_first_request_of_a_session_cannot_acknowledge(
    member: RawMember, place: tuple[UUID, int]
) -> None:
    refused = member.fetch(acks={place: [(0, 0, [ACCEPT])]})
    assert refused.error_code is ErrorCode.invalid_request


def test_a_fetch_names_its_group_and_member(
    server: ServerProcess, member: RawMember, place: tuple[UUID, int], name: Callable[[str], str]
) -> None:
    stranger = RawMember(server, name("nowhere"))
    assert stranger.fetch([place]).error_code is ErrorCode.group_id_not_found
    stranger.member_id = ""
    assert stranger.fetch([place]).error_code is ErrorCode.invalid_request
    assert stranger.acknowledge({}).error_code is ErrorCode.invalid_request
    stranger.close()


def test_partitions_that_are_not_there_are_told_one_by_one(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, ["a"])
    nowhere, beyond = (uuid4(), 0), (place[0], 5)

    def fetched() -> Any:
        """What is not there is told at once, before a coordinator elsewhere has the message."""
        answer = member.fetch([place, nowhere, beyond], max_wait_ms=60_000)
        return answer if acquired(answer) else None

    answer = eventually(fetched, "the message is there")
    found = partitions(answer)
    assert found[nowhere].error_code is ErrorCode.unknown_topic_id
    assert found[beyond].error_code is ErrorCode.unknown_topic_or_partition
    assert acquired(answer) == [(0, 0, 1)]
    said = member.acknowledge({each: [(0, 0, [ACCEPT])] for each in (nowhere, beyond, place)})
    assert code(said, nowhere) is ErrorCode.unknown_topic_id
    assert code(said, beyond) is ErrorCode.unknown_topic_or_partition
    assert code(said, place) is ErrorCode.none


def test_the_brokers_own_topics_are_nobodys_work(
    member: RawMember, place: tuple[UUID, int]
) -> None:
    own = group_wire.topic_id(member.client, "__queue_state"), 0
    assigned = member.heartbeat(topics=["__queue_state"]).assignment
    assert assigned.topic_partitions == ()
    found = partitions(member.fetch([place, own], max_wait_ms=60_000))
    assert found[own].error_code is ErrorCode.invalid_topic_exception


# --- Records -------------------------------------------------------------------------------------


def test_batches_come_as_they_are_stored_with_the_ranges_that_are_the_members(
    server: ServerProcess, join: Callable[..., RawMember], topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, [str(number) for number in range(10)])
    one, two = join(2), join(1)
    first = one.fetch([place], max_records=4, mode=RECORD_LIMIT)
    assert acquired(first) == [(0, 3, 1)]
    assert first.acquisition_lock_timeout.total_seconds() == 30
    second = two.fetch([place])
    assert acquired(second) == [(4, 9, 1)]
    for answer in (first, second):
        data = bytes(partitions(answer)[place].records)
        (info,) = [info for _, info in walk(data)]
        assert (info.base_offset, info.count) == (0, 10)
        assert [row.value for row in decode_rows(data)] == [b"%d" % n for n in range(10)]
    assert partitions(first)[place].records == partitions(second)[place].records


@pytest.mark.parametrize("version", [1, 2])
def test_the_last_batch_is_acquired_whole_past_max_records(
    server: ServerProcess,
    join: Callable[..., RawMember],
    topic: str,
    place: tuple[UUID, int],
    version: int,
) -> None:
    for _ in range(5):
        store(server, topic, list("0123456789"))
    member = join(version)
    assert acquired(member.fetch([place], max_records=4)) == [(0, 9, 1)]
    assert acquired(member.fetch(max_records=15)) == [(10, 29, 1)]
    member.acknowledge({place: [(2, 3, [RELEASE]), (12, 19, [RELEASE])]})
    assert acquired(member.fetch(max_records=1)) == [(2, 3, 2)]  # what is left of the batch
    assert acquired(member.fetch(max_records=3)) == [(12, 19, 2)]
    everything = [(first, last, [ACCEPT]) for first, last in ((0, 1), (2, 3), (4, 29))]
    assert code(member.acknowledge({place: everything}), place) is ErrorCode.none


def test_a_record_limit_is_never_exceeded(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    for _ in range(2):
        store(server, topic, list("0123456789"))
    assert acquired(member.fetch([place], max_records=4, mode=RECORD_LIMIT)) == [(0, 3, 1)]
    assert acquired(member.fetch(max_records=8, mode=RECORD_LIMIT)) == [(4, 11, 1)]
    assert acquired(member.fetch(max_records=1)) == [(12, 19, 1)]
    assert member.fetch(mode=2).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [
        (4, [(0, 9, 1), (10, 19, 1), (20, 29, 1)]),
        (15, [(0, 19, 1), (20, 29, 1)]),
        (500, [(0, 29, 1)]),
    ],
)
def test_ranges_end_with_the_batch_in_which_they_reach_the_batch_size(
    server: ServerProcess,
    member: RawMember,
    topic: str,
    place: tuple[UUID, int],
    *,
    batch_size: int,
    expected: list[tuple[int, int, int]],
) -> None:
    for _ in range(3):
        store(server, topic, list("0123456789"))
    found = acquired(member.fetch([place], batch_size=batch_size))
    while found[-1][1] < 29:  # the coordinator of a cluster may hear of batches one by one
        found += acquired(member.fetch(batch_size=batch_size))
    if len(server.data_dirs) == 1:
        assert found == expected
    assert {last for _, last, _ in expected} <= {last for _, last, _ in found} <= {9, 19, 29}


def test_a_fetch_waits_for_messages_and_no_longer_than_it_says(
    server: ServerProcess, join: Callable[..., RawMember], topic: str, place: tuple[UUID, int]
) -> None:
    member = join()
    assert acquired(member.fetch([place], max_wait_ms=50)) == []
    one, two = join(), join()
    one.fetch([place])
    two.fetch([place])
    store(server, topic, ["a", "b"])
    assert acquired(one.fetch(max_wait_ms=60_000)) == [(0, 1, 1)]
    one.fetch(acks={place: [(0, 1, [RELEASE])]}, max_records=0)
    assert acquired(two.fetch(max_wait_ms=60_000)) == [(0, 1, 2)]


def test_whole_batches_count_against_the_bytes_of_an_answer(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    for letter in "abc":
        store(server, topic, [letter * 1000])
    assert acquired(member.fetch([place], max_bytes=0, max_wait_ms=60_000)) == []
    assert acquired(member.fetch(max_bytes=1)) == [(0, 0, 1)]
    assert acquired(member.fetch(max_bytes=2500)) == [(1, 2, 1)]


def total(answer: Any) -> int:
    return sum(last - first + 1 for first, last, _ in acquired(answer))


def test_a_member_has_no_more_than_the_group_allows_but_for_the_rest_of_a_batch(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, [str(number) for number in range(950)])
    store(server, topic, [str(number) for number in range(250)])
    assert total(member.fetch([place], max_records=990)) == 1200
    store(server, topic, ["more"])
    assert total(member.fetch(max_wait_ms=50)) == 0
    more = member.fetch(acks={place: [(0, 299, [ACCEPT])]})
    assert partitions(more)[place].acknowledge_error_code == 0
    assert total(more) == 1


def test_the_members_of_a_partition_have_no_more_locks_than_the_group_allows(
    server: ServerProcess,
    join: Callable[..., RawMember],
    group: str,
    topic: str,
    place: tuple[UUID, int],
) -> None:
    configure(server, group, partition_max_record_locks=100)
    for _ in range(5):
        store(server, topic, [str(number) for number in range(30)])
    one, two = join(), join()
    assert total(one.fetch([place], max_records=60)) == 60
    assert total(two.fetch([place])) == 60
    assert total(two.fetch(max_wait_ms=50)) == 0
    two.client.send(FETCH, 2, **two.fetch_fields(max_wait_ms=60_000))
    one.acknowledge({place: [(0, 29, [ACCEPT])]})
    assert total(two.client.receive()) == 30


def test_nobody_gets_the_messages_of_a_client_that_hung_up_before_there_were_any(
    server: ServerProcess, join: Callable[..., RawMember], topic: str, place: tuple[UUID, int]
) -> None:
    gone, other = join(), join()
    gone.fetch([place])
    gone.client.send(FETCH, 2, **gone.fetch_fields(max_wait_ms=30_000))
    gone.client.close()
    other.fetch([place])
    store(server, topic, ["a"])
    assert acquired(other.fetch(max_wait_ms=60_000)) == [(0, 0, 1)]


# --- Acknowledging -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_each_type_of_acknowledgement_does_what_it_says(
    server: ServerProcess,
    join: Callable[..., RawMember],
    topic: str,
    place: tuple[UUID, int],
    version: int,
) -> None:
    member = join(version)
    store(server, topic, list("abcde"))
    assert acquired(member.fetch([place])) == [(0, 4, 1)]
    said = {place: [(0, 3, [ACCEPT, RELEASE, GAP, RELEASE]), (4, 4, [REJECT])]}
    assert code(member.acknowledge(said), place) is ErrorCode.none
    assert acquired(member.fetch()) == [(1, 1, 2), (3, 3, 2)]


def test_acknowledgements_ride_on_a_fetch_and_count_before_it(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, ["a", "b"])
    member.fetch([place])
    answer = member.fetch(acks={place: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
    assert acquired(answer) == [(1, 1, 2)]
    assert partitions(answer)[place].acknowledge_error_code == 0


def test_acknowledging_what_a_member_does_not_have_is_refused_as_a_whole(
    server: ServerProcess, join: Callable[..., RawMember], topic: str, place: tuple[UUID, int]
) -> None:
    one, two = join(), join()
    store(server, topic, list("abcd"))
    one.fetch([place], max_records=2, mode=RECORD_LIMIT)
    two.fetch([place], max_records=1, mode=RECORD_LIMIT)
    wrong: list[tuple[int, int, list[int]]]
    for wrong in (
        [(0, 2, [ACCEPT])],  # one of them is somebody else's
        [(3, 3, [ACCEPT])],  # nobody's
        [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])],
        [(0, 2**62, [ACCEPT])],
        [(2**62, 2**62, [RELEASE])],
    ):
        assert code(one.acknowledge({place: wrong}), place) is ErrorCode.invalid_record_state
    riding = one.fetch(acks={place: [(2, 2, [ACCEPT])]}, max_wait_ms=60_000)
    refused = partitions(riding)[place]
    assert refused.acknowledge_error_code == ErrorCode.invalid_record_state.value
    assert refused.error_code is ErrorCode.none
    assert code(one.acknowledge({place: [(0, 1, [ACCEPT])]}), place) is ErrorCode.none
    twice = one.acknowledge({place: [(0, 1, [ACCEPT])]})
    assert code(twice, place) is ErrorCode.invalid_record_state


@pytest.mark.parametrize(
    "malformed",
    [
        [(1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [9])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 1, [ACCEPT]), (1, 1, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
    ],
)
def test_acknowledgements_that_contradict_themselves_are_invalid_requests(
    server: ServerProcess,
    member: RawMember,
    topic: str,
    place: tuple[UUID, int],
    malformed: list[tuple[int, int, list[int]]],
) -> None:
    store(server, topic, list("abc"))
    member.fetch([place])
    assert code(member.acknowledge({place: malformed}), place) is ErrorCode.invalid_request
    riding = partitions(member.fetch(acks={place: malformed}))[place]
    assert riding.acknowledge_error_code == ErrorCode.invalid_request.value


def test_renewing_keeps_messages_from_others_and_takes_none(
    server: ServerProcess,
    join: Callable[..., RawMember],
    group: str,
    topic: str,
    place: tuple[UUID, int],
) -> None:
    one, two = join(), join()
    one.fetch([place])
    two.fetch([place])
    store(server, topic, ["a"])

    def scenario(lock_ms: int) -> None:
        configure(server, group, record_lock_duration_ms=lock_ms)
        two.acknowledge({place: [(0, 0, [RELEASE])]})  # what an attempt before this may have left
        assert [held[:2] for held in acquired(one.fetch(max_wait_ms=60_000))] == [(0, 0)]
        renewed_ms = time.time() * 1000
        one.acknowledge({place: [(0, 0, [RENEW])]}, renew=True)
        for _ in range(4):
            taken = acquired(two.fetch(max_wait_ms=lock_ms // 2))
            until_ms, renewed_ms = renewed_ms + lock_ms, time.time() * 1000
            renewed = one.acknowledge({place: [(0, 0, [RENEW])]}, renew=True)
            in_time(until_ms)
            assert taken == []
            assert code(renewed, place) is ErrorCode.none
            assert renewed.acquisition_lock_timeout.total_seconds() == lock_ms / 1000

        configure(server, group, record_lock_duration_ms=60_000)
        riding = one.fetch(acks={place: [(0, 0, [RENEW])]}, renew=True)
        if partitions(riding)[place].acknowledge_error_code:
            in_time(renewed_ms + lock_ms)
        assert acquired(riding) == []
        assert partitions(riding)[place].acknowledge_error_code == 0

    unhurried(scenario)
    assert code(one.acknowledge({place: [(0, 0, [ACCEPT])]}), place) is ErrorCode.none


def test_renewing_is_refused_where_the_group_forbids_it(
    server: ServerProcess, member: RawMember, group: str, topic: str, place: tuple[UUID, int]
) -> None:
    configure(server, group, renew_acknowledge_enable="false")
    store(server, topic, ["a"])
    member.fetch([place])
    refused = member.acknowledge({place: [(0, 0, [RENEW])]}, renew=True)
    assert code(refused, place) is ErrorCode.invalid_record_state


def test_a_topic_that_is_deleted_takes_its_messages_along(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    store(server, topic, ["a"])
    assert acquired(member.fetch([place])) == [(0, 0, 1)]
    with WireClient(server.kafka_address) as client:
        client.call(20, 6, topics=[{"name": topic, "topic_id": None}], timeout=5000)
    refused = member.acknowledge({place: [(0, 0, [ACCEPT])]})
    assert code(refused, place) is ErrorCode.unknown_topic_id
    gone = partitions(member.fetch())
    assert gone[place].error_code is ErrorCode.unknown_topic_id
    assert member.heartbeat().assignment.topic_partitions == ()


def test_a_fetch_that_waits_hears_of_a_topic_that_is_deleted_meanwhile(
    server: ServerProcess, member: RawMember, topic: str, place: tuple[UUID, int]
) -> None:
    member.fetch([place])
    member.client.send(FETCH, 2, **member.fetch_fields(max_wait_ms=60_000))
    with WireClient(server.kafka_address) as client:
        client.call(20, 6, topics=[{"name": topic, "topic_id": None}], timeout=5000)
    started = time.monotonic()
    answer = member.client.receive()
    assert time.monotonic() - started < 45
    assert answer.error_code is ErrorCode.none
    assert partitions(answer)[place].error_code is ErrorCode.unknown_topic_id
