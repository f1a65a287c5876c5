"""Stored data that turned out to be damaged: said once in the log, counted, and listed.

Whoever finds damage goes on with what is left and reports it here. So an operator learns of it from
the log, from a metric and from the list of what needs attention, whichever reader met it first.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from goqueue.metrics import names
from goqueue.model.errors import DamagedRangeError
from goqueue.model.internal_topics import DELAYED, is_internal_topic
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from goqueue.metrics.registry import Metrics
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.records.salvage import Fault
    from goqueue.storage.recovery import RecoveryReport

logger = logging.getLogger(__name__)

_MAX_REPORTED: Final = 1000
"""Damaged places that are remembered as reported. Of more, the one not met for the longest is
forgotten, and is reported again when somebody reads it."""


class DamageKind(StrEnum):
    """What is damaged."""

    RECORDS = "records"
    """Stored batches do not match their checksums."""
    UNDECODABLE = "undecodable"
    """Stored batches are as their producers sent them, and hold what is no record."""
    SNAPSHOT = "snapshot"
    """A snapshot does not match its checksum; the one before, or the log, is used."""
    STATE = "state"
    """An entry of the broker's own state does not decode, or is missing."""
    DELAY_SLOT = "delay_slot"
    """A slot file of delayed messages does not match its checksums; it is built from the log."""


class Report(NamedTuple):
    """One damaged place."""

    kind: DamageKind
    place: str
    """A partition or a file."""
    detail: str
    topic: str | None = None
    """Whose messages are concerned."""


class DamageReports:
    """Every damaged place that was met since the start. Reports may come from any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[DamageKind, str, int], Report] = OrderedDict()
        self.on_damaged: Callable[[TopicPartition, DamagedRangeError], None] | None = None
        """Told, by any thread, of records that others may have: each time they are met."""

    def __iter__(self) -> Iterator[Report]:
        """The newest first."""
        with self._lock:
            return reversed(list(self._known.values()))

    def damaged(self, partition: TopicPartition, damage: DamagedRangeError) -> None:
        """Records of a partition are lost; in a topic of the broker, entries of its state."""
        report = Report(_lost_in(partition), str(partition), str(damage), partition.topic)
        self._note(report, damage.resume_at)
        if self.on_damaged is not None:
            self.on_damaged(partition, damage)

    def recovered(self, partition: TopicPartition, report: RecoveryReport) -> None:
        """A start has found records that do not match their checksums, or fewer than there were.

        A tail that is cut in the middle of a batch is what a killed process leaves, and not told
        here.
        """
        kind, topic = _lost_in(partition), partition.topic
        for each in report.damage:
            end = each.first_offset + 1 if each.resume_at is None else each.resume_at
            detail = str(DamagedRangeError(each.first_offset, end, each.reason))
            self._note(Report(kind, str(partition), detail, topic), end)
        if report.cut_whole:
            detail = (
                f"the last {report.cut_bytes} bytes were cut off: {report.cut_reason}; after a "
                "power cut that is what was not synced yet"
            )
            self._note(Report(kind, str(partition), detail, topic), -1)
        if report.missing_below_checkpoint:
            detail = f"{report.missing_below_checkpoint} offsets that were on the disk are gone"
            self._note(Report(kind, str(partition), detail, topic), -2)

    def snapshots(self, partition: TopicPartition, folder: Path, names: Sequence[str]) -> None:
        """Snapshots of what a partition holds were passed over."""
        for name in names:
            detail = (
                "the snapshot does not match its checksum and is passed over: an older one or the "
                "log is used"
            )
            self._note(Report(DamageKind.SNAPSHOT, str(folder / name), detail, partition.topic), 0)

    def undecodable(self, partition: TopicPartition, fault: Fault) -> None:
        """Records of a partition were never records."""
        detail = f"{describe(fault)}; readers that take single messages skip them"
        report = Report(DamageKind.UNDECODABLE, str(partition), detail, partition.topic)
        self._note(report, fault.first)

    def note(self, kind: DamageKind, place: str, detail: str, key: int = 0) -> None:
        """Something else is damaged; `key` tells damage in the same place apart."""
        self._note(Report(kind, place, detail), key)

    def _note(self, report: Report, key: int) -> None:
        """Say once, not at every read, that something is damaged."""
        known = (report.kind, report.place, key)
        with self._lock:
            is_new = known not in self._known
            if is_new and len(self._known) >= _MAX_REPORTED:
                self._known.popitem(last=False)
            self._known[known] = report
            self._known.move_to_end(known)
        if is_new:
            logger.error("%s: %s", report.place, report.detail)
            self._metrics.counter(names.DAMAGE_FOUND, report.kind).add()


def _lost_in(partition: TopicPartition) -> DamageKind:
    """What damaged records of a partition are: messages, or state of the broker."""
    is_state = is_internal_topic(partition.topic) and partition.topic != DELAYED
    return DamageKind.STATE if is_state else DamageKind.RECORDS


def describe(fault: Fault) -> str:
    """Which records do not decode, and why."""
    if fault.end == fault.first + 1:
        return f"the record at offset {fault.first} does not decode: {fault.reason}"
    return f"records at offsets {fault.first} to {fault.end - 1} do not decode: {fault.reason}"
