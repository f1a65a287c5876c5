"""Answers of streams wait for the quotas of their client, by their size."""

from __future__ import annotations

import asyncio
from typing import Any

from goqueue.protocols.grpc.interceptor import PacedContext
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb


class Sink:
    """Notes what is sent, and how many bytes waited for a quota."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.paced: list[int] = []

    async def write(self, message: Any) -> None:
        self.written.append(message)

    async def pace(self, _may: Any, size: int) -> None:
        self.paced.append(size)


def test_a_message_of_another_node_which_comes_encoded_counts_like_any_other() -> None:
    sink: Any = Sink()
    context = PacedContext(sink, sink, sink)
    message = pb.Topic(name="orders")
    encoded = message.SerializeToString()
    asyncio.run(context.write(message))
    asyncio.run(context.write(encoded))
    assert sink.written == [message, encoded]
    assert sink.paced == [len(encoded)] * 2
