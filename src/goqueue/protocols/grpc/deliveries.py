"""What a stream has handed out: messages of queue groups in runs, and the numbers they go by."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import UnknownReceiptError
from goqueue.protocols.grpc.conversions import (
    RESPONSE_BYTES,
    header_fields,
    record_bytes,
    to_message,
)
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from google.protobuf.internal.containers import RepeatedScalarFieldContainer

    from goqueue.queues.runs import Run
    from goqueue.records import Record

SHIFT: Final = 13
"""A delivery's number is that of its run, with so many bits for the place in the run."""
_PLACES: Final = (1 << SHIFT) - 1
_MAX_REMEMBERED: Final = 20_000
"""Messages of one stream, several windows full. Of more, the oldest are forgotten: they have come
back long ago, or were extended and are known by their receipts."""


class Deliveries:
    """The runs of one stream, by their numbers."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[Run, bytearray]] = {}
        """Each run, and a byte for each message: 1 while nothing was said of it."""
        self._remembered = 0
        self._next = 1

    def add(self, run: Run) -> int:
        """Remember a run; returns the number of its first message."""
        number = self._next
        self._next += 1
        self._runs[number] = run, bytearray(b"\1") * len(run.offsets)
        self._remembered += len(run.offsets)
        while self._remembered > _MAX_REMEMBERED:
            self._forget(next(iter(self._runs)))
        return number << SHIFT

    def _forget(self, number: int) -> None:
        run, _ = self._runs.pop(number)
        self._remembered -= len(run.offsets)

    def find(self, ids: Iterable[int]) -> tuple[dict[int, list[int]], list[int]]:
        """The runs that these are of, with their places in them; and those that are of none."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for each in ids:
            places[each >> SHIFT].append(each & _PLACES)
        unknown: list[int] = []
        for number, these in list(places.items()):
            known = self._runs.get(number)
            count = 0 if known is None else len(known[0].offsets)
            if max(these) >= count:
                unknown += (self.delivery_id(number, at) for at in these if at >= count)
                places[number] = [at for at in these if at < count]
                if known is None:
                    del places[number]
        return places, unknown

    def delivery_id(self, number: int, place: int) -> int:
        """The number of the message at a place of a run."""
        return (number << SHIFT) + place

    def run(self, number: int) -> Run:
        """A run that was found."""
        return self._runs[number][0]

    def settled(self, places: dict[int, list[int]]) -> None:
        """Nothing more will be said of these, whether they counted or not."""
        for number, these in places.items():
            known = self._runs.get(number)
            if known is None:
                continue
            is_open = known[1]
            for place in these:
                is_open[place] = 0
            if 1 not in is_open:
                self._forget(number)


def unknown_delivery(delivery_id: int) -> UnknownReceiptError:
    """Why a number says nothing."""
    return UnknownReceiptError(
        f"delivery {delivery_id} is not of this stream, or settled: name its receipt if it is older"
    )


def to_columns(run: Run, records: list[Record], first_id: int) -> pb.MessageColumns:
    """A run as it travels."""
    columns = pb.MessageColumns(
        topic=run.topic,
        partition=run.partition,
        priority=to_priority(run.lane),
        visible_until_ms=run.deadline_ms,
        first_delivery_id=first_id,
        offsets=run.offsets,
        timestamps_ms=[record.timestamp_ms for record in records],
        nonces=run.nonces,
    )
    if run.counts.count(1) != len(records):
        columns.delivery_counts.extend(run.counts)
    _fill(columns.values, columns.without_value, [record.value for record in records])
    keys = [record.key for record in records]
    if keys.count(None) != len(keys):
        _fill(columns.keys, columns.without_key, keys)
    for at, record in enumerate(records):
        if record.headers:
            columns.headers.add(place=at, headers=header_fields(record.headers))
    return columns


def _fill(
    column: RepeatedScalarFieldContainer[bytes],
    without: RepeatedScalarFieldContainer[int],
    contents: list[bytes | None],
) -> None:
    """Fill a column in which some may be missing."""
    there = [content for content in contents if content is not None]
    if len(there) == len(contents):
        column.extend(there)
        return
    column.extend(content or b"" for content in contents)
    without.extend(at for at, content in enumerate(contents) if content is None)


def to_messages(
    run: Run, records: list[Record], first_id: int, trace_id_of: Callable[[str, int, Record], str]
) -> Iterator[pb.Message]:
    """A run as messages."""
    for place, record in enumerate(records):
        trace_id = trace_id_of(run.topic, run.partition, record)
        message = to_message(run.topic, run.partition, record, trace_id)
        message.priority = to_priority(run.lane)
        message.delivery_count = run.counts[place]
        message.receipt_handle = str(run.receipt(place))
        message.visible_until_ms = run.deadline_ms
        message.delivery_id = first_id + place
        yield message


def to_priority(lane: int) -> pb.Priority.ValueType:
    """A lane as the contract counts them."""
    return pb.Priority.ValueType(lane + 1)


def too_large(records: list[Record]) -> list[int]:
    """The places of messages that gRPC cannot carry."""
    if sum(len(record.value or b"") + len(record.key or b"") for record in records) < _HARMLESS:
        return []
    return [at for at, each in enumerate(records) if record_bytes(each) > MAX_MESSAGE_BYTES]


_HARMLESS: Final = RESPONSE_BYTES // 2
