"""What clients of ours say became of messages, out of their requests (`own_fields`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import GoQueueError, InvalidGroupRequestError
from goqueue.protocols.kafka.limits import MAX_SETTLED_MESSAGES
from goqueue.queues.acknowledging import check
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.share.settlements import Settlement
from goqueue.wire.kafka.share_fetch import NONCE_BYTES, RANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.protocols.kafka.context import Struct
    from goqueue.queues.share.members import ShareMembers
    from goqueue.wire.kafka.plain_share import PlainSettlement

    Said: TypeAlias = dict[TopicIdPartition, list[Settlement]]
    """What became of messages, by partition."""

_VERDICTS: Final = {
    1: Verdict.ACK,
    2: Verdict.RELEASE,
    3: Verdict.REJECT,
    4: Verdict.EXTEND,
    64: Verdict.NACK,
    65: Verdict.RETURN,
}
_ACK: Final = Acknowledgement(Verdict.ACK)


def plain_said(members: ShareMembers, settlements: Sequence[PlainSettlement]) -> Said | None:
    """What a plain request says; None when something of it is to be refused."""
    said: Said = {}
    count = 0
    try:
        for place, ranges, nonces in settlements:
            members.partition(place)
            said[place] = [Settlement(_ACK, ranges_of(ranges, nonces), nonces)]
            count += len(nonces) // NONCE_BYTES
    except GoQueueError:
        return None
    return said if len(said) == len(settlements) and count <= MAX_SETTLED_MESSAGES else None


def said_in(
    check: Callable[[TopicIdPartition], object], request: Struct
) -> tuple[Said, dict[TopicIdPartition, GoQueueError]]:
    """What a request says; and why not, of partitions where it cannot be taken in.

    `check` raises where the client may not acknowledge anything.

    Raises:
        InvalidGroupRequestError: nothing of it can.
    """
    if not request.group_id or not request.member_id:
        raise InvalidGroupRequestError("a queue is of a group and a member: name both")
    said: Said = {}
    refused: dict[TopicIdPartition, GoQueueError] = {}
    count = 0
    for topic in request.topics:
        for each in topic.partitions:
            place = topic.topic_id, each.partition_index
            count += sum(len(one.nonces) for one in each.settlements) // NONCE_BYTES
            try:
                check(place)
                settlements = [settlement_of(one) for one in each.settlements]
                said[place] = said.get(place, []) + settlements
            except GoQueueError as error:
                refused[place] = error
    if count > MAX_SETTLED_MESSAGES:
        raise InvalidGroupRequestError(
            f"{count} messages are acknowledged: expected at most {MAX_SETTLED_MESSAGES} in a "
            "request"
        )
    return {place: said[place] for place in said if place not in refused}, refused


def settlement_of(said: Struct) -> Settlement:
    """What became of messages of a partition.

    Raises:
        InvalidGroupRequestError: it contradicts itself.
    """
    verdict = _VERDICTS.get(said.acknowledge_type)
    if verdict is None:
        raise InvalidGroupRequestError(
            f"there is no acknowledgement of type {said.acknowledge_type}: expected one of "
            f"{', '.join(map(str, _VERDICTS))}"
        )
    delay_ms = None if said.delay_ms == -1 else said.delay_ms
    acknowledgement = Acknowledgement(verdict, said.reason or "", delay_ms)
    check(acknowledgement)
    return Settlement(acknowledgement, ranges_of(said.ranges, said.nonces), said.nonces)


def ranges_of(packed: bytes, nonces: bytes) -> list[Range]:
    """Ranges of offsets, of which each has a nonce; those that meet as one.

    Raises:
        InvalidGroupRequestError: it is something else.
    """
    if len(packed) % RANGE.size:
        raise InvalidGroupRequestError(
            f"ranges of {len(packed)} bytes: expected {RANGE.size} bytes each"
        )
    ranges: list[Range] = []
    count, start, end = 0, -1, -1
    for first, size in RANGE.iter_unpack(packed):
        if first < 0 or size < 1:
            raise InvalidGroupRequestError(
                f"a range of {size} messages from offset {first}: expected 1 or more, from 0 on"
            )
        if first != end:
            ranges.append((first, first + size))
            start = first
        else:  # messages in a row that were acknowledged one by one
            ranges[-1] = start, first + size
        end = first + size
        count += size
    if len(nonces) != NONCE_BYTES * count:
        raise InvalidGroupRequestError(
            f"nonces of {len(nonces)} bytes for {count} messages: expected {NONCE_BYTES} each"
        )
    return ranges
