"""Isolation levels that there are none of, as clients see them refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.partitions.partition import Isolation
from goqueue.protocols.kafka.errors import InvalidIsolationLevelError
from goqueue.protocols.kafka.records.fetch import isolation_of
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from support.server import HOST, running_node

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.wire.kafka.reading import Struct

UNKNOWN = 7


def test_the_levels_are_kafkas_two_and_no_others() -> None:
    assert [isolation_of(level) for level in (0, 1)] == list(Isolation)
    for level in (-1, 2, 127):
        with pytest.raises(InvalidIsolationLevelError, match=f"level {level};"):
            isolation_of(level)


async def _ask(port: int, key: ApiKey, version: int, fields: dict[str, Any]) -> Struct:
    schema = schema_of(key, version, "request")
    frame = bytearray(key.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff")
    frame += b"\0" if schema.has_flexible_header else b""
    writer_of(schema)(frame, fields)
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(len(frame).to_bytes(4) + frame)
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    finally:
        writer.close()
        await writer.wait_closed()
    answer = schema_of(key, version, "response")
    return reader_of(answer)(Cursor(memoryview(data)[5 if answer.has_flexible_header else 4 :]))


def _fetch(level: int) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": level,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": 0,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1000,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _list_offsets(level: int) -> dict[str, Any]:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    return {
        "replica_id": -1,
        "isolation_level": level,
        "topics": [{"name": "t", "partitions": [asked]}],
        "timeout_ms": 1000,
    }


def test_an_unknown_level_is_an_invalid_request_in_every_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            await node.broker.create_topic("t", 1)
            port = node.kafka.port
            refused = await _ask(port, ApiKey.FETCH, 11, _fetch(UNKNOWN))
            assert refused.error_code == ErrorCode.invalid_request
            for version in (4, 6):  # of the first versions, only partitions have errors
                refused = await _ask(port, ApiKey.FETCH, version, _fetch(UNKNOWN))
                ((found,),) = [each.partitions for each in refused.responses]
                assert found.error_code == ErrorCode.invalid_request
            for version in (2, 11):
                for level, code in {0: 0, 1: 0, UNKNOWN: ErrorCode.invalid_request}.items():
                    answer = await _ask(port, ApiKey.LIST_OFFSETS, version, _list_offsets(level))
                    ((found,),) = [each.partitions for each in answer.topics]
                    assert found.error_code == code

    asyncio.run(scenario())
    assert not [record for record in caplog.records if record.exc_info]
