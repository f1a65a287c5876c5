"""Reading one partition, through reconnections."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from grpc import aio

from goqueue.client.errors import from_call, is_lost
from goqueue.client.types import Message, Start
from goqueue.model.topic_partition import TopicPartition
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping

    from goqueue.client.channels import Channels

logger = logging.getLogger(__name__)


def to_message(message: pb.Message) -> Message:
    """A message as users see it."""
    return Message(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.key or (b"" if message.HasField("key") else None),
        message.value or (b"" if message.HasField("value") else None),
        tuple(
            (each.name, each.value if each.HasField("value") else None) for each in message.headers
        )
        if message.headers
        else (),
    )


def to_offsets(offsets: Mapping[TopicPartition, int]) -> list[pb.PartitionOffset]:
    """Offsets by partition, as a request has them."""
    return [
        pb.PartitionOffset(topic=topic, partition=partition, offset=offset)
        for (topic, partition), offset in offsets.items()
    ]


def to_places(partitions: Iterable[pb.TopicPartition]) -> Iterator[TopicPartition]:
    """Partitions, as users see them."""
    return (TopicPartition(each.topic, each.partition) for each in partitions)


def start_fields(start: Start) -> dict[str, Any]:
    """A start, as the fields of a request."""
    if isinstance(start, datetime):
        return {"start": pb.START_TIMESTAMP, "timestamp_ms": round(start.timestamp() * 1000)}
    if isinstance(start, int):
        return {"start": pb.START_OFFSET, "offset": start}
    ends = {"earliest": pb.START_EARLIEST, "latest": pb.START_LATEST}
    if start not in ends:
        raise ValueError(f"start: {start!r} is not 'earliest', 'latest', an offset or a datetime")
    return {"start": ends[start]}


async def read_batches(
    channels: Channels, topic: str, partition: int, start: Start, *, until_end: bool
) -> AsyncGenerator[list[Message], None]:
    """The messages of one partition, as they come, for ever or up to where it ends now.

    Raises:
        GoQueueError: the broker refuses; a lost connection is no reason to end.
    """
    request = pb.ConsumeRequest(
        topic=topic, partition=partition, until_end=until_end, **start_fields(start)
    )
    failures = 0
    while True:
        call: Any = channels.next().consume.Consume(request, wait_for_ready=True)
        try:
            async for response in call:
                if until_end and not request.HasField("until_offset"):
                    request.until_offset = response.high_watermark
                failures = 0
                request.start, request.offset = pb.START_OFFSET, response.next_offset
                if response.messages:
                    yield [to_message(each) for each in response.messages]
        except aio.AioRpcError as failure:
            if not is_lost(failure):
                raise from_call(failure, channels.address) from None
            failures += 1
            logger.info(
                "reading %s-%d goes on in a moment: %s", topic, partition, failure.details()
            )
        else:
            return
        finally:
            call.cancel()
        await asyncio.sleep(channels.settings.backoff_s(failures))
