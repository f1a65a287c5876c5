"""Groups and their offsets survive `kill -9` of the broker, and consumers go on where they were."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from support import group_wire as wire
from support.groups import (
    FAST_GROUPS,
    WAIT_S,
    Stream,
    cast,
    check_all_delivered,
    check_one_owner,
    make_topic,
    share_out,
)
from support.kafka_wire import WireClient
from support.server import start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess

__all__ = ["start_server"]

TOPIC = "t"
PARTITIONS = 3

LIBRDKAFKA: dict[str, Any] = {"session.timeout.ms": 120_000, "heartbeat.interval.ms": 500}
PYTHON: dict[str, Any] = {"session_timeout_ms": 120_000, "heartbeat_interval_ms": 500}
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "confluent": ("confluent", LIBRDKAFKA),
    "kip-848": ("confluent", {"group.protocol": "consumer"}),
    "kafka-python": ("kafka-python", PYTHON),
    "aiokafka": ("aiokafka", PYTHON),
}


def committed(client: WireClient, group: str) -> dict[int, int]:
    """What a group has committed, by partition."""
    found = wire.fetch(client, group, None).topics
    return {
        each.partition_index: each.committed_offset for topic in found for each in topic.partitions
    }


@pytest.mark.parametrize("which", CLIENTS)
def test_a_consumer_outlives_a_kill_of_the_broker_and_goes_on_where_it_had_committed(
    start_server: Callable[..., ServerProcess], which: str
) -> None:
    client, settings = CLIENTS[which]
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, PARTITIONS)
    with Stream.into(server, TOPIC, PARTITIONS, each_s=0.02) as stream, cast() as start:
        members = [start(client, server, "g", topics=[TOPIC], **settings) for _ in range(2)]
        share_out(members, TOPIC, PARTITIONS)
        with WireClient(server.kafka_address) as asking:
            eventually(
                lambda: (
                    len(committed(asking, "g")) == PARTITIONS
                    and min(committed(asking, "g").values()) >= 20
                ),
                "everyone has committed something",
            )
            before = committed(asking, "g")
        server.kill()
        killed_s = time.monotonic()
        server.start()
        eventually(
            lambda: all(
                {each.partition for each in member.deliveries if each.at_s > killed_s + 1}
                for member in members
            ),
            "both read on",
        )
        check_all_delivered(members, stream.stop())
        check_one_owner(members)
        for member in members:
            after = [each for each in member.deliveries if each.at_s > killed_s]
            assert all(each.offset >= before[each.partition[1]] for each in after), "went back"


def kill_soon(server: ServerProcess, busy: threading.Event, after_s: float) -> None:
    """Some time after somebody has got to work."""
    busy.wait(WAIT_S)
    time.sleep(after_s)
    server.kill()


def test_acknowledged_commits_survive_kills_at_any_moment(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, 1)
    acknowledged = dict.fromkeys(("g-0", "g-1", "g-2", "g-3"), -1)
    rng = random.Random(1)
    for _ in range(4):
        busy = threading.Event()
        stop = threading.Thread(target=kill_soon, args=(server, busy, rng.uniform(0.05, 0.3)))
        stop.start()
        rounds = 0
        with pytest.raises(OSError), WireClient(server.kafka_address) as client:  # noqa: PT011, PT012 - however it ends
            while True:
                for group, offset in acknowledged.items():
                    code = wire.commit(client, group, TOPIC, offset + 1)
                    assert code is ErrorCode.none
                    acknowledged[group] = offset + 1
                rounds += 1
                if rounds == 4:
                    busy.set()
        stop.join()
        server.start()
        with WireClient(server.kafka_address) as client:
            for group, offset in acknowledged.items():
                # The one that was under way may be there too.
                assert committed(client, group).get(0, -1) in (offset, offset + 1)
    assert min(acknowledged.values()) > 10


@pytest.mark.parametrize("snapshots", ["kept", "removed", "damaged"])
def test_groups_come_back_with_their_members_and_offsets_with_and_without_snapshots(
    start_server: Callable[..., ServerProcess], snapshots: str
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, 2)
    with WireClient(server.kafka_address) as client:
        said = {"session_ms": 600_000, "rebalance_ms": 600_000}
        joined = wire.join_fully(client, "classic", **said)
        me, generation = joined.member_id, joined.generation_id
        wire.sync(client, "classic", me, generation, assignments={me: b"mine"})
        wire.commit(client, "classic", TOPIC, 3, member_id=me, generation=generation, metadata="n")
        modern = wire.consumer_join(client, "modern", [TOPIC], "m")
        wire.commit(client, "modern", TOPIC, 4, member_id="m", generation=modern.member_epoch)
        wire.commit(client, "simple", TOPIC, 5)
        wire.commit(client, "deleted", TOPIC, 6)
        assert wire.delete(client, "deleted") == {"deleted": ErrorCode.none}
    assert server.stop() == 0
    files = list(server.data_dir.rglob("snapshot-*.bin"))
    assert files, "a stop in order leaves snapshots"
    for file in files:
        if snapshots == "removed":
            file.unlink()
        elif snapshots == "damaged":
            file.write_bytes(file.read_bytes()[:-1])
    server.start()
    with WireClient(server.kafka_address) as client:
        assert wire.heartbeat(client, "classic", me, generation) is ErrorCode.none
        assert wire.sync(client, "classic", me, generation).assignment == b"mine"
        beat = wire.consumer_heartbeat(client, "modern", "m", modern.member_epoch)
        assert (beat.error_code, beat.member_epoch) == (ErrorCode.none, modern.member_epoch)
        assert [committed(client, group) for group in ("classic", "modern", "simple")] == [
            {0: 3},
            {0: 4},
            {0: 5},
        ]
        listed = client.call(wire.LIST, 5, states_filter=(), types_filter=())
        assert {each.group_id for each in listed.groups} == {"classic", "modern", "simple"}
