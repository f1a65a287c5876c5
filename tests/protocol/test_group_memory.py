"""What a client may make the broker keep of a group, over the wire."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from support import group_wire as wire
from support.groups import FAST_GROUPS
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("memory") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(server.kafka_address) as wire_client:
        yield wire_client


def joins(client: WireClient, group: str, size: int) -> Any:
    """Join an empty group, as a client with an instance id does: in one request."""
    said: dict[str, Any] = {"instance_id": f"i-{uuid4()}", "protocols": {"range": bytes(size)}}
    return wire.join(client, group, **said).error_code


def at_one_node(client: WireClient, count: int) -> list[str]:
    """Names for groups that one node coordinates: the bound is for each node."""
    names = [f"group-{uuid4()}" for _ in range(10 * count)]
    asked = client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=names)
    (most, _), *_ = Counter(each.node_id for each in asked.coordinators).most_common()
    return [each.key for each in asked.coordinators if each.node_id == most][:count]


def test_a_member_may_describe_itself_in_a_megabyte(client: WireClient) -> None:
    assert joins(client, f"group-{uuid4()}", MEGABYTE - 1000) is ErrorCode.none
    assert joins(client, f"group-{uuid4()}", MEGABYTE) is ErrorCode.invalid_request
    assert joins(client, f"group-{uuid4()}", 3 * MEGABYTE) is ErrorCode.invalid_request


def test_groups_hold_a_bounded_number_of_bytes_together(client: WireClient) -> None:
    *groups, small = at_one_node(client, 41)
    codes = [joins(client, each, MEGABYTE - 1000) for each in groups]
    taken = codes.count(ErrorCode.none)
    assert 20 <= taken < 32
    assert codes[taken:] == [ErrorCode.group_max_size_reached] * (40 - taken)
    assert joins(client, small, 100) is ErrorCode.none


def test_a_subscription_of_the_new_protocol_is_bounded_too(client: WireClient) -> None:
    names = [f"{number:05}" + "n" * 240 for number in range(5000)]
    said: dict[str, Any] = {"names": names, "owned": {}, "rebalance_ms": 60_000}
    answer = wire.consumer_heartbeat(client, f"group-{uuid4()}", str(uuid4()), 0, **said)
    assert answer.error_code is ErrorCode.invalid_request
    assert "allowed" in answer.error_message
