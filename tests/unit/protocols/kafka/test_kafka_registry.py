from __future__ import annotations

import struct
import sys
from itertools import pairwise
from typing import Any

import pytest

from goqueue.protocols.kafka.api_reference import served_specs
from goqueue.protocols.kafka.cluster.api_versions import with_api_versions
from goqueue.protocols.kafka.cluster.features import Feature
from goqueue.protocols.kafka.registry import Registry, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import encode_body
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from unit.protocols.kafka.live import SmallApi, connected, frame, listening, registry_of, run

API_VERSIONS = ApiKey.API_VERSIONS


def read(version: int, body: bytes):
    return reader_of(schema_of(API_VERSIONS, version, "response"))(Cursor(memoryview(body)))


def software(name: str = "librdkafka", version: str = "2.16.0") -> bytes:
    return bytes([len(name) + 1]) + name.encode() + bytes([len(version) + 1]) + version.encode()


async def ask(version: int, body: bytes = b"", **tags: bytes) -> bytes:
    async with listening(SmallApi()) as listener, connected(listener) as client:
        client.send(frame(API_VERSIONS, version, 77, body, **tags))
        correlation_id, answer = await client.answer()
        assert correlation_id == 77
        return answer


@pytest.mark.parametrize("version", range(5))
def test_the_answer_lists_what_handlers_declare(version):
    flexible = version >= 3
    body = software() + b"\0" if flexible else b""
    answer = read(version, run(ask(version, body, header_tags=b"\0" if flexible else b"")))
    assert answer.error_code == 0
    listed = {e.api_key: (e.min_version, e.max_version) for e in answer.api_keys}
    assert listed[ApiKey.FETCH] == (4, 18)
    assert listed[ApiKey.HEARTBEAT] == (0, 4)
    assert listed[API_VERSIONS] == (0, 4)
    assert all(a.api_key < b.api_key for a, b in pairwise(answer.api_keys))


def test_produce_is_advertised_from_0_and_served_from_3():
    answer = read(0, run(ask(0)))
    listed = {e.api_key: (e.min_version, e.max_version) for e in answer.api_keys}
    assert listed[ApiKey.PRODUCE] == (0, 13)
    assert registry_of(SmallApi()).endpoints.get((ApiKey.PRODUCE, 2)) is None
    assert registry_of(SmallApi()).endpoints.get((ApiKey.PRODUCE, 3)) is not None


def test_telemetry_is_not_served():
    assert not any("TELEMETRY" in spec.key.name for spec in served_specs().values())


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_a_newer_api_versions_request_is_answered_in_layout_0(version):
    # The body of a version we do not know can be anything.
    answer = run(ask(version, b"\xff\x00whatever", header_tags=b"\0"))
    assert answer == struct.pack(">hihhh", 35, 1, API_VERSIONS, 0, 4)


def test_a_client_that_does_not_say_what_it_is_gets_an_error():
    answer = read(3, run(ask(3, software(name="") + b"\0", header_tags=b"\0")))
    assert answer.error_code == 42
    answer = read(3, run(ask(3, software(version="-1-") + b"\0", header_tags=b"\0")))
    assert answer.error_code == 42


def features_in(version: int, *features: Feature):
    registry = with_api_versions(Registry(), features)
    handler = registry.endpoints[API_VERSIONS, 0].handler
    peer = type("Peer", (), {"session": type("Session", (), {})()})()
    context: Any = type("Context", (), {"version": version, "peer": peer})
    request: Any = type(
        "Request", (), {"client_software_name": "a", "client_software_version": "1"}
    )
    answer: Any = handler(context, request)
    return read(version, bytes(encode_body(API_VERSIONS, version, answer)))


def test_features_from_version_0_are_shown_only_where_clients_can_bear_them():
    old, new = Feature("group.version", 0, 1, finalised_version=1), Feature("other", 1, 2)
    assert [f.name for f in features_in(3, old, new).supported_features] == ["other"]
    assert [f.name for f in features_in(4, old, new).supported_features] == [
        "group.version",
        "other",
    ]
    answer = features_in(3, old, new)
    assert answer.finalized_features_epoch == 0
    assert [(f.name, f.max_version_level) for f in answer.finalized_features] == [
        ("group.version", 1)
    ]


def test_no_feature_is_finalised_unless_it_is_given():
    answer = features_in(4)
    assert answer.finalized_features == ()
    assert answer.finalized_features_epoch == -1


# --- Declarations ---------------------------------------------------------------------------------


@api(ApiKey.HEARTBEAT, 0, 4, right=ANYONE)
def module_level(ctx, request):
    return {"error_code": 0}


def test_a_module_can_be_a_family():
    endpoint = Registry(sys.modules[__name__]).endpoints.get((ApiKey.HEARTBEAT, 2))
    assert endpoint is not None
    assert endpoint.handler is module_level


def test_an_api_declared_twice_is_refused():
    with pytest.raises(ValueError, match="HEARTBEAT"):
        Registry(SmallApi(), sys.modules[__name__])


@pytest.mark.parametrize(
    ("first", "last"), [(1, 4), (0, 5)], ids=["above kafka's minimum", "above the last schema"]
)
def test_versions_that_clients_would_stumble_over_are_refused(first, last):
    class Family:
        @api(ApiKey.HEARTBEAT, first, last, right=ANYONE)
        def heartbeat(self, ctx, request):
            return {}

    with pytest.raises(ValueError, match="HEARTBEAT"):
        Registry(Family())
