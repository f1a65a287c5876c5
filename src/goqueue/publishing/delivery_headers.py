"""Batches whose records say how they are to be delivered: opened, checked, and taken apart."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.delivery import (
    DELIVER_AT_HEADER,
    DELIVERY_HEADERS,
    delivery_of,
    milliseconds,
)
from goqueue.model.errors import (
    BatchError,
    DelayDisabledError,
    DelayError,
    DelayTooLongError,
    DeliveryHeaderError,
    PriorityError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.rewrite import require_keys
from goqueue.records import DELIVERY, Compression, Record, encode
from goqueue.records.batch import ATTEMPT, ATTEMPT_SHIFT, CRC_START, BatchInfo
from goqueue.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.topics.settings import TopicSettings

_NAMES: Final = re.compile(b"|".join(re.escape(name.encode()) for name in DELIVERY_HEADERS))
_REFUSALS: Final = (PriorityError, DeliveryHeaderError, DelayTooLongError, DelayDisabledError)
_ATTRIBUTES: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")
_LOW_ATTRIBUTES_AT: Final = CRC_START + 1


def check_due(settings: TopicSettings, deliver_at_ms: int, now_ms: int) -> bool:
    """Whether a message is due later than now, and may be.

    Raises:
        DelayDisabledError: the topic takes no delayed messages.
        DelayTooLongError: it is due later than the topic allows.
    """
    if deliver_at_ms <= now_ms:
        return False
    if not settings.may_delay:
        raise DelayDisabledError("the topic takes no delayed messages (goqueue.delay.enable)")
    if deliver_at_ms - now_ms > settings.max_delay_ms:
        raise DelayTooLongError(
            f"a delay of {deliver_at_ms - now_ms} ms; the topic allows up to "
            f"{settings.max_delay_ms} (goqueue.delay.max.ms)"
        )
    return True


Later: TypeAlias = tuple[int, int]
"""A record that is due later: its place in the batch, and when. Plain, as there are many."""


Delayed: TypeAlias = "tuple[int, int | None, int]"
"""A message that waits: its place in the batch that it came in, its id, and when it is due.

There is no id when the batch had been stored before: what became of it since is not looked up.
Plain, as there are many.
"""


class Opened(NamedTuple):
    """What a batch holds."""

    records: list[Record]
    says_something: bool
    """At least one record says how it is to be delivered."""
    later: list[Later]


def asks_to_be_opened(batch: memoryview) -> bool:
    """Whether a producer says by the attribute `DELIVERY` that a record says something."""
    return len(batch) > _LOW_ATTRIBUTES_AT and bool(batch[_LOW_ATTRIBUTES_AT] & DELIVERY)


def may_have_delivery_headers(settings: TopicSettings, batch: memoryview, info: BatchInfo) -> bool:
    """Whether a batch must be opened; at the cost of a search, on topics that want it.

    What is compressed cannot be searched, and is opened always.
    """
    if info.has_delivery_headers:
        return True
    if not settings.takes_kafka_headers:
        return False
    return info.compression != 0 or _NAMES.search(batch) is not None


def opened(settings: TopicSettings, records: list[Record], now_ms: int) -> Opened:
    """The records of a batch, held to what their headers may say.

    Raises:
        BatchError, DelayError: naming every record that may not be stored.
    """
    says_something = False
    later = []
    refused: dict[int, str] = {}
    first: BatchError | DelayError | None = None
    latest_ms = now_ms + settings.max_delay_ms if settings.may_delay else -1
    for number, record in enumerate(records):
        headers = record.headers
        if not headers:
            continue
        if len(headers) == 1 and headers[0][0] == DELIVER_AT_HEADER:  # as most have that wait
            at_ms = milliseconds(headers[0][1])
            if at_ms is not None and now_ms < at_ms <= latest_ms:
                later.append((number, at_ms))
                continue
        try:
            due_ms = _due(settings, record, now_ms)
        except _REFUSALS as error:
            first = first or type(error)(f"record {number}: {error}")
            refused[number] = str(error)
            continue
        if due_ms is not None:
            says_something = True
            if due_ms > now_ms:
                later.append((number, due_ms))
    if first is not None:
        raise first.of_records(refused)
    return Opened(records, says_something or bool(later), later)


def delayable(records: Sequence[Record]) -> list[Later]:
    """The records of a batch that were due later when it came first, if they were, and when."""
    found = []
    for number, record in enumerate(records):
        due_ms = next(
            (milliseconds(value) for name, value in record.headers if name == DELIVER_AT_HEADER),
            None,
        )
        if due_ms is not None:
            found.append((number, due_ms))
    return found


def _due(settings: TopicSettings, record: Record, now_ms: int) -> int | None:
    """When a record is due, which may be long ago; None when it says nothing of its delivery."""
    delivery = delivery_of(record.headers)
    if delivery is None:
        return None
    due_ms = delivery.deliver_at_ms or 0
    check_due(settings, due_ms, now_ms)
    return due_ms


def check_delayable(settings: TopicSettings, info: BatchInfo, found: Opened) -> None:
    """Hold records that are due later to what the rest of their batch is held to elsewhere.

    Raises:
        DelayDisabledError: they belong to a transaction.
        MalformedRecordError: one has no key, and the topic is compacted by key.
    """
    if info.is_transactional:
        text = "a transaction cannot hold delayed messages"
        refused = dict.fromkeys((number for number, _ in found.later), text)
        raise DelayDisabledError(f"record {found.later[0][0]} is due later: {text}").of_records(
            refused
        )
    if settings.compacts:
        require_keys((number, found.records[number]) for number, _ in found.later)


def marked(batch: memoryview, info: BatchInfo) -> memoryview:
    """The same batch with the attribute `DELIVERY`. A writable view is changed in place."""
    if info.has_delivery_headers:
        return batch
    data = memoryview(bytearray(batch)) if batch.readonly else batch
    _ATTRIBUTES.pack_into(data, CRC_START, info.attributes | DELIVERY)
    _CRC.pack_into(data, CRC_START - _CRC.size, crc32c(data[CRC_START:]))
    return data


def without_delayed(
    info: BatchInfo, rest: Sequence[Record], *, keeps_places: bool, attempt: int = 0
) -> bytearray:
    """A batch in which some records are missing.

    It has the same offsets and sequences as before when somebody counts on them: an idempotent
    producer, or a client that works out the offsets of its records from that of the first. It
    tells the attempt that stores it.
    """
    if not keeps_places:
        rest = [record._replace(offset=at) for at, record in enumerate(rest)]
    return encode(
        rest,
        compression=Compression.of(info.compression),
        attributes=info.attributes & ~ATTEMPT | DELIVERY | attempt << ATTEMPT_SHIFT,
        base_offset=info.base_offset if keeps_places else 0,
        last_offset_delta=info.last_offset_delta if keeps_places else None,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )
