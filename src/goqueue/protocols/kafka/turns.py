"""Long requests and answers in slices, so that no client waits for another's.

A request that lists a lot, and one whose answer is much larger than itself, are handled and encoded
one element after the other. After `SLICE_S` the event loop gets its turn.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import sliced_writer_of

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Hashable,
        Iterable,
        Iterator,
        Sequence,
    )

    from goqueue.protocols.kafka.context import RequestContext

T = TypeVar("T")

SLICE_S: Final = 0.002
"""How long one request may hold the event loop; then everything that is ready gets its turn."""


class Pace:
    """How long the work at hand has held the event loop."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_S

    async def pause(self) -> None:
        """Give the event loop its turn if this slice is over."""
        if perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + SLICE_S


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a turn of the event loop whenever handling them has taken a slice."""
    pace = Pace()
    for item in items:
        yield item
        await pace.pause()


class Each(Generic[T]):
    """An array of an answer whose elements are made when they are encoded, and not kept."""

    __slots__ = ("_describe", "_items")

    def __init__(self, items: Sequence[T], describe: Callable[[T], Any]) -> None:
        self._items = items
        self._describe = describe

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return map(self._describe, self._items)


async def encode_in_turns(ctx: RequestContext, fields: dict[str, Any]) -> Encoded:
    """The body of an answer, with a turn of the event loop after each slice."""
    out = bytearray()
    pace = Pace()
    schema = schema_of(ctx.api_key, ctx.version, "response")
    for _ in sliced_writer_of(schema)(out, ctx.completed(fields)):
        await pace.pause()
    return Encoded((out,))


async def encode_settled(
    ctx: RequestContext,
    answer: Callable[[], dict[str, Any]],
    settled: Callable[[], Awaitable[bool]],
) -> Encoded:
    """The body of an answer that is read from state, once all that it tells is committed.

    When it turns out not to be, the answer is made anew: what it told has not happened.
    """
    while True:
        encoded = await encode_in_turns(ctx, answer())
        if await settled():
            return encoded


def once_each(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """The items without those that ask for the same as an earlier one."""
    found: dict[Hashable, T] = {}
    for item in items:
        found.setdefault(key(item), item)
    return list(found.values())
