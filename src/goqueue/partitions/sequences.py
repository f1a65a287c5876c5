"""The sequences of the idempotent producers of one partition.

A producer numbers its records per partition. A batch that continues the numbers is taken; one of
the last five again is answered with the offsets it got the first time; anything else is refused.
State changes only together with the append: `check` looks, `note` records, and the log comes
between them. It is rebuilt from the batch headers in the log, on top of a snapshot.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import FencedProducerError, InvariantError, OutOfOrderSequenceError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.records.batch import BatchInfo

REMEMBERED_BATCHES: Final = 5
"""As many as a producer may have in flight, so that each of them can be recognised again."""

NO_COORDINATOR: Final = -1
"""The coordinator epoch of a producer of which no transaction has ended here."""

_MAX_PRODUCERS: Final = 50_000
"""Per partition; beyond it the one that has been silent longest is forgotten."""

_SEQUENCES: Final = 1 << 31
_PRODUCER: Final = struct.Struct(">hqH")
_BATCH: Final = struct.Struct(">iiqq")
_COORDINATOR: Final = struct.Struct(">i")


class SequencedBatch(NamedTuple):
    """A batch of an idempotent producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    end_offset: int


_sequenced: Final[Callable[[tuple[int, ...]], SequencedBatch]] = partial(
    tuple.__new__, SequencedBatch
)


class ProducerState(msgspec.Struct):
    """The newest epoch of one producer, and its last few batches."""

    epoch: int
    last_timestamp_ms: int
    """Of its records, as the producer dated them."""
    heard_ms: int = 0
    """When its last batch came in, by our clock; what was loaded counts as heard then. Not kept:
    a producer that sends old records is not idle, and one that is goes a restart later."""
    batches: deque[SequencedBatch] = msgspec.field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    coordinator_epoch: int = NO_COORDINATOR
    """Of the coordinator that has ended a transaction of the producer here last. It only grows: a
    marker of an earlier coordinator is late, and would end another transaction than it means."""

    @property
    def last_sequence(self) -> int:
        """The last sequence number in the log; -1 when this epoch has written nothing."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerSequences:
    """Every idempotent producer that has written to one partition."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, ProducerState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._producers.items())

    def check(self, info: BatchInfo) -> SequencedBatch | None:
        """None when the batch may be appended; the earlier append when it is a repetition.

        Raises:
            FencedProducerError: a newer epoch of the producer has written.
            OutOfOrderSequenceError: batches are missing between the last one and this one.
        """
        state = self._producers.get(info.producer_id)
        if state is None:
            return None
        if info.producer_epoch != state.epoch:
            if info.producer_epoch < state.epoch:
                raise FencedProducerError(
                    f"producer {info.producer_id} writes with epoch {info.producer_epoch}, and "
                    f"epoch {state.epoch} has taken over: start a new producer"
                )
            if info.base_sequence != 0:
                raise OutOfOrderSequenceError(
                    f"producer {info.producer_id} starts epoch {info.producer_epoch} with sequence "
                    f"{info.base_sequence}, expected 0"
                )
            return None
        # The few batches that are remembered never hold all numbers: the next is in none of them.
        batches = state.batches
        expected = (batches[-1][1] + 1) % _SEQUENCES if batches else 0
        if info.base_sequence == expected:
            return None
        for batch in batches:
            if (batch.first_sequence, batch.last_sequence) == _sequences(info):
                return batch
        raise OutOfOrderSequenceError(
            f"producer {info.producer_id} sent sequence {info.base_sequence}, expected "
            f"{expected}: a batch before it was not stored"
        )

    def expects(self, info: BatchInfo) -> bool:
        """Whether a batch is the next of a producer that is known; false says nothing."""
        _, _, _, _, _, _, _, _, _, producer_id, epoch, first, _ = info
        state = self._producers.get(producer_id)
        if state is None or state.epoch != epoch:
            return False
        batches = state.batches
        return bool(batches) and first == (batches[-1][1] + 1) % _SEQUENCES

    def epoch_of(self, producer_id: int) -> int:
        """The newest epoch in which a producer has written; -1 when it never has."""
        state = self._producers.get(producer_id)
        return state.epoch if state is not None else -1

    def last_sequence(self, producer_id: int, epoch: int) -> int:
        """The last number that a producer has given in this epoch; -1 when it has given none."""
        state = self._producers.get(producer_id)
        return state.last_sequence if state is not None and state.epoch == epoch else -1

    def note(self, info: BatchInfo, offset: int, now_ms: int) -> None:
        """Record a batch that is in the log from `offset` on."""
        _, _, _, _, _, attributes, more, _, newest_ms, producer_id, epoch, first, _ = info
        producers = self._producers
        state = producers.get(producer_id)
        if state is None or epoch > state.epoch:
            coordinator_epoch = NO_COORDINATOR if state is None else state.coordinator_epoch
            state = producers[producer_id] = ProducerState(
                epoch, newest_ms, coordinator_epoch=coordinator_epoch
            )
            if len(producers) > _MAX_PRODUCERS:
                producers.popitem(last=False)
        producers.move_to_end(producer_id)
        state.heard_ms = now_ms
        if newest_ms > state.last_timestamp_ms:  # noqa: PLR1730 - `max` takes three times as long
            state.last_timestamp_ms = newest_ms
        if not attributes & CONTROL:
            batches = state.batches
            if batches and first != (batches[-1][1] + 1) % _SEQUENCES:
                # Whoever let it pass had forgotten the producer, or never knew those before.
                batches.clear()
            batches.append(
                _sequenced((first, (first + more) % _SEQUENCES, offset, offset + more + 1))
            )

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """Of the coordinator that has ended a transaction of a producer here last."""
        state = self._producers.get(producer_id)
        return state.coordinator_epoch if state is not None else NO_COORDINATOR

    def note_coordinator(self, producer_id: int, coordinator_epoch: int) -> None:
        """A marker of this coordinator is in the log; its batch was noted."""
        state = self._producers[producer_id]
        state.coordinator_epoch = max(state.coordinator_epoch, coordinator_epoch)

    def dump(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything as keys and values for a snapshot."""
        for producer_id, state in self._producers.items():
            value = _PRODUCER.pack(state.epoch, state.last_timestamp_ms, len(state.batches))
            value += b"".join(_BATCH.pack(*batch) for batch in state.batches)
            if state.coordinator_epoch > 0:  # of a node on its own it is 0 for ever
                value += _COORDINATOR.pack(state.coordinator_epoch)
            yield producer_id.to_bytes(8, "big", signed=True), value

    @property
    def oldest_heard_ms(self) -> int | None:
        """When the producer was heard of that has been silent for longest; None without any."""
        return next((state.heard_ms for state in self._producers.values()), None)

    def forget_idle(self, before_ms: int) -> int:
        """Forget the producers of which nothing was heard since; returns how many."""
        count = 0
        # They are in the order of their last batches.
        while self._producers and next(iter(self._producers.values())).heard_ms < before_ms:
            self._producers.popitem(last=False)
            count += 1
        return count

    def load(self, entries: Iterable[tuple[bytes, bytes]], now_ms: int) -> None:
        """Take over what `dump` gave."""
        for key, value in entries:
            epoch, timestamp, count = _PRODUCER.unpack_from(value)
            state = ProducerState(epoch, timestamp, now_ms)
            for number in range(count):
                at = _PRODUCER.size + number * _BATCH.size
                state.batches.append(SequencedBatch._make(_BATCH.unpack_from(value, at)))
            end = _PRODUCER.size + count * _BATCH.size
            if len(value) > end:
                (state.coordinator_epoch,) = _COORDINATOR.unpack_from(value, end)
            self._producers[int.from_bytes(key, "big", signed=True)] = state

    def check_invariants(self) -> None:
        """Raise `InvariantError` when a producer's batches do not follow each other."""
        for producer_id, state in self._producers.items():
            batches = list(state.batches)
            for earlier, later in pairwise(batches):
                if later.first_sequence != (earlier.last_sequence + 1) % _SEQUENCES:
                    raise InvariantError(f"producer {producer_id}: {later} after {earlier}")


def _sequences(info: BatchInfo) -> tuple[int, int]:
    return info.base_sequence, (info.base_sequence + info.last_offset_delta) % _SEQUENCES
