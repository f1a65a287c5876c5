"""A member of a group: joins, reads, commits, hands over, and joins again when it must."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from grpc import aio

from goqueue.client.errors import BrokerUnavailableError, raise_first
from goqueue.client.inbox import Inbox
from goqueue.client.membership import Membership
from goqueue.client.reading import to_message, to_offsets, to_places
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.client.channels import Channels
    from goqueue.client.types import Message
    from goqueue.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

AUTO_COMMIT_MS: Final = 5_000
WINDOW: Final = 500
"""Messages that are on their way or wait to be taken; the broker sends no more than that."""


class AsyncConsumer(Membership):
    """Iterate over it, inside of `async with`; see `AsyncClient.subscribe`."""

    def __init__(
        self,
        channels: Channels,
        group: str,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"],
        auto_commit_ms: float | None,
        client_id: str,
    ) -> None:
        join = pb.SubscribeJoin(
            group=group,
            topics=topics,
            client_id=client_id,
            start_at_latest=start == "latest",
            window=WINDOW,
        )
        super().__init__(channels, join)
        self._auto_commit_ms = auto_commit_ms
        self.inbox = Inbox()
        self._revoked: frozenset[TopicPartition] = frozenset()
        self._writing = asyncio.Lock()
        self._commits: dict[int, asyncio.Future[pb.CommitResult]] = {}
        self._numbers = count(1)
        self._committed: dict[TopicPartition, int] = {}

    @property
    def group(self) -> str:
        """The group that this is a member of."""
        return self._join.group

    @property
    def member_id(self) -> str:
        """What the group calls this member; empty before it has joined."""
        return self._join.member_id

    @property
    def auto_commits(self) -> bool:
        """Whether what is finished is committed without asking."""
        return self._auto_commit_ms is not None

    # --- From joining to leaving -----------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Join the group; returns when the broker has assigned partitions, or none.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        interval_ms = self._auto_commit_ms
        await self._enter(*([] if interval_ms is None else [self._auto_commit(interval_ms / 1000)]))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """Leave the group. What is finished is committed, if it is done automatically.

        The message in hand counts as finished unless an exception says that it is not.
        """
        if kind is None:
            self.inbox.finish()
        try:
            if self._auto_commit_ms is not None and self._call is not None:
                with suppress(GoQueueError):
                    await self._commit(finished_only=True)
        finally:
            await self._end()

    # --- Taking ----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while (message := self.take()) is None:
            if not await self.wait():
                raise StopAsyncIteration
        self.taken()
        return message

    def take(self) -> Message | None:
        """The next message if it is there; may be called from another thread."""
        return self.inbox.take()

    async def wait(self) -> bool:
        """Until something has come; False when nothing will come any more."""
        self.taken()
        if self._failure is not None:
            raise self._failure
        if self.is_closed:
            return False
        await self._news.wait()
        self._news.clear()
        return True

    @property
    def has_news(self) -> bool:
        """Whether `taken` would do anything; may be asked from another thread."""
        return bool(self._revoked) or self.inbox.has_freed(WINDOW // 2)

    def taken(self) -> None:
        """After a message was taken: let the broker send more, and others have what is theirs."""
        freed = self.inbox.take_freed(WINDOW // 2)
        if freed:
            self._start(self._grant(freed))
        if self._revoked and not self.inbox.holds_any(self._revoked):
            self._revoked = frozenset()
            self._start(self._release())

    # --- Committing ------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Note that everything taken so far is done, also the message in hand.

        Raises:
            GoQueueError: it is not noted; the messages will be handed out again.
        """
        async with asyncio.timeout(self._channels.settings.call_timeout_ms / 1000):
            await self._is_joined.wait()
        await self._commit(finished_only=False)

    async def _commit(self, *, finished_only: bool) -> None:
        positions = {
            place: offset
            for place, offset in self.inbox.positions(finished_only=finished_only).items()
            if self._committed.get(place) != offset
        }
        if not positions:
            return
        number = next(self._numbers)
        answer: asyncio.Future[pb.CommitResult] = asyncio.get_running_loop().create_future()
        self._commits[number] = answer
        commit = pb.SubscribeCommit(offsets=to_offsets(positions), correlation_id=number)
        try:
            await self._send(pb.SubscribeRequest(commit=commit))
            async with asyncio.timeout(self._channels.settings.call_timeout_ms / 1000):
                result = await answer
        except TimeoutError:
            raise BrokerUnavailableError("the commit was not answered in time") from None
        finally:
            del self._commits[number]
        raise_first(result.outcomes)
        self._committed |= positions

    async def _auto_commit(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._commit(finished_only=True)
            except BrokerUnavailableError:
                continue  # whoever joins again will read it again
            except GoQueueError as error:
                logger.warning("the next commit will try again: %s", error)

    async def _release(self) -> None:
        """Give up what was taken away, with what is done of it."""
        if self._auto_commit_ms is not None:
            with suppress(GoQueueError):
                await self._commit(finished_only=True)
        self.inbox.keep_only(self.assignment)
        with suppress(BrokerUnavailableError):  # whoever is not there any more has given up all
            await self._send(pb.SubscribeRequest(release=pb.SubscribeRelease()))

    async def _grant(self, messages: int) -> None:
        """Let the broker send more."""
        with suppress(BrokerUnavailableError):  # the next session starts with a whole window
            credit = pb.SubscribeCredit(messages=messages)
            await self._send(pb.SubscribeRequest(credit=credit))

    # --- The stream ------------------------------------------------------------------------------

    def _forget_session(self) -> None:
        super()._forget_session()
        self._revoked = self.assignment = frozenset()
        self.inbox.clear()
        self._committed.clear()
        for answer in self._commits.values():
            if not answer.done():
                answer.set_exception(BrokerUnavailableError("the connection was lost"))

    async def _session(self) -> None:
        call: Any = self._channels.next().consume.Subscribe(wait_for_ready=True)
        try:
            await call.write(pb.SubscribeRequest(join=self._join))
            async for response in call:
                self._call = call
                match response.WhichOneof("event"):
                    case "batch":
                        self.inbox.put([to_message(each) for each in response.batch.messages])
                        self._news.set()
                    case "assignment":
                        self._assigned(response.assignment)
                    case "committed":
                        answer = self._commits.get(response.committed.correlation_id)
                        if answer is not None and not answer.done():
                            answer.set_result(response.committed)
        finally:
            call.cancel()

    def _assigned(self, assignment: pb.Assignment) -> None:
        """Take over what is new; give up what is taken away once it is not in hand any more."""
        self._join.member_id = assignment.member_id  # so that a new stream goes on as this member
        self.assignment = frozenset(to_places(assignment.partitions))
        self._revoked = frozenset(to_places(assignment.revoked))
        self.inbox.drop(self._revoked)
        self.inbox.keep_only(self.assignment | self._revoked)
        self._is_joined.set()
        self.taken()

    async def _send(self, request: pb.SubscribeRequest) -> None:
        async with self._writing:
            if self._call is None:
                raise BrokerUnavailableError("the connection is lost; it is being made again")
            try:
                await self._call.write(request)
            except (aio.AioRpcError, asyncio.InvalidStateError) as failure:
                raise BrokerUnavailableError(f"the connection was lost: {failure}") from None
