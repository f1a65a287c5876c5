"""What became of the batches of a Produce request, as its answer says it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import GoQueueError, NotEnoughReplicasAfterAppendError
from goqueue.protocols.kafka.brokers import leader_of
from goqueue.protocols.kafka.records.implicit_join import code_of
from goqueue.publishing.deferred import DeferredPublish
from goqueue.publishing.delivery_headers import asks_to_be_opened
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import Whole
from goqueue.wire.kafka.produce import PartitionData, PartitionResult
from goqueue.wire.kafka.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from goqueue.publishing.requests import Published
    from goqueue.wire.kafka.frames import Encoded, Response

Durable: TypeAlias = "asyncio.Future[None] | Reply[None]"
"""What an answer waits for: done when a batch is as durable as it is to be."""
Wait = tuple[list[PartitionResult], int, "Awaitable[None]"]
"""A result that holds once something has happened: the list it is in, where, and what."""


def tell(
    partition: int,
    outcome: Published | DeferredPublish | GoQueueError,
    version: int,
    results: list[PartitionResult],
    waits: list[Wait],
    *,
    data: PartitionData | None = None,
) -> None:
    """Add what became of a partition's records to the results of its topic."""
    if isinstance(outcome, GoQueueError):
        results.append(_failure(partition, outcome, version))
        return
    if isinstance(outcome, DeferredPublish):
        waits.append((results, len(results), _told_later(partition, outcome, results, data)))
        results.append(PartitionResult(partition, ErrorCode.none))
        return
    if outcome.durable is not None:
        waits.append((results, len(results), outcome.durable))
    results.append(_stored(partition, outcome, data))


def _told_later(
    partition: int,
    outcome: DeferredPublish,
    results: list[PartitionResult],
    data: PartitionData | None,
) -> Awaitable[None]:
    """To be waited for; the result of a batch that could not be stored at once holds then."""
    at = len(results)

    async def told() -> None:
        await outcome.durable
        results[at] = _stored(partition, outcome, data)

    return told()


def _stored(
    partition: int, outcome: Published | DeferredPublish, data: PartitionData | None
) -> PartitionResult:
    return PartitionResult(
        partition,
        ErrorCode.none,
        outcome.placed.first_offset,
        outcome.append_time_ms,
        outcome.log_start,
        delayed=() if data is None else delayed_told(data, outcome),
        is_duplicate=outcome.placed.duplicate,
    )


def settle(
    version: int, waits: list[Wait], timeout_s: float, encode: Callable[[], Encoded]
) -> asyncio.Future[Encoded]:
    """Answer, by `encode`, when every append is durable; one that failed or took too long says so.

    It counts those that are, and costs no task.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Encoded] = loop.create_future()
    futures = [_told(durable) for _, _, durable in waits]
    left = len(futures)

    def settled(_: Durable) -> None:
        nonlocal left
        left -= 1
        if not left:
            answer_now()

    def answer_now() -> None:
        timer.cancel()
        if answer.done():
            return
        try:
            for (results, at, _), future in zip(waits, futures, strict=True):
                judge(results, at, future, version)
            answer.set_result(encode())
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer says it
            answer.set_exception(error)

    timer = loop.call_later(timeout_s, answer_now)
    for future in futures:
        future.add_done_callback(settled)
    return answer


def settle_single(
    durable: Awaitable[None],
    timeout_s: float,
    stored: Callable[[], bytes],
    otherwise: Callable[[Durable], Encoded],
) -> Reply[Response | None]:
    """`settle` for one batch, whose answer is a whole frame when all went well."""
    loop = asyncio.get_running_loop()
    answer: Reply[Response | None] = Reply()
    future = _told(durable)

    def answer_now(_: Durable | None = None) -> None:
        timer.cancel()
        if answer.done():
            return
        try:
            is_stored = future.done() and not future.cancelled() and future.exception() is None
            answer.set_result(Whole(stored()) if is_stored else otherwise(future))
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer says it
            answer.set_exception(error)

    timer = loop.call_later(timeout_s, answer_now)
    future.add_done_callback(answer_now)
    return answer


def _told(durable: Awaitable[None]) -> Durable:
    return durable if isinstance(durable, Reply) else asyncio.ensure_future(durable)


def judge(results: list[PartitionResult], at: int, future: Durable, version: int) -> None:
    """Say in its result what became of an append that was waited for."""
    number = results[at].partition
    if not future.done() or future.cancelled():
        if not isinstance(future, Reply):  # whose readers would be called in the middle of this
            future.cancel()
        results[at] = PartitionResult(
            number,
            ErrorCode.request_timed_out,
            error_message="the records are stored, and not committed within the timeout",
            error_name=NotEnoughReplicasAfterAppendError.__name__,
        )
    elif (error := future.exception()) is not None:
        if not isinstance(error, GoQueueError):
            raise error
        results[at] = _failure(number, error, version)


def _failure(partition: int, error: GoQueueError, version: int) -> PartitionResult:
    records = tuple(error.refused.items())
    return PartitionResult(
        partition,
        code_of(error, version),
        error_message=str(error),
        record_errors=records,
        leader=leader_of(error),
        error_name=type(error).__name__,
    )


def delayed_told(
    data: PartitionData, published: Published | DeferredPublish
) -> Sequence[tuple[int, int, int]]:
    """The messages that wait, for a producer that has said that there may be some."""
    if not published.delayed or data.records is None or not asks_to_be_opened(data.records):
        return ()
    return [(at, -1 if found is None else found, due) for at, found, due in published.delayed]
