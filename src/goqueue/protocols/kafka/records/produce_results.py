"""What became of the batches of a Produce request, as its answer says it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError
from goqueue.protocols.kafka.brokers import leader_of
from goqueue.protocols.kafka.records.implicit_join import code_of
from goqueue.publishing.delivery_headers import asks_to_be_opened
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.produce import PartitionData, PartitionResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from goqueue.publishing.requests import Published

Wait = tuple[list[PartitionResult], int, "Awaitable[None]"]
"""A result that holds once something has happened: the list it is in, where, and what."""


def tell(
    partition: int,
    outcome: Published | GoQueueError,
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
    placed, log_start, append_time_ms, durable, *_ = outcome
    if durable is not None:
        waits.append((results, len(results), durable))
    results.append(
        PartitionResult(
            partition,
            ErrorCode.none,
            placed.first_offset,
            append_time_ms,
            log_start,
            delayed=() if data is None else delayed_told(data, outcome),
        )
    )


async def settle(version: int, waits: list[Wait], timeout_s: float) -> None:
    """Return when every append is durable; one that failed or took too long says so."""
    tasks = [asyncio.ensure_future(durable) for _, _, durable in waits]
    await asyncio.wait(tasks, timeout=timeout_s)
    for (results, at, _), task in zip(waits, tasks, strict=True):
        number = results[at].partition
        if not task.done():
            task.cancel()
            results[at] = PartitionResult(
                number,
                ErrorCode.request_timed_out,
                error_message="the records are stored, and not on the disk within the timeout",
            )
        elif (error := task.exception()) is not None:
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
    )


def delayed_told(data: PartitionData, published: Published) -> Sequence[tuple[int, int, int]]:
    """The messages that wait, for a producer that has said that there may be some."""
    if not published.delayed or data.records is None or not asks_to_be_opened(data.records):
        return ()
    return [(at, -1 if found is None else found, due) for at, found, due in published.delayed]
