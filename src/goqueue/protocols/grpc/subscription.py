"""One member of a group, for as long as its stream is open."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, GroupError, PartitionNotAssignedError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.grpc.conversions import outcome, places, split, to_message
from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from goqueue.broker.broker import Broker
    from goqueue.groups.polling.member import Member
    from goqueue.reading.stored_messages import StoredMessage

TURN_MS: Final = 200
"""How often the group hears of the member and the member of its group. A partition changes hands
in about three turns: its owner hears of it, lets go, and the next one takes over."""

SILENCE_S: Final = 10.0
"""After which the client gets a heartbeat, so that it can tell a quiet topic from a lost broker."""

READ_BYTES: Final = 1024 * 1024
_READ_MESSAGES: Final = 5000


class Subscription:
    """Reads for a member and writes to its client, as far as the client's window allows."""

    def __init__(
        self,
        broker: Broker,
        member: Member,
        write: Callable[[pb.SubscribeResponse], Awaitable[None]],
        limit: int,
        window: int,
    ) -> None:
        self._memberships = broker.memberships
        self._trace_id_of = broker.tracer.trace_id_of
        self._member = member
        self._limit = limit
        self._window = window
        self._credit = window
        self._write = write
        self._writing = asyncio.Lock()
        self._commit_lock = asyncio.Lock()
        """Held during a heartbeat and during a commit, which must name the epoch that the last
        heartbeat has brought."""
        self._read: deque[StoredMessage] = deque()
        """Read and not sent; at most what one read brings."""
        self._told: tuple[frozenset[TopicPartition], frozenset[TopicPartition]] | None = None
        self._news = asyncio.Event()
        """The client has said something that lets the loop go on."""
        self._has_released = False
        self._written_s = 0.0

    async def run(self, requests: AsyncIterator[pb.SubscribeRequest]) -> None:
        """Serve until the client closes its side, or is gone; then leave the group.

        Raises:
            GroupError: the group has removed the member; the client joins again.
        """
        listener = asyncio.create_task(self._listen(requests))
        listener.add_done_callback(lambda _: self._news.set())
        try:
            while not listener.done():
                await self._turn()
            await listener
        finally:
            listener.cancel()
            with suppress(GoQueueError):
                await self._memberships.leave(self._member)

    # --- To the client ---------------------------------------------------------------------------

    async def _turn(self) -> None:
        async with self._commit_lock:
            if self._has_released:
                self._has_released = False
                await self._memberships.release(self._member)
            else:
                await self._memberships.heartbeat(self._member)
        await self._send_assignment()
        if self._read or not self._credit or not self._member.assigned:
            if not await self._send_read():
                await self._wait()
        else:
            polled = await self._memberships.reader.read(
                self._member, limit=_READ_MESSAGES, max_wait_ms=TURN_MS, max_bytes=READ_BYTES
            )
            self._read.extend(polled.messages)
            await self._send_read()
        if asyncio.get_running_loop().time() - self._written_s > SILENCE_S:
            await self._send(pb.SubscribeResponse(heartbeat=pb.SubscribeHeartbeat()))

    async def _send_assignment(self) -> None:
        """Tell the client what it has and what it is to give up, if that is news."""
        member = self._member
        if self._told == (member.assigned, member.revoking):
            return
        self._told = (member.assigned, member.revoking)
        self._read = deque(
            each
            for each in self._read
            if TopicPartition(each.topic, each.partition) in self._told[0]
        )
        assignment = pb.Assignment(
            member_id=member.member_id,
            generation=member.epoch,
            partitions=places(member.assigned),
            revoked=places(member.revoking),
        )
        await self._send(pb.SubscribeResponse(assignment=assignment))

    async def _send_read(self) -> bool:
        """Send what has been read, as far as the client can take it; whether that was anything."""
        count = min(self._credit, len(self._read))
        self._credit -= count
        messages = [self._read.popleft() for _ in range(count)]
        for portion in split(messages, self._limit):
            batch = pb.MessageBatch(
                messages=(to_message(*each, self._trace_id_of(*each)) for each in portion)
            )
            await self._send(pb.SubscribeResponse(batch=batch))
        return count > 0

    async def _wait(self) -> None:
        """Until the client says something, or the group is to be spoken to again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_MS / 1000):
                await self._news.wait()
        self._news.clear()

    async def _send(self, response: pb.SubscribeResponse) -> None:
        async with self._writing:
            await self._write(response)
        self._written_s = asyncio.get_running_loop().time()

    # --- From the client -------------------------------------------------------------------------

    async def _listen(self, requests: AsyncIterator[pb.SubscribeRequest]) -> None:
        async for request in requests:
            match request.WhichOneof("action"):
                case "credit":
                    self._grant(request.credit.messages)
                case "commit":
                    await self._commit(request.commit)
                case "release":
                    self._has_released = True
                case "join":
                    raise InvalidRequestError("a member joins once: open another stream")
                case action:
                    raise InvalidRequestError(f"{action}: a member of a log group commits offsets")
            self._news.set()

    def _grant(self, messages: int) -> None:
        if messages < 1:
            raise InvalidRequestError(f"credit.messages: {messages} is not 1 or more")
        self._credit = min(self._credit + messages, self._window)

    async def _commit(self, commit: pb.SubscribeCommit) -> None:
        offsets = {
            TopicPartition(each.topic, each.partition): each.offset for each in commit.offsets
        }
        async with self._commit_lock:
            held = self._member.assigned | self._member.revoking
            errors: dict[TopicPartition, GroupError | None] = {
                place: PartitionNotAssignedError(
                    f"{place} is not this member's: only its owner commits it"
                )
                for place in offsets.keys() - held
            }
            errors |= await self._commit_held({k: v for k, v in offsets.items() if k in held})
        result = pb.CommitResult(
            correlation_id=commit.correlation_id,
            outcomes=(outcome(place, errors[place]) for place in offsets),
        )
        await self._send(pb.SubscribeResponse(committed=result))

    async def _commit_held(
        self, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, GroupError | None]:
        if not offsets:
            return {}
        try:
            outcomes = await self._memberships.commit(self._member, offsets)
        except GroupError as error:
            return dict.fromkeys(offsets, error)
        return {TopicPartition(*place): error for place, error in outcomes.partitions}
