"""Turns of share consumers between two nodes: the leader of partitions asks the coordinator."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.error_names import named_error
from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.errors import code_for
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.share.acknowledging import AcknowledgedOffsets
from goqueue.queues.share.turns import Acquiring, Closing, ShareTurn
from goqueue.queues.whole_batches import acquired
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.protocols.kafka.context import Struct
    from goqueue.queues.share.turns import Turned

AcquiredRange = tuple[int, int, int]
"""First and last offset, and how often those messages were delivered."""

_ACKNOWLEDGED: Final = struct.Struct(">qqb")
_ACQUIRED: Final = struct.Struct(">qqh")
_VERDICTS: Final = tuple(Verdict)
_NUMBERS: Final = {verdict: number for number, verdict in enumerate(_VERDICTS)}
"""Nodes of one level have the same list; a test holds it to what it was."""


class RemoteTurned(NamedTuple):
    """What came of a turn at another node."""

    lock_ms: int
    outcomes: dict[TopicIdPartition, GoQueueError | None]
    acquired: dict[TopicIdPartition, list[AcquiredRange]]


# --- The request ---------------------------------------------------------------------------------


def request_of(
    turn: ShareTurn, key_of: Callable[[TopicPartition], TopicIdPartition]
) -> dict[str, Any]:
    """The fields of a request for a turn."""
    partitions: dict[TopicIdPartition, dict[str, Any]] = {}

    def entry(key: TopicIdPartition) -> dict[str, Any]:
        return partitions.setdefault(
            key,
            {
                "topic_id": key[0],
                "partition_index": key[1],
                "acknowledged": b"",
                "is_closed": False,
                "is_wanted": False,
            },
        )

    for partition, said in turn.said.items():
        entry(key_of(partition))["acknowledged"] = b"".join(
            [_ACKNOWLEDGED.pack(first, last, _NUMBERS[verdict]) for first, last, verdict in said]
        )
    if turn.closing is not None:
        for key in turn.closing.keys or ():
            entry(key)["is_closed"] = True
    wanted = turn.acquiring
    if wanted is not None:
        for partition in wanted.partitions:
            entry(key_of(partition))["is_wanted"] = True
    return {
        "group_id": turn.group_id,
        "member_id": turn.member_id,
        "in_doubt": turn.in_doubt,
        "is_closing": turn.closing is not None,
        "must_exist": turn.must_exist,
        "is_acquiring": wanted is not None,
        "max_records": 0 if wanted is None else wanted.limit,
        "max_wait_ms": 0 if wanted is None else wanted.max_wait_ms,
        "max_bytes": 0 if wanted is None else wanted.max_bytes,
        "rounds_up": wanted is not None and wanted.rounds_up,
        "batch_size": 1 if wanted is None else wanted.batch_size,
        "partitions": list(partitions.values()),
    }


class AskedTurn(NamedTuple):
    """What a request asks for."""

    turn: ShareTurn
    keys: dict[TopicPartition, TopicIdPartition]
    """What the partitions are called that it says something of."""
    missing: dict[TopicIdPartition, GoQueueError]
    """Why nothing can be acknowledged in partitions that are not there."""


def turn_of(
    request: Struct, partition_of: Callable[[TopicIdPartition], TopicPartition]
) -> AskedTurn:
    """The turn that a request asks for."""
    said: dict[TopicPartition, list[AcknowledgedOffsets]] = {}
    wanted: list[TopicPartition] = []
    closed: list[TopicIdPartition] = []
    keys: dict[TopicPartition, TopicIdPartition] = {}
    missing: dict[TopicIdPartition, GoQueueError] = {}
    for each in request.partitions:
        key = each.topic_id, each.partition_index
        if each.is_closed:
            closed.append(key)
        try:
            partition = partition_of(key)
        except GoQueueError as error:
            if each.acknowledged:
                missing[key] = error
            continue
        keys[partition] = key
        if each.acknowledged:
            said[partition] = [
                AcknowledgedOffsets(first, last, _VERDICTS[number])
                for first, last, number in _ACKNOWLEDGED.iter_unpack(each.acknowledged)
            ]
        if each.is_wanted:
            wanted.append(partition)
    acquiring = None
    if request.is_acquiring:
        acquiring = Acquiring(
            wanted,
            request.max_records,
            0 if missing else request.max_wait_ms,
            request.max_bytes,
            request.rounds_up,
            request.batch_size,
        )
    turn = ShareTurn(
        request.group_id,
        request.member_id,
        said,
        request.in_doubt,
        Closing(tuple(closed)) if request.is_closing else None,
        request.must_exist,
        acquiring,
    )
    return AskedTurn(turn, keys, missing)


# --- The answer ----------------------------------------------------------------------------------


def answer_of(asked: AskedTurn, turned: Turned) -> dict[str, Any]:
    """The fields of the answer: of partitions with acknowledgements or messages."""
    wanted = asked.turn.acquiring
    batch_size = 1 if wanted is None else wanted.batch_size
    ranges = {portion.key: list(acquired(portion, batch_size)) for portion in turned.portions}
    outcomes: dict[TopicIdPartition, GoQueueError | None] = {
        **asked.missing,
        **{asked.keys[each]: error for each, error in turned.outcomes.items()},
    }
    return {
        **_refusal(None),
        "lock_ms": turned.lock_ms,
        "partitions": [
            {
                "topic_id": key[0],
                "partition_index": key[1],
                "is_acknowledged": key in outcomes,
                **_refusal(outcomes.get(key)),
                "acquired": b"".join([_ACQUIRED.pack(*each) for each in ranges.get(key, ())]),
            }
            for key in dict.fromkeys((*outcomes, *ranges))
        ],
    }


def refused(error: GoQueueError) -> dict[str, Any]:
    """The fields of an answer that says why there was no turn."""
    return {**_refusal(error), "lock_ms": 0, "partitions": []}


def turned_of(answer: Struct) -> RemoteTurned:
    """What came of a turn.

    Raises:
        GoQueueError: what the coordinator has raised.
    """
    if answer.error_code:
        raise named_error(answer.error_name, answer.error_message)
    outcomes: dict[TopicIdPartition, GoQueueError | None] = {}
    ranges: dict[TopicIdPartition, list[AcquiredRange]] = {}
    for each in answer.partitions:
        key = each.topic_id, each.partition_index
        if each.is_acknowledged:
            error = named_error(each.error_name, each.error_message) if each.error_code else None
            outcomes[key] = error
        if each.acquired:
            ranges[key] = list(_ACQUIRED.iter_unpack(each.acquired))
    return RemoteTurned(answer.lock_ms, outcomes, ranges)


def _refusal(error: GoQueueError | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": ErrorCode.none, "error_name": "", "error_message": ""}
    return {
        "error_code": code_for(error),
        "error_name": type(error).__name__,
        "error_message": str(error),
    }


def spans(ranges: Iterable[AcquiredRange]) -> list[tuple[int, int]]:
    """Ranges as first offset and the one behind the last."""
    return [(first, last + 1) for first, last, _ in ranges]
