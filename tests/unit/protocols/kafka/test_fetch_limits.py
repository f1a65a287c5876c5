"""What one Fetch may cost, whatever it asks for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from goqueue.protocols.kafka.context import RequestContext, Session
from goqueue.protocols.kafka.records import fetch
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from goqueue.wire.kafka.frames import RequestPrefix
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LARGE = (1 << 31) - 1


def test_an_answer_is_bounded_whatever_the_client_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_FETCH_BYTES", 1000)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=LARGE,
        min_bytes=LARGE,
        max_bytes=LARGE,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic("t", None, [FetchPartition(0, -1, 0, -1, -1, LARGE)])],
        forgotten=[],
        rack_id="",
    )

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for _ in range(20):
                publish(broker, "t", b"." * 200)
            prefix = RequestPrefix(ApiKey.FETCH, 12, 1)
            peer: Any = SimpleNamespace(
                grant_answer_bytes=lambda wanted: wanted, session=Session(authenticated=True)
            )
            ctx = RequestContext(prefix, None, peer)
            answer: Any = await asyncio.wait_for(fetch.FetchApi(broker).fetch(ctx, request), 60)
            size = sum(len(part) for part in answer.parts)
            assert 500 < size < 1100

    asyncio.run(scenario())
