"""Messages on their way into logs: in batches, each settled when it is as durable as asked for."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchTooLargeError, GoQueueError, MalformedRecordError
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.new_messages import BY_RECORD, MessageResult, Portion, fail, smaller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.requests import Published
    from goqueue.publishing.routed import RoutedPublish

_DIVIDED: Final = (BatchTooLargeError, MalformedRecordError, *BY_RECORD)
"""Refusals of a batch of which some messages may be stored without the others."""


class _Appended(NamedTuple):
    """A batch that is in the log, or on its way there: its messages, and where it went."""

    partition: int
    portion: Portion
    published: Published | DeferredPublish | RoutedPublish


class Publishing:
    """Messages on their way to being as durable as was asked for."""

    __slots__ = ("_append", "_appended", "_may_divide", "_results")

    def __init__(
        self,
        results: list[MessageResult],
        append: Callable[[int, Portion], Published | DeferredPublish | RoutedPublish],
        *,
        may_divide: bool,
    ) -> None:
        """Fill in `results`; `may_divide` what does not fit one batch, or is refused in parts."""
        self._results = results
        self._append = append
        self._may_divide = may_divide
        self._appended: list[_Appended] = []

    def begin(self, portions: Iterable[tuple[int, Portion]]) -> None:
        """Append what goes to each partition."""
        self._appended += self._all_appended(portions)

    def _all_appended(self, portions: Iterable[tuple[int, Portion]]) -> list[_Appended]:
        appended: list[_Appended] = []
        waiting = deque(portions)
        while waiting:
            number, portion = waiting.popleft()
            try:
                appended.append(_Appended(number, portion, self._append(number, portion)))
            except GoQueueError as error:
                rest = self._refused(portion, error)
                waiting.extendleft((number, each) for each in reversed(rest))
        return appended

    def _refused(self, portion: Portion, error: GoQueueError) -> list[Portion]:
        """What is left to be tried of a portion that is refused; the others have their results."""
        if self._may_divide and isinstance(error, _DIVIDED):
            return smaller(self._results, portion, error)
        fail(self._results, portion.indexes, error)
        return []

    @property
    def is_duplicate(self) -> bool:
        """A producer's batch was in the log already, and nothing was stored again."""
        return any(each.published.placed.duplicate for each in self._appended)

    async def settled(self) -> list[MessageResult]:
        """What became of each message, once it is known. To be called once."""
        for appended in self._appended:
            await self._settle(appended)
        return self._results

    async def _settle(self, appended: _Appended) -> None:
        """Fill in the results of one batch, once it is as durable as was asked for.

        A leader elsewhere may refuse some of its messages: then the others are sent again.
        """
        number, (indexes, records, _, _), published = appended
        try:
            if published.durable is not None:
                await published.durable
        except GoQueueError as error:
            rest = [(number, each) for each in self._refused(appended.portion, error)]
            for smaller_one in self._all_appended(rest):
                await self._settle(smaller_one)
            return
        first, stamp_ms = published.placed.first_offset, published.append_time_ms
        if published.delayed:
            self._settle_delayed(appended)
            return
        for index, record in zip(indexes, records, strict=True):
            at_ms = stamp_ms if stamp_ms >= 0 else record.timestamp_ms
            self._results[index] = MessageResult(number, first + record.offset, at_ms)

    def _settle_delayed(self, appended: _Appended) -> None:
        """`_settle` of a batch of which some records wait."""
        number, (indexes, records, _, _), published = appended
        delayed = {each[0]: each for each in published.delayed}
        offset, end, _ = published.placed
        keep_places = end - offset == len(records)
        for at, (index, record) in enumerate(zip(indexes, records, strict=True)):
            later = delayed.get(at)
            if later is None:
                if keep_places:
                    offset = published.placed.first_offset + at
                stamp_ms = published.append_time_ms
                at_ms = stamp_ms if stamp_ms >= 0 else record.timestamp_ms
                self._results[index] = MessageResult(number, offset, at_ms)
                offset += 1
            else:
                self._results[index] = MessageResult(
                    number, None, record.timestamp_ms, None, later[1], later[2]
                )
