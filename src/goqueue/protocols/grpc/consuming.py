"""ConsumeService: messages out, of one partition or for a member of a group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from goqueue.model.limits import MAX_DELIVERIES, MAX_UNACKED, MAX_VISIBILITY_MS
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.grpc.conversions import bounded, position_of, split, to_message
from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.protocols.grpc.limits import MAX_POLLED_MESSAGES, MAX_WAIT_MS, MAX_WINDOW
from goqueue.protocols.grpc.queue_subscription import QueueSubscription, Wishes
from goqueue.protocols.grpc.subscription import Subscription
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import ConsumeServiceServicer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.protocols.grpc.interceptor import OpenStreams
    from goqueue.reading.positions import Ends


LAST_WRITE_S: Final = 2.0
"""How long whoever is cancelled waits for its last write: a client that reads takes it at once."""


def whole_writes(context: ServicerContext[Any, Any]) -> Callable[[Any], Awaitable[None]]:
    """`context.write`, of which a cancelled caller hears only when the write is over.

    gRPC knows nothing of cancelled tasks: for it the write goes on, and until it is over neither
    another one nor the status that ends the call can be sent.
    """

    async def write(response: Any) -> None:
        writing = asyncio.ensure_future(context.write(response))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,), timeout=LAST_WRITE_S)
            raise

    return write


DEFAULT_MESSAGES: Final = 100
HEARTBEAT_MS: Final = 5_000
READ_BYTES: Final = 1024 * 1024
"""Read from a partition at once; handed out in portions of what the client asks for."""


class ConsumeService(ConsumeServiceServicer):
    """Messages on their way out. Both streams go as fast as the client takes from them."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def Consume(  # type: ignore[override]  # it writes to its context
        self,
        request: pb.ConsumeRequest,
        context: ServicerContext[pb.ConsumeRequest, pb.ConsumeResponse],
    ) -> None:
        """One partition from a place on; without an end, as long as the client stays."""
        self._streams.add_current()
        write = whole_writes(context)
        limit = bounded(
            "max_messages", request.max_messages, DEFAULT_MESSAGES, 1, MAX_POLLED_MESSAGES
        )
        wait_ms = bounded("max_wait_ms", request.max_wait_ms, HEARTBEAT_MS, 1, MAX_WAIT_MS)
        place = TopicPartition(request.topic, request.partition)
        position = position_of(request.start, request.offset, request.timestamp_ms)
        offset = await self._broker.positions.offset_of(place, position)
        ends = await self._broker.positions.ends(place)
        until = _until(request, ends)
        await write(pb.ConsumeResponse(next_offset=offset, high_watermark=ends.high_watermark))
        trace_id_of = self._broker.tracer.trace_id_of
        while until is None or offset < until:
            read = await self._broker.reader.read(
                place,
                offset,
                limit=_ALL,
                max_bytes=READ_BYTES,
                max_wait_ms=0 if request.until_end else wait_ms,
            )
            messages = read.messages
            if until is not None and read.next_offset >= until:
                messages = [each for each in messages if each.record.offset < until]
            for portion in split(messages, limit):
                response = pb.ConsumeResponse(
                    messages=(to_message(*each, trace_id_of(*each)) for each in portion),
                    next_offset=portion[-1].record.offset + 1,
                    high_watermark=read.high_watermark,
                )
                await write(response)
            offset = read.next_offset
            if not messages:
                await write(
                    pb.ConsumeResponse(next_offset=offset, high_watermark=read.high_watermark)
                )

    async def Subscribe(  # type: ignore[override]  # it writes to its context
        self,
        request_iterator: AsyncIterator[pb.SubscribeRequest],
        context: ServicerContext[pb.SubscribeRequest, pb.SubscribeResponse],
    ) -> None:
        """A member of a group, from the first message of the stream to its end."""
        self._streams.add_current()
        first = await anext(aiter(request_iterator), None)
        if first is None or first.WhichOneof("action") != "join":
            raise InvalidRequestError("join: the first message of a stream must be this one")
        join = first.join
        if not join.topics:
            raise InvalidRequestError("join.topics: a member reads at least one topic")
        limit = bounded(
            "join.max_messages", join.max_messages, DEFAULT_MESSAGES, 1, MAX_POLLED_MESSAGES
        )
        if join.assignment != pb.ASSIGNMENT_LOG:
            queue = await self._join_queue(join, limit, context)
            await queue.run(request_iterator)
            return
        window = bounded("join.window", join.window, _window(limit), LEAST_WINDOW, MAX_WINDOW)
        member = await self._broker.memberships.join(
            join.group,
            join.topics,
            client_id=join.client_id,
            client_host=_host(context.peer()),
            member_id=join.member_id,
            reset_to_earliest=not join.start_at_latest,
            releases_itself=True,
        )
        subscription = Subscription(self._broker, member, whole_writes(context), limit, window)
        await subscription.run(request_iterator)

    async def _join_queue(
        self,
        join: pb.SubscribeJoin,
        limit: int,
        context: ServicerContext[pb.SubscribeRequest, pb.SubscribeResponse],
    ) -> QueueSubscription:
        settings = _queue_settings(join)
        window = bounded("join.window", join.window, _window(limit), 1, MAX_WINDOW)
        member = await self._broker.queue_members.join(
            join.group,
            join.topics,
            settings,
            client_id=join.client_id,
            client_host=_host(context.peer()),
            member_id=join.member_id,
        )
        visibility_ms = settings.visibility_ms if join.visibility_timeout_ms else None
        wishes = Wishes(limit, window, visibility_ms, join.columns)
        return QueueSubscription(
            self._broker, member, whole_writes(context), wishes, lambda: self._streams.is_stopping
        )


_ALL: Final = 1 << 62

LEAST_WINDOW: Final = 100

MODES: Final = {pb.ASSIGNMENT_EXCLUSIVE: Mode.EXCLUSIVE, pb.ASSIGNMENT_SHARED: Mode.SHARED}


def _window(limit: int) -> int:
    return min(max(5 * limit, LEAST_WINDOW), MAX_WINDOW)


def _queue_settings(join: pb.SubscribeJoin) -> QueueSettings:
    """How the group works, if this member is its first."""
    mode = MODES.get(join.assignment)
    if mode is None:
        raise InvalidRequestError(
            f"join.assignment: {join.assignment} is none of {pb.AssignmentMode.keys()}"
        )
    plain = QueueSettings()
    return QueueSettings(
        mode=mode,
        visibility_ms=bounded(
            "join.visibility_timeout_ms",
            join.visibility_timeout_ms,
            plain.visibility_ms,
            1,
            MAX_VISIBILITY_MS,
        ),
        max_deliveries=bounded(
            "join.max_deliveries", join.max_deliveries, plain.max_deliveries, 1, MAX_DELIVERIES
        ),
        max_unacked=bounded(
            "join.max_unacked", join.max_unacked, plain.max_unacked, 1, MAX_UNACKED
        ),
        start_at_latest=join.start_at_latest,
    )


def _host(peer: str) -> str:
    """The address in what gRPC calls a peer, such as `ipv4:127.0.0.1:50312`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def _until(request: pb.ConsumeRequest, partition_ends: Ends) -> int | None:
    """Before which offset the stream ends; None when it does not."""
    ends = [request.until_offset] if request.HasField("until_offset") else []
    if request.until_end:
        ends.append(partition_ends.readable_to)
    return min(ends, default=None)
