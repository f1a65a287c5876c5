"""Being a member of a group over one stream after the other, for consumers and for queues."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from grpc import StatusCode, aio

from goqueue.client.errors import BrokerUnavailableError, from_call, is_lost
from goqueue.model.errors import GoQueueError, UnknownMemberError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.client.channels import Channels
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

logger = logging.getLogger(__name__)

_LEAVING_S: Final = 2.0
"""How long the broker may take to answer that the member has left."""


class Membership(ABC):
    """Joins, joins again after a lost connection, and leaves. What a session does is the heir's."""

    def __init__(self, channels: Channels, join: pb.SubscribeJoin) -> None:
        self._channels = channels
        self._join = join
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions that this member reads at the moment."""
        self._call: Any = None
        """The stream of the session; None while there is none."""
        self._news = asyncio.Event()
        """There is something to take, or there never will be."""
        self._is_joined = asyncio.Event()
        self._failure: GoQueueError | None = None
        """Why it is a member no longer."""
        self.is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _session(self) -> None:
        """Be a member over one stream, until it ends."""

    async def _enter(self, *work: Coroutine[Any, Any, None]) -> None:
        """Join the group, and do some work for as long as this is a member.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        for each in (self._run(), *work):
            self._start(each)
        try:
            async with asyncio.timeout(self._channels.settings.call_timeout_ms / 1000):
                await self._is_joined.wait()
        except TimeoutError:
            await self._end()
            raise BrokerUnavailableError(f"no answer from {self._channels.address}") from None
        if self._failure is not None:
            await self._end()
            raise self._failure

    async def _end(self) -> None:
        self.is_closed = True
        self._news.set()
        call = self._call
        if call is not None:
            with suppress(aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
                async with asyncio.timeout(_LEAVING_S):
                    await call.done_writing()
                    await call.code()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        """Be a member until this is closed, or the group refuses."""
        failures = 0
        while not self.is_closed:
            try:
                failures = await self._one_session(failures)
            except GoQueueError as error:
                self._give_up(error)
                return
            self._forget_session()
            await asyncio.sleep(self._channels.settings.backoff_s(max(failures, 1)))

    async def _one_session(self, failures: int) -> int:
        """Be a member until the stream ends; returns how many sessions in a row have failed.

        Raises:
            GoQueueError: it makes no sense to join again: the group refuses, or the client is
                closed.
        """
        try:
            await self._session()
        except aio.AioRpcError as failure:
            told = from_call(failure, self._channels.address)
            if not _may_join_again(failure, told):
                raise told from failure
            logger.info("group %s is joined again in a moment: %s", self._join.group, told)
        except asyncio.InvalidStateError:
            pass
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Only the call was cancelled: somebody has closed the connection.
        else:
            return 0
        return failures + 1

    def _give_up(self, error: GoQueueError) -> None:
        """The group refuses."""
        self._failure = error
        self._is_joined.set()
        self._news.set()

    def _forget_session(self) -> None:
        """The stream has ended; another one follows."""
        self._call = None
        self._is_joined.clear()


def _may_join_again(failure: aio.AioRpcError, told: GoQueueError) -> bool:
    """The connection was lost, or the group has forgotten the member."""
    fenced = failure.code() is StatusCode.ABORTED or isinstance(told, UnknownMemberError)
    return fenced or is_lost(failure)
