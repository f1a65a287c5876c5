"""What a cluster does not serve yet is refused by each protocol's own codes, and stores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.delivery import DELIVER_AT_HEADER
from goqueue.publishing import router
from goqueue.records import Record, encode
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from support.cluster_api import NodeApi
from support.cluster_brokers import OneOfThree, one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = ErrorCode.unsupported_version


def _codes(found: Any) -> set[ErrorCode]:
    """Every error code in an answer, wherever it is; fields that are not there count as none."""
    if isinstance(found, tuple):
        return {code for each in found for code in _codes(each)}
    if not hasattr(found, "__slots__"):
        return set()
    codes = set()
    for name in found.__slots__:
        value = getattr(found, name)
        if name.endswith("error_code"):
            codes.add(ErrorCode(value))
        else:
            codes |= _codes(value)
    return codes


REQUESTS: list[tuple[ApiKey, int, dict[str, Any]]] = [
    (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"timeout": 1000, "allow_replication_factor_change": True, "topics": []},
    ),
]


@pytest.mark.parametrize(("key", "version", "fields"), REQUESTS, ids=lambda each: str(each)[:30])
def test_kafkas_requests_are_refused(
    tmp_path: Path, key: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    @scenario
    async def run() -> None:
        async with one_of_three(tmp_path) as made:
            await made.topic("t", (1, 2, 3))
            answer = await made.ask(key, version, **fields)
            assert REFUSED in _codes(answer), answer

    run()


async def _produce(made: OneOfThree, batch: bytes | bytearray) -> ErrorCode:
    data = [{"index": 0, "records": batch}]
    answer = await made.ask(
        ApiKey.PRODUCE,
        11,
        transactional_id=None,
        acks=1,
        timeout=1000,
        topic_data=[{"name": "t", "partition_data": data}],
    )
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@scenario
async def test_delayed_messages_are_refused_for_now_where_no_unit_is_led(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (1, 2, 3), **{"goqueue.kafka.headers": "true"})
        (partition,) = made.broker.partitions.of_topic(topic)
        due = str(made.broker.clock.now_ms() + 60_000).encode()
        delayed = encode([Record(0, 1, b"k", b"v", ((DELIVER_AT_HEADER, due),))])
        assert await _produce(made, delayed) is ErrorCode.request_timed_out
        assert partition.log_end == 0


@scenario
async def test_http_stores_what_is_led_here_and_says_what_had_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "PATIENCE_S", 0.1)
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3), (2, 1, 3))
        api = NodeApi(made)
        here, there = {"value": "a", "partition": 0}, {"value": "b", "partition": 1}
        async with made.committing("t"):
            status, answer = await api.ask(
                "POST", "/topics/t/messages", {"messages": [here, there]}
            )
        assert status == 200, answer
        stored, refused = answer["results"]
        assert (stored["status"], stored["offset"]) == (200, 0)
        assert (refused["status"], refused["retriable"]) == (503, True)


@scenario
async def test_views_work_on_a_node_that_holds_no_replica(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("away", (2, 3))
        await made.offsets_topic(2, 3)
        api = NodeApi(made)
        for path in (
            "/overview",
            "/stats",
            "/groups",
            "/topics?details=true",
            "/admin/coordinators",
        ):
            status, answer = await api.ask("GET", path)
            assert status == 200, (path, answer)
        _, answer = await api.ask("GET", "/topics/away")
        (found,) = answer["partitions"]
        assert (found["leader"], found["replicas"], found["latest_offset"]) == (2, [2, 3], -1)
        await made.broker.metrics.read_in_turns()


@scenario
async def test_the_cluster_is_told_over_http(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3), (2, 1, 3))
        api = NodeApi(made)
        _, nodes = await api.ask("GET", "/cluster/nodes")
        assert nodes["controller"] == 2
        found = [(each["node_id"], each["state"], each["leads"]) for each in nodes["nodes"]]
        assert found == [(1, "active", 1), (2, "active", 1), (3, "active", 0)]
        _, health = await api.ask("GET", "/cluster/health")
        assert health["status"] == "healthy"
        assert health["problems"] == []
        await made.fence(2)
        _, health = await api.ask("GET", "/cluster/health")
        assert health["status"] == "unhealthy"
        assert (health["active_nodes"], health["offline_partitions"]) == (2, 1)
        for query in ("state=offline", "order=state&limit=1", "filter=NONE+t-1"):
            _, listed = await api.ask("GET", f"/cluster/partitions?{query}")
            shown = [(each["topic"], each["partition"]) for each in listed["partitions"]]
            assert (query, shown) == (query, [("t", 1)])
        _, listed = await api.ask("GET", "/cluster/partitions?filter=t-1+node+2")
        assert listed == {"total": 0, "partitions": []}
        _, ready = await api.ask("GET", "/readyz?verbose=true")
        assert ready["checks"]["cluster"] == "ok"
        await made.fence(1)
        _, ready = await api.ask("GET", "/readyz?verbose=true")
        assert ready["checks"]["cluster"] == "this node is fenced"
