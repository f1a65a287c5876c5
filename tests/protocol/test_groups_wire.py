"""Groups on the wire: every version is answered, and every refusal has exactly Kafka's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from support import group_wire as wire
from support.groups import FAST_GROUPS, make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server, siblings, start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["start_server"]

TOPIC = "t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *FAST_GROUPS).start()
    make_topic(process, TOPIC, 4)
    yield process
    process.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(server.kafka_address) as wire_client:
        yield wire_client


@pytest.fixture
def group() -> str:
    return f"group-{uuid4()}"


def stable_member(client: WireClient, group: str, **said: Any) -> tuple[str, int]:
    """The only member of a stable group: its id and generation."""
    joined = wire.join_fully(client, group, **said)
    assert joined.leader == joined.member_id
    synced = wire.sync(
        client,
        group,
        joined.member_id,
        joined.generation_id,
        assignments={joined.member_id: b"mine"},
        instance_id=said.get("instance_id"),
    )
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    return joined.member_id, joined.generation_id


# --- Every version ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(11))
def test_a_member_lives_its_whole_life_in_every_version(
    client: WireClient, group: str, version: int
) -> None:
    uuid = wire.topic_id(client, TOPIC)
    joined = wire.join_fully(client, group, min(version, 9))
    me, generation = joined.member_id, joined.generation_id
    assert generation == 1
    assert [each.member_id for each in joined.members] == [me]
    synced = wire.sync(client, group, me, generation, min(version, 5), assignments={me: b"a"})
    assert synced.assignment == b"a"
    assert wire.heartbeat(client, group, me, generation, min(version, 4)) is ErrorCode.none

    commit_version = max(version, 2)
    said: dict[str, Any] = {
        "member_id": me,
        "generation": generation,
        "metadata": "note",
        "uuid": uuid,
    }
    assert wire.commit(client, group, TOPIC, 7, commit_version, **said) is ErrorCode.none
    fetch_version = max(version, 1)
    for asked in (TOPIC, None) if fetch_version >= 2 else (TOPIC,):
        found = wire.fetch(client, group, asked, fetch_version, uuid=uuid)
        (partition,) = found.topics[0].partitions
        assert (partition.committed_offset, partition.metadata) == (7, "note")
        if fetch_version >= 10:
            assert found.topics[0].topic_id == uuid
        else:
            assert found.topics[0].name == TOPIC

    described = wire.describe(client, group, min(version, 6))
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert [each.member_assignment for each in described.members] == [b"a"]
    listed = client.call(wire.LIST, min(version, 5), states_filter=(), types_filter=())
    assert group in [each.group_id for each in listed.groups]

    left = wire.leave(client, group, me, min(version, 5))
    assert left.error_code is ErrorCode.none
    assert wire.describe(client, group).group_state == "Empty"
    deleted = wire.delete(client, group, version=min(version, 2))
    assert deleted == {group: ErrorCode.none}
    assert wire.describe(client, group).group_state == "Dead"


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_in_every_version(
    server: ServerProcess, client: WireClient, group: str, version: int
) -> None:
    answer = client.call(
        wire.FIND_COORDINATOR, version, key=group, key_type=0, coordinator_keys=[group, "other"]
    )
    found = answer.coordinators if version >= 4 else [answer]
    assert {each.port for each in found} <= {*siblings(server.kafka_port)}
    assert len(found) == (2 if version >= 4 else 1)
    if version >= 4:
        assert [each.key for each in found] == [group, "other"]


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_of_the_consumer_protocol_lives_in_every_version(
    client: WireClient, group: str, version: int
) -> None:
    uuid = wire.topic_id(client, TOPIC)
    joined = wire.consumer_join(client, group, [TOPIC], "me", version=version)
    assert joined.error_code is ErrorCode.none
    assert wire.assigned(joined) == {uuid: (0, 1, 2, 3)}
    described = client.call(
        wire.CONSUMER_DESCRIBE, version, group_ids=[group], include_authorized_operations=False
    )
    (found,) = described.groups
    assert (found.group_state, found.assignor_name) == ("Stable", "uniform")
    assert [each.member_id for each in found.members] == ["me"]
    assert found.members[0].assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
    left = wire.consumer_heartbeat(client, group, "me", -1, version)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)


# --- Refusals of the classic protocol -----------------------------------------------------------


def test_an_unknown_group_knows_no_members(client: WireClient, group: str) -> None:
    unknown = ErrorCode.unknown_member_id
    assert wire.heartbeat(client, group, "who", 1) is unknown
    assert wire.sync(client, group, "who", 1).error_code is unknown
    assert wire.leave(client, group, "who").error_code is unknown
    assert wire.join(client, group, member_id="who").error_code is unknown
    said: dict[str, Any] = {"member_id": "who", "generation": 3}
    assert wire.commit(client, group, TOPIC, 1, **said) is ErrorCode.illegal_generation
    assert wire.delete(client, group) == {group: ErrorCode.group_id_not_found}
    listed = client.call(wire.LIST, 5, states_filter=(), types_filter=())
    assert group not in [each.group_id for each in listed.groups]


def test_an_unknown_member_is_told_so(client: WireClient, group: str) -> None:
    _, generation = stable_member(client, group)
    unknown = ErrorCode.unknown_member_id
    assert wire.heartbeat(client, group, "who", generation) is unknown
    assert wire.sync(client, group, "who", generation).error_code is unknown
    assert wire.join(client, group, member_id="who").error_code is unknown
    said: dict[str, Any] = {"member_id": "who", "generation": generation}
    assert wire.commit(client, group, TOPIC, 1, **said) is unknown
    left = wire.leave(client, group, "who")
    assert left.error_code is ErrorCode.none
    assert [each.error_code for each in left.members] == [unknown]
    assert wire.leave(client, group, "who", 2).error_code is unknown


@pytest.mark.parametrize("off_by", [-1, 1])
def test_another_generation_is_fenced(client: WireClient, group: str, off_by: int) -> None:
    me, generation = stable_member(client, group)
    wrong = generation + off_by
    illegal = ErrorCode.illegal_generation
    assert wire.heartbeat(client, group, me, wrong) is illegal
    assert wire.sync(client, group, me, wrong).error_code is illegal
    said: dict[str, Any] = {"member_id": me, "generation": wrong}
    assert wire.commit(client, group, TOPIC, 1, **said) is illegal
    (topic,) = wire.fetch(client, group, TOPIC).topics
    assert topic.partitions[0].committed_offset == -1


def test_members_hear_of_a_rebalance_in_every_request(server: ServerProcess, group: str) -> None:
    with WireClient(server.kafka_address) as one, WireClient(server.kafka_address) as other:
        me, generation = stable_member(one, group)
        pending = wire.join(other, group)
        assert pending.error_code is ErrorCode.member_id_required
        other.send(wire.JOIN, 7, **wire.join_fields(group, member_id=pending.member_id))
        eventually(
            lambda: wire.describe(one, group).group_state == "PreparingRebalance", "a rebalance"
        )
        rebalances = ErrorCode.rebalance_in_progress
        assert wire.heartbeat(one, group, me, generation) is rebalances
        assert wire.sync(one, group, me, generation).error_code is rebalances
        # What was read before the rebalance may still be committed.
        said: dict[str, Any] = {"member_id": me, "generation": generation}
        assert wire.commit(one, group, TOPIC, 1, **said) is ErrorCode.none
        again = wire.join(one, group, member_id=me)
        joined = other.receive()
        assert again.generation_id == joined.generation_id == generation + 1
        assert {each.member_id for each in again.members} == {me, pending.member_id}
        # Nobody has an assignment now.
        said = {"member_id": me, "generation": generation + 1}
        assert wire.commit(one, group, TOPIC, 1, **said) is rebalances


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"session_ms": 100}, ErrorCode.invalid_session_timeout),
        ({"session_ms": 24 * 3_600_000}, ErrorCode.invalid_session_timeout),
        ({"protocols": {}}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_a_join_that_cannot_be_is_refused(
    client: WireClient, group: str, said: dict[str, Any], code: ErrorCode
) -> None:
    assert wire.join(client, group, **said).error_code is code


def test_a_group_without_a_name_is_refused(server: ServerProcess) -> None:
    """In a cluster, by the node that would coordinate it."""
    refusals = []
    for port in siblings(server.kafka_port):
        with WireClient(f"127.0.0.1:{port}") as client:
            codes = {
                wire.join(client, "").error_code,
                wire.heartbeat(client, "", "m", 1),
                wire.sync(client, "", "m", 1).error_code,
            }
            refusals += codes - {ErrorCode.not_coordinator}
    assert refusals == [ErrorCode.invalid_group_id]


def test_types_of_protocols_do_not_mix(client: WireClient, group: str) -> None:
    me, generation = stable_member(
        client, group, protocol_type="connect", protocols={"default": b"worker"}
    )
    inconsistent = ErrorCode.inconsistent_group_protocol
    for kind, name in (("consumer", "default"), ("connect", "compatible")):
        refused = wire.join(client, group, protocol_type=kind, protocols={name: b""})
        assert refused.error_code is inconsistent
    assert wire.sync(client, group, me, generation, protocol_type="sr").error_code is inconsistent
    answer = wire.sync(client, group, me, generation, protocol_name="other")
    assert answer.error_code is inconsistent
    described = wire.describe(client, group)
    assert (described.protocol_type, described.protocol_data) == ("connect", "default")
    assert described.members[0].member_metadata == b"worker"


def test_a_group_of_another_protocol_type_elects_one_leader(
    server: ServerProcess, group: str
) -> None:
    """Schema registries find their leader like this."""
    said: dict[str, Any] = {"protocol_type": "sr", "protocols": {"v0": b"{}"}}
    with WireClient(server.kafka_address) as one, WireClient(server.kafka_address) as other:
        me, _ = stable_member(one, group, **said)
        pending = wire.join(other, group, **said)
        again = {**said, "member_id": pending.member_id}
        other.send(wire.JOIN, 7, **wire.join_fields(group, **again))
        eventually(
            lambda: wire.describe(one, group).group_state == "PreparingRebalance", "a rebalance"
        )
        first = wire.join(one, group, member_id=me, **said)
        second = other.receive()
        assert first.leader == second.leader == me
        assert second.members == ()
        assert first.protocol_type == "sr"
        other.send(
            wire.SYNC,
            5,
            group_id=group,
            generation_id=2,
            member_id=pending.member_id,
            group_instance_id=None,
            protocol_type="sr",
            protocol_name="v0",
            assignments=[],
        )
        both = {me: b"leader", pending.member_id: b"follower"}
        assert wire.sync(one, group, me, 2, assignments=both).assignment == b"leader"
        assert other.receive().assignment == b"follower"


# --- Static members -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 9])
def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance(
    client: WireClient, group: str, version: int
) -> None:
    me, generation = stable_member(client, group, instance_id="i")
    back = wire.join(client, group, version, instance_id="i")
    assert (back.error_code, back.generation_id) == (ErrorCode.none, generation)
    assert back.member_id != me
    if version >= 9:
        assert back.skip_assignment
    else:
        assert back.leader != back.member_id, "an old client would assign anew"
    synced = wire.sync(client, group, back.member_id, generation, instance_id="i")
    assert synced.assignment == b"mine"
    # The process that had the name before is fenced wherever it turns up.
    fenced = ErrorCode.fenced_instance_id
    assert wire.heartbeat(client, group, me, generation, instance_id="i") is fenced
    assert wire.sync(client, group, me, generation, instance_id="i").error_code is fenced
    assert wire.join(client, group, member_id=me, instance_id="i").error_code is fenced
    said: dict[str, Any] = {"member_id": me, "generation": generation, "instance_id": "i"}
    assert wire.commit(client, group, TOPIC, 1, **said) is fenced
    left = wire.leave(client, group, me, instance_id="i")
    assert [each.error_code for each in left.members] == [fenced]
    # Under its bare member id it is just unknown.
    assert wire.heartbeat(client, group, me, generation) is ErrorCode.unknown_member_id


def test_an_unknown_instance_is_an_unknown_member(client: WireClient, group: str) -> None:
    me, generation = stable_member(client, group)
    unknown = ErrorCode.unknown_member_id
    assert wire.heartbeat(client, group, me, generation, instance_id="x") is unknown
    left = wire.leave(client, group, "", instance_id="x")
    assert [each.error_code for each in left.members] == [unknown]


def test_an_administrator_removes_a_static_member_by_its_instance(
    client: WireClient, group: str
) -> None:
    stable_member(client, group, instance_id="i")
    left = wire.leave(client, group, "", instance_id="i")
    assert [each.error_code for each in left.members] == [ErrorCode.none]
    assert wire.describe(client, group).group_state == "Empty"


# --- Refusals of the consumer protocol ----------------------------------------------------------


def test_epochs_of_the_consumer_protocol_are_fenced(client: WireClient, group: str) -> None:
    joined = wire.consumer_join(client, group, [TOPIC], "me")
    epoch = joined.member_epoch
    answer = wire.consumer_heartbeat(client, group, "me", epoch + 5)
    assert answer.error_code is ErrorCode.fenced_member_epoch
    assert answer.error_message
    answer = wire.consumer_heartbeat(client, group, "who", epoch)
    assert answer.error_code is ErrorCode.unknown_member_id
    stale = ErrorCode.stale_member_epoch
    said: dict[str, Any] = {"member_id": "me", "generation": epoch + 1}
    assert wire.commit(client, group, TOPIC, 1, **said) is stale
    assert wire.fetch(client, group, TOPIC, member_id="me", epoch=epoch + 1).error_code is stale
    said = {"member_id": "who", "generation": epoch}
    assert wire.commit(client, group, TOPIC, 1, **said) is ErrorCode.unknown_member_id
    unknown = wire.fetch(client, group, TOPIC, member_id="who", epoch=epoch)
    assert unknown.error_code is ErrorCode.unknown_member_id
    # Whoever does not say that it is a member may look.
    assert wire.fetch(client, group, TOPIC).error_code is ErrorCode.none


def test_a_commit_from_outside_a_group_with_members_is_refused(
    client: WireClient, group: str
) -> None:
    wire.consumer_join(client, group, [TOPIC])
    assert wire.commit(client, group, TOPIC, 1) is ErrorCode.unknown_member_id
    stable_member(client, group + "-classic")
    assert wire.commit(client, group + "-classic", TOPIC, 1) is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"assignor": "hand-made"}, ErrorCode.unsupported_assignor),
        ({"regex": "("}, ErrorCode.invalid_regular_expression),
        ({"rebalance_ms": -1}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
    ],
)
def test_a_first_heartbeat_that_cannot_be_is_refused(
    client: WireClient, group: str, said: dict[str, Any], code: ErrorCode
) -> None:
    assert wire.consumer_join(client, group, [TOPIC], **said).error_code is code


def test_a_group_that_is_not_there_has_no_epochs(client: WireClient, group: str) -> None:
    answer = wire.consumer_heartbeat(client, group, "me", 3)
    assert answer.error_code is ErrorCode.group_id_not_found


def test_a_held_instance_is_not_given_away(client: WireClient, group: str) -> None:
    wire.consumer_join(client, group, [TOPIC], "me", instance_id="i")
    second = wire.consumer_join(client, group, [TOPIC], "you", instance_id="i")
    assert second.error_code is ErrorCode.unreleased_instance_id
    away = wire.consumer_heartbeat(client, group, "me", -2, instance_id="i")
    assert (away.error_code, away.member_epoch) == (ErrorCode.none, -2)
    second = wire.consumer_join(client, group, [TOPIC], "you", instance_id="i")
    assert second.error_code is ErrorCode.none
    assert wire.assigned(second) == {wire.topic_id(client, TOPIC): (0, 1, 2, 3)}
    zombie = wire.consumer_heartbeat(client, group, "me", 1, instance_id="i")
    assert zombie.error_code is ErrorCode.fenced_instance_id


def test_the_protocols_keep_out_of_each_others_groups(client: WireClient, group: str) -> None:
    stable_member(client, group)
    answer = wire.consumer_join(client, group, [TOPIC])
    assert answer.error_code is ErrorCode.group_id_not_found
    other = group + "-consumer"
    wire.consumer_join(client, other, [TOPIC])
    assert wire.join(client, other).error_code is ErrorCode.inconsistent_group_protocol
    assert wire.heartbeat(client, other, "m", 1) is ErrorCode.unknown_member_id
    # Each describes what it knows.
    described = client.call(
        wire.CONSUMER_DESCRIBE, 1, group_ids=[group], include_authorized_operations=False
    )
    assert described.groups[0].error_code is ErrorCode.group_id_not_found
    assert wire.describe(client, other, 6).error_code is ErrorCode.group_id_not_found


# --- Offsets ------------------------------------------------------------------------------------


def test_each_partition_has_its_own_outcome(client: WireClient, group: str) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    assert wire.commit(client, group, "no-such-topic", 1) is unknown
    assert wire.commit(client, group, TOPIC, 1, partition=99) is unknown
    too_long = "x" * 5000
    assert wire.commit(client, group, TOPIC, 1, metadata=too_long) is (
        ErrorCode.offset_metadata_too_large
    )
    assert wire.commit(client, group, "", 1, 10, uuid=uuid4()) is ErrorCode.unknown_topic_id
    assert wire.commit(client, group, TOPIC, 1, metadata=None) is ErrorCode.none
    found = wire.fetch(client, group, "", 10, uuid=uuid4())
    assert found.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


def test_offsets_of_a_topic_in_use_are_not_deleted(client: WireClient, group: str) -> None:
    uuid = wire.topic_id(client, TOPIC)
    joined = wire.consumer_join(client, group, [TOPIC], "me")
    said: dict[str, Any] = {"member_id": "me", "generation": joined.member_epoch, "uuid": uuid}
    assert wire.commit(client, group, TOPIC, 1, 10, **said) is ErrorCode.none

    def delete(topic: str) -> tuple[ErrorCode, ErrorCode | None]:
        asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = client.call(wire.OFFSET_DELETE, 0, group_id=group, topics=asked)
        if not answer.topics:
            return answer.error_code, None
        return answer.error_code, answer.topics[0].partitions[0].error_code

    assert delete(TOPIC) == (ErrorCode.none, ErrorCode.group_subscribed_to_topic)
    assert delete("no-such-topic") == (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
    wire.consumer_heartbeat(client, group, "me", -1)
    assert delete(TOPIC) == (ErrorCode.none, ErrorCode.none)
    assert wire.delete(client, group) == {group: ErrorCode.none}
    assert delete(TOPIC) == (ErrorCode.group_id_not_found, None)


# --- Clients that go away, and many groups ------------------------------------------------------


def test_joins_whose_clients_are_gone_do_not_hold_the_group(
    server: ServerProcess, client: WireClient, group: str
) -> None:
    short: dict[str, Any] = {"session_ms": 600, "rebalance_ms": 600}
    for _ in range(20):
        with WireClient(server.kafka_address) as gone:
            pending = wire.join(gone, group, **short)
            again = wire.join_fields(group, member_id=pending.member_id, **short)
            gone.send(wire.JOIN, 7, **again)
    eventually(lambda: wire.describe(client, group).group_state == "Empty", "they are forgotten")
    joined = wire.join_fully(client, group)
    assert [each.member_id for each in joined.members] == [joined.member_id]


def test_a_stop_does_not_wait_for_members_that_wait(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_GROUPS, "--broker-stop-timeout", "10m")
    with WireClient(server.kafka_address) as one, WireClient(server.kafka_address) as other:
        stable_member(one, "g", rebalance_ms=600_000, session_ms=600_000)
        pending = wire.join(other, "g")
        other.send(wire.JOIN, 7, **wire.join_fields("g", member_id=pending.member_id))
        eventually(lambda: wire.describe(one, "g").group_state == "PreparingRebalance", "a wait")
        assert server.stop() == 0
    server.start()
    with WireClient(server.kafka_address) as one:
        assert wire.describe(one, "g").group_state == "Stable"


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - not a real file
        return int(file.read().split()[1]) * 4096


def test_five_hundred_groups_cost_little(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, 4)
    with WireClient(server.kafka_address) as client:
        for number in range(20):
            stable_member(client, f"warm-{number}", session_ms=600_000)
        before = sum(map(resident_bytes, server.broker_pids))
        for number in range(500):
            me, generation = stable_member(client, f"g-{number}", session_ms=600_000)
            said: dict[str, Any] = {"member_id": me, "generation": generation}
            assert wire.commit(client, f"g-{number}", TOPIC, 1, **said) is ErrorCode.none
        grown = sum(map(resident_bytes, server.broker_pids)) - before
        listed = client.call(wire.LIST, 5, states_filter=("Stable",), types_filter=())
        assert len(listed.groups) == 520
    grown //= len(server.broker_pids)  # every node has a log of all of them
    assert grown / 500 < 40_000, f"{grown / 500:.0f} bytes a group"
