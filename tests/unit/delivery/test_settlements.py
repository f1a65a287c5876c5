"""Acknowledgements by nonces count for the same deliveries as receipts do, and say why not."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings, strategies as st

from goqueue.model.errors import UnknownReceiptError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import decisions, operations as ops
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.receipts import Receipt, refusal
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.share.settlements import Settlement, held_by_nonces
from support.effort import examples

if TYPE_CHECKING:
    from goqueue.model.ranges import Range

SETTINGS = QueueSettings(max_deliveries=4)
COUNT = 300
"""More than a page."""
PLACE = TopicPartition("t", 0)
ACK = Acknowledgement(Verdict.ACK)

WHAT = ["take", "take", "ack", "release", "release", "return", "reject", "extend", "expire"]

parts = st.tuples(st.integers(0, COUNT - 1), st.integers(1, 280))
steps = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        parts,
        st.integers(1, 500),
    ),
    max_size=12,
)


class Played:
    """A queue to which some things have happened, and every receipt that it has ever given."""

    def __init__(self, happened: list[tuple[str, Range, int]]) -> None:
        lanes = LaneIndex()
        lanes.advance_to(COUNT)
        self.queue = PartitionQueue(0, {})
        self.queue.follow(lanes)
        self.now_ms = 0
        self.given: dict[int, list[Receipt]] = {}
        self.play("take", 0, COUNT, 400, b"all")
        for number, (what, (first, size), amount) in enumerate(happened):
            self.play(what, first, min(first + size, COUNT), amount, b"%d" % number)

    def play(self, what: str, first: int, end: int, amount: int, seed: bytes) -> None:
        queue, now_ms = self.queue, self.now_ms
        if what == "expire":
            self.now_ms += amount
            for ranges in list(queue.overdue(self.now_ms)):
                self.tell(decisions.release(queue, ranges, SETTINGS, self.now_ms))
        elif what == "take":
            free = list(queue.available(2, first, end))
            if free:
                chosen = [(2, *part) for part in free]
                self.tell([queue.taken(chosen, "ann", now_ms, amount, seed)])
                self.note(free)
        else:
            held = [(part[0], part[1]) for part in queue.window.flights(first, end)]
            said = Acknowledgement(Verdict(what), "", amount if what == "extend" else None)
            self.tell(decisions.decide(said, held, queue, SETTINGS, now_ms) if held else [])

    def tell(self, operations: list[Any]) -> None:
        for operation in operations:
            self.queue.apply(operation)

    def note(self, taken: list[Range]) -> None:
        window = self.queue.window
        for first, end in taken:
            for offset in range(first, end):
                receipt = Receipt("t", 0, offset, window.count(offset), window.nonce(offset))
                self.given.setdefault(offset, []).append(receipt)

    def shown(self, offset: int, which: int) -> Receipt:
        """A receipt of a message: one that it was given, or none at all."""
        given = self.given.get(offset, [])
        return given[-which] if which <= len(given) else Receipt("t", 0, offset, 9, which)


def describe(error: Any) -> tuple[str, int]:
    return type(error).__name__, getattr(error, "is_done", 0)


@settings(max_examples=examples(300))
@given(steps, st.lists(st.tuples(parts, st.integers(1, 2)), max_size=3), st.integers(0, 500))
def test_nonces_count_where_receipts_do(
    happened: list[tuple[str, Range, int]], named: list[tuple[Range, int]], later_ms: int
) -> None:
    played = Played(happened)
    queue, now_ms = played.queue, played.now_ms + later_ms
    ranges = [(first, min(first + size, COUNT)) for (first, size), _ in named]
    shown = [
        played.shown(offset, which)
        for (first, end), (_, which) in zip(ranges, named, strict=True)
        for offset in range(first, end)
    ]
    held: set[int] = set()
    failed: list[tuple[int, int, tuple[str, int]]] = []
    for receipt in shown:
        error: Any = refusal(queue, receipt, now_ms)
        if error is None and receipt.offset in held:
            error = UnknownReceiptError("twice")
        if error is None:
            held.add(receipt.offset)
        else:
            failed.append((receipt.offset, receipt.nonce, describe(error)))
    nonces = array("Q", [receipt.nonce for receipt in shown]).tobytes()
    found, unsettled = held_by_nonces(queue, PLACE, Settlement(ACK, ranges, nonces), now_ms)
    assert found == ops.ranges_of(held)
    assert [(offset, nonce, describe(error)) for offset, nonce, error in unsettled] == failed


def test_nothing_counts_in_a_partition_that_the_group_does_not_read() -> None:
    settlement = Settlement(ACK, [(3, 5)], array("Q", [7, 8]).tobytes())
    held, failed = held_by_nonces(None, PLACE, settlement, 0)
    assert held == []
    assert [each[:2] for each in failed] == [(3, 7), (4, 8)]
    assert [describe(each.error) for each in failed] == [("UnknownReceiptError", 0)] * 2


def test_what_is_said_too_late_does_not_count() -> None:
    played = Played([])
    nonces = played.queue.window.nonces(0, COUNT).tobytes()
    settlement = Settlement(ACK, [(0, COUNT)], nonces)
    assert held_by_nonces(played.queue, PLACE, settlement, 399) == ([(0, COUNT)], [])
    held, failed = held_by_nonces(played.queue, PLACE, settlement, 400)
    assert held == []
    assert [describe(each.error) for each in failed] == [("ExpiredReceiptError", 0)] * COUNT
