"""Control batches: one record at the end of a transaction in each partition that it wrote to.

As Kafka writes them: a transactional control batch of the producer, without a sequence, whose only
record has the key `version i16, type i16` and the value `version i16, coordinator epoch i32`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records import CONTROL, TRANSACTIONAL, Record, decode_rows, encode

if TYPE_CHECKING:
    from goqueue.runtime.disk import Bytes

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class Marker(IntEnum):
    """How a transaction ended; the numbers are Kafka's."""

    ABORT = 0
    COMMIT = 1


def encode_marker(
    marker: Marker, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int
) -> bytearray:
    """The control batch that ends a producer's transaction."""
    key = _KEY.pack(_VERSION, marker)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return encode(
        [Record(0, now_ms, key, value)],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


class TransactionEnd(NamedTuple):
    """What a control batch says of its producer's transaction."""

    marker: Marker
    coordinator_epoch: int


def read_marker(batch: Bytes) -> TransactionEnd | None:
    """How a control batch ends its producer's transaction; None: it is about something else."""
    try:
        (record,) = decode_rows(batch, check_crc=False)
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
        return TransactionEnd(Marker(kind), coordinator_epoch)
    except (BatchError, ValueError, struct.error):
        return None  # Kafka has other control records, and may come to have more
