"""A member of a group, as a program on asyncio sees it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, Self

from goqueue.client.consuming.group_reader import GroupReader
from goqueue.client.errors import ClientError
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from goqueue.client.link.link import Link
    from goqueue.client.types import Message

AUTO_COMMIT_MS: Final = 5_000


class AsyncConsumer(GroupReader):
    """Iterate over it, inside of `async with`; see `AsyncClient.subscribe`."""

    def __init__(
        self,
        link: Link,
        group: str,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"] = "earliest",
        auto_commit_ms: float | None = AUTO_COMMIT_MS,
        client_id: str = "",
    ) -> None:
        super().__init__(
            link, group, topics, start=start, auto_commit_ms=auto_commit_ms, client_id=client_id
        )
        self._is_open = False

    async def __aenter__(self) -> Self:
        """Join the group; returns when the broker has assigned partitions, or none.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        self._is_open = True
        try:
            await self._join()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """Leave the group. What is finished is committed, if it is done automatically.

        What is in hand counts as finished unless an exception says that it is not.
        """
        if kind is None:
            self.inbox.finish()
        try:
            if self.auto_commits and self._is_joined.is_set():
                with suppress(GoQueueError):
                    await self._commit(finished_only=True)
        finally:
            await self._end()

    async def _end(self) -> None:
        self._is_open = False
        self._news.set()
        await self._leave()

    # --- Taking ----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        for message in self.inbox.rows:
            return message
        return await self._next()

    async def _next(self) -> Message:
        while await self._more():
            for message in self.inbox.rows:
                return message
        raise StopAsyncIteration

    async def batches(self, size: int = 500) -> AsyncIterator[list[Message]]:
        """Up to so many messages at once, as they are there.

        All of a batch is in hand until the next one is asked for.
        """
        if size < 1:
            raise ValueError(f"size: {size} is not 1 or more")
        while True:
            batch = self.inbox.take_batch(size)
            if batch:
                yield batch
            elif not await self._more():
                return

    async def _more(self) -> bool:
        """Wait until something can be taken; False when nothing will come any more.

        Raises:
            GoQueueError: the group or the broker refuses to go on.
        """
        while not self.inbox.advance():
            if not await self.wait():
                return False
        self.taken()
        await asyncio.sleep(0)  # the fetcher's turn: it asks for what comes next
        return True

    async def wait(self) -> bool:
        """Until something has come; False when nothing will come any more.

        Raises:
            GoQueueError: the group or the broker refuses to go on.
        """
        self.taken()
        if self.inbox.failure is not None:
            raise self.inbox.failure
        if not self._is_open:
            if self._member.has_spoken:
                return False
            raise ClientError("this consumer has not joined its group: use it inside of `with`")
        await self._news.wait()
        self._news.clear()
        return True

    def taken(self) -> None:
        """After the inbox has advanced: fetch more, and let others have what is theirs."""
        self._is_finished.set()
        self._fetcher.poke()

    # --- Committing ------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Note that everything taken so far is done, also what is in hand.

        Raises:
            GoQueueError: it is not noted; the messages will be handed out again.
        """
        self._link.check()
        await self._joined()
        await self._commit(finished_only=False)
