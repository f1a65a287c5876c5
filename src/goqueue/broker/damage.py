"""Stored data that turned out to be damaged: said once in the log, counted, and listed.

Whoever finds damage goes on with what is left and reports it here. So an operator learns of it from
the log, from a metric and from the list of what needs attention, whichever reader met it first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.metrics import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.partition import PartitionId
    from goqueue.metrics.registry import Metrics
    from goqueue.model.errors import DamagedRangeError
    from goqueue.records.salvage import Fault

logger = logging.getLogger(__name__)

MAX_REPORTED: Final = 1000
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
    """Every damaged place that was met since the start."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: OrderedDict[tuple[DamageKind, str, int], Report] = OrderedDict()

    def __iter__(self) -> Iterator[Report]:
        """The newest first."""
        return reversed(self._known.values())

    def damaged(self, partition: PartitionId, damage: DamagedRangeError) -> None:
        """Records of a partition are lost."""
        report = Report(DamageKind.RECORDS, str(partition), str(damage), partition.topic)
        self._note(report, damage.resume_at)

    def undecodable(self, partition: PartitionId, fault: Fault) -> None:
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
        if known not in self._known:
            logger.error("%s: %s", report.place, report.detail)
            self._metrics.counter(names.DAMAGE_FOUND, report.kind).add()
            if len(self._known) >= MAX_REPORTED:
                self._known.popitem(last=False)
        self._known[known] = report
        self._known.move_to_end(known)


def describe(fault: Fault) -> str:
    """Which records do not decode, and why."""
    if fault.end == fault.first + 1:
        return f"the record at offset {fault.first} does not decode: {fault.reason}"
    return f"records at offsets {fault.first} to {fault.end - 1} do not decode: {fault.reason}"
