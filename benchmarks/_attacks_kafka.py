"""Attacks on the Kafka listener."""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from typing import Final

from kio.schema.errors import ErrorCode

from benchmarks._attacks import CLOSED, Attack, Target, any_closed, connect, send_all
from benchmarks._attacks_http import TOPIC, make_attacked
from benchmarks._attacks_wire import ask, first_line
from benchmarks._raw_client import frame, uvarint
from goqueue.wire.kafka.api_keys import ApiKey

_TAGGED_FIELDS: Final = 1_000_000
_REPEATS: Final = 2000
_NEW_TOPICS: Final = 10_000
_TOPIC_RESOURCE: Final = 2
_METADATA_BYTES: Final = 900_000
_LONGEST_SESSION_MS: Final = 1_800_000
_SHORTEST_SESSION_MS: Final = 6_000
"""What a broker allows as it comes."""
_HALF_SENT: Final = 600
"""Of each thread, of which there are eight."""
_HALF_SENT_BYTES: Final = 16 << 10
_CLAIMED_BYTES: Final = 50 << 20
_HELD_S: Final = 3.0


@cache
def _tagged_frame() -> bytes:
    """ApiVersions 3, which is read before a login, in four megabytes of tagged fields."""
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(_TAGGED_FIELDS))
    names = b"\x02x\x02y"
    return frame(ApiKey.API_VERSIONS, 3, b"\0" + names + uvarint(_TAGGED_FIELDS) + fields)


def _build_tagged(_target: Target) -> None:
    _tagged_frame()


def tagged_fields(target: Target) -> str:
    """A request of nothing but tagged fields."""
    return first_line(target.kafka_port, _tagged_frame())


def _metadata(target: Target, names: list[str], *, create: bool) -> str:
    answer, size = ask(
        target.kafka_port,
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": None, "name": name} for name in names],
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=False,
    )
    return f"{len(answer.topics)} topics, {size} bytes"


def named_often(target: Target) -> str:
    """A topic named two thousand times, in a few kilobytes."""
    return _metadata(target, [TOPIC] * _REPEATS, create=False)


def configs_named_often(target: Target) -> str:
    """The same for the settings of a topic."""
    resource = {
        "resource_type": _TOPIC_RESOURCE,
        "resource_name": TOPIC,
        "configuration_keys": None,
    }
    answer, size = ask(
        target.kafka_port,
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[resource] * _REPEATS,
        include_synonyms=True,
        include_documentation=True,
    )
    return f"{len(answer.results)} resources, {size} bytes"


def new_topics(target: Target) -> str:
    """Ten thousand topics that do not exist and may be made."""
    stem = os.urandom(8).hex()
    names = [f"{stem}-{number}" for number in range(_NEW_TOPICS)]
    return _metadata(target, names, create=True)


def _join(target: Target, session_ms: int) -> str:
    answer, _ = ask(
        target.kafka_port,
        ApiKey.JOIN_GROUP,
        7,
        group_id=os.urandom(8).hex(),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id="",
        group_instance_id="attacker",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": bytes(_METADATA_BYTES)}],
    )
    return str(ErrorCode(answer.error_code).name)


def join_metadata(target: Target) -> str:
    """A member of a new group that has much to say and is never heard of again."""
    return _join(target, _LONGEST_SESSION_MS)


def join_metadata_again(target: Target) -> str:
    """The same with sessions that end, so that there is always room for the next members."""
    return _join(target, _SHORTEST_SESSION_MS)


def half_sent_frames(target: Target) -> str:
    """Hundreds of requests that begin and do not go on."""
    start = frame(ApiKey.PRODUCE, 9, bytes(_HALF_SENT_BYTES))[4:]
    held = [connect(target.kafka_port) for _ in range(_HALF_SENT)]
    try:
        for sock in held:
            send_all(sock, struct.pack(">i", _CLAIMED_BYTES) + start)
        time.sleep(_HELD_S)
        return CLOSED if any_closed(held) else "held"
    finally:
        for sock in held:
            sock.close()


_AT_ONCE: Final = ("--groups-initial-rebalance-delay=0ms",)
ATTACKS: Final = [
    Attack(4, "tagged fields", tagged_fields, (CLOSED,), _build_tagged),
    Attack(6, "topic named often", named_often, ("1 topics",), make_attacked),
    Attack(6, "settings named often", configs_named_often, ("1 resources",), make_attacked),
    Attack(6, "new topics", new_topics, (f"{_NEW_TOPICS} topics",)),
    Attack(
        7,
        "JoinGroup metadata",
        join_metadata,
        ("group_max_size_reached",),
        flags=_AT_ONCE,
        note="members may hold 32 MB (groups.member_memory) until sessions of half an hour end",
    ),
    Attack(
        7,
        "JoinGroup short sessions",
        join_metadata_again,
        ("group_max_size_reached",),
        flags=_AT_ONCE,
        note=f"read after the sessions of {_SHORTEST_SESSION_MS // 1000} s have ended",
    ),
    Attack(7, "half-sent frames", half_sent_frames, (CLOSED, "held")),
]
