"""Questions to other nodes, of which those that come while one is under way go together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_Q = TypeVar("_Q")
_A = TypeVar("_A")

_MAX_TOGETHER: Final = 200
"""Questions in one request; more go in the next."""
_MAX_REQUESTS: Final = 4
"""Under way to one node; so one whose answer waits for a partition holds up few others."""


class _Node(Generic[_Q, _A]):
    """What one node is asked."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[_Q, asyncio.Future[_A]]] = deque()
        """One for each of the broker's own requests; those are bounded by whoever makes them."""
        self.requests: set[asyncio.Task[None]] = set()


class BatchedCalls(Generic[_Q, _A]):
    """Asks nodes; each question has an answer of its own."""

    def __init__(self, send: Callable[[int, Sequence[_Q]], Awaitable[Sequence[_A]]]) -> None:
        """`send` asks a node several things at once, and returns the answers in their order."""
        self._send = send
        self._nodes: dict[int, _Node[_Q, _A]] = {}
        """As many as there are nodes."""

    async def ask(self, node_id: int, question: _Q) -> _A:
        """The answer of a node. Raises what `send` does."""
        node = self._nodes.setdefault(node_id, _Node())
        future: asyncio.Future[_A] = asyncio.get_running_loop().create_future()
        node.waiting.append((question, future))
        if len(node.requests) < _MAX_REQUESTS:
            self._begin(node_id, node)
        return await future

    def _begin(self, node_id: int, node: _Node[_Q, _A]) -> None:
        task = asyncio.get_running_loop().create_task(self._drain(node_id, node))
        node.requests.add(task)
        task.add_done_callback(node.requests.discard)

    async def _drain(self, node_id: int, node: _Node[_Q, _A]) -> None:
        while node.waiting:
            count = min(len(node.waiting), _MAX_TOGETHER)
            some = [node.waiting.popleft() for _ in range(count)]
            try:
                answers = await self._send(node_id, [question for question, _ in some])
            except GoQueueError as error:
                for _, future in some:
                    if not future.done():
                        future.set_exception(error)
            except BaseException:
                for _, future in some:
                    future.cancel()
                raise
            else:
                _answer(some, answers)

    async def stop(self) -> None:
        """Ask nothing more."""
        tasks = [task for node in self._nodes.values() for task in node.requests]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _answer(some: Sequence[tuple[_Q, asyncio.Future[_A]]], answers: Sequence[_A]) -> None:
    for (_, future), answer in zip(some, answers, strict=True):
        if not future.done():  # whoever asked may be gone
            future.set_result(answer)
