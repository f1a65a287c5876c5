"""What the drivers of Spark pipelines report of themselves, kept for those who look.

The newest report of each pipeline is stored in an internal compacted topic before its driver is
told so, and read back at a start. Nothing in the broker depends on any of it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model import internal_topics
from goqueue.model.errors import (
    PipelinesUnavailableError,
    TooManyPipelinesError,
    UnknownPipelineError,
)
from goqueue.model.pipeline_reports import PipelineFields, PipelineReport
from goqueue.state.coordinators import Family
from goqueue.state.serial import Decided, SerialShard
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.runtime.clock import Clock
    from goqueue.state.log import StateEntry
    from goqueue.state.logs import StateLogs

_log = logging.getLogger(__name__)

PIPELINES_TOPIC: Final = internal_topics.PIPELINES
_MAX_PIPELINES: Final = 1000
"""A report of one more is refused with `TooManyPipelinesError`; those of others are replaced."""
LOST_AFTER: Final = 3
"""Intervals without a report, after which a pipeline that should run is said to be lost."""
LOST: Final = "lost"
FAILED: Final = "failed"

_ALIVE: Final = frozenset({"starting", "running"})


_decode: Final = msgspec.json.Decoder(PipelineReport).decode


def unknown_pipeline(name: str) -> UnknownPipelineError:
    """What is said of a pipeline that has not reported, also to whom its report is hidden."""
    return UnknownPipelineError(f"no pipeline {name!r} has reported of itself")


class Pipelines:
    """Every pipeline that has reported of itself. The topic is made with the first of them."""

    def __init__(
        self, state_logs: StateLogs, changes: TopicChanges, clock: Clock, executor: Executor
    ) -> None:
        self._state_logs = state_logs
        self._clock = clock
        self._reports: dict[str, PipelineReport] = {}
        self._loading = self._reports
        self.shard = SerialShard(
            self,
            partial(changes.create_internal, PIPELINES_TOPIC, 1),
            partial(state_logs.log, PIPELINES_TOPIC, 0, SnapshotKind.PIPELINES),
            executor,
            _unavailable,
        )
        self._listening_since_ms = 0
        self.generation = 0
        """Counts changes of which pipelines there are, and of their states."""

    async def start(self) -> None:
        """Load what is stored."""
        self._listening_since_ms = self._clock.now_ms()
        family = Family(PIPELINES_TOPIC, 1, self.shard.made)
        await self._state_logs.coordinators.start(family)

    async def stop(self) -> None:
        """Keep the reports for the next start."""
        await self.shard.close()

    # --- Looking ---------------------------------------------------------------------------------

    def all(self) -> list[PipelineReport]:
        """Every report, by name."""
        now_ms = self._clock.now_ms()
        return [self._as_of(self._reports[name], now_ms) for name in sorted(self._reports)]

    def get(self, name: str) -> PipelineReport:
        """One report.

        Raises:
            UnknownPipelineError: there is none.
        """
        report = self._reports.get(name)
        if report is None:
            raise unknown_pipeline(name)
        return self._as_of(report, self._clock.now_ms())

    def _as_of(self, report: PipelineReport, now_ms: int) -> PipelineReport:
        # Nobody can report while this broker is down: silence counts from its start on.
        heard_ms = max(report.updated_at, self._listening_since_ms)
        if report.state in _ALIVE and now_ms - heard_ms > LOST_AFTER * report.interval_ms:
            return msgspec.structs.replace(report, state=LOST)
        return report

    # --- Changing --------------------------------------------------------------------------------

    async def put(self, name: str, said: PipelineFields) -> PipelineReport:
        """Keep a report in place of the last one of that name.

        Raises:
            TooManyPipelinesError: it is one too many.
            PipelinesUnavailableError: it could not be stored; the last one still counts.
        """

        async def decide() -> Decided[PipelineReport]:
            if name not in self._reports and len(self._reports) >= _MAX_PIPELINES:
                raise TooManyPipelinesError(
                    f"there are {_MAX_PIPELINES} pipelines: delete those that are not needed "
                    "any more"
                )
            fields = {each: getattr(said, each) for each in PipelineFields.__struct_fields__}
            report = PipelineReport(name=name, updated_at=self._clock.now_ms(), **fields)
            return Decided([(name.encode(), msgspec.json.encode(report))], report)

        return await self.shard.change(decide)

    async def delete(self, name: str) -> None:
        """Forget a pipeline; if it still runs, its next report brings it back.

        Raises:
            UnknownPipelineError: there is none of that name.
            PipelinesUnavailableError: that could not be stored.
        """

        async def decide() -> Decided[None]:
            self.get(name)
            return Decided([(name.encode(), None)], None)

        await self.shard.change(decide)

    # --- What is stored --------------------------------------------------------------------------

    def apply(self, entries: Sequence[StateEntry]) -> None:
        """Take in what is stored now."""
        before = {name: report.state for name, report in self._reports.items()}
        _take_in(self._reports, entries)
        if before != {name: report.state for name, report in self._reports.items()}:
            self.generation += 1

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it."""
        return [
            (name.encode(), msgspec.json.encode(report)) for name, report in self._reports.items()
        ]

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._loading = {}

    def replay(self, entries: Sequence[StateEntry], _lost_count: int) -> None:
        """Take in entries as they were stored."""
        _take_in(self._loading, entries)

    def loaded(self, _lost_count: int) -> None:
        """The replay is over; of a damaged report the one before counts."""
        if self.shard.state.is_led:  # or what was replayed may not be committed
            self.adopt(self._loading)

    def adopt(self, reports: dict[str, PipelineReport]) -> None:
        """Show these from now on."""
        self._reports = reports
        self.generation += 1


class CopiedReports:
    """Feeds the reports of a node with what another one has stored; see `StateCopy`."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines
        self._loading: dict[str, PipelineReport] = {}

    def begin(self) -> None:
        """Begin anew."""
        self._loading = {}

    def replay(self, entries: Sequence[StateEntry]) -> None:
        """Entries from the beginning on."""
        _take_in(self._loading, entries)

    async def loaded(self, is_copy: Callable[[], bool]) -> None:
        """All of them are there."""
        if is_copy():
            self._pipelines.adopt(self._loading)

    async def apply(self, entries: Sequence[StateEntry], is_copy: Callable[[], bool]) -> None:
        """Entries that came since."""
        if entries and is_copy():
            self._pipelines.apply(entries)


def _take_in(reports: dict[str, PipelineReport], entries: Sequence[StateEntry]) -> None:
    for key, value in entries:
        name = key.decode()
        if value is None:
            reports.pop(name, None)
            continue
        try:
            reports[name] = _decode(value)
        except msgspec.DecodeError as error:
            _log.warning("the stored report of pipeline %r is skipped: %s", name, error)


def _unavailable() -> PipelinesUnavailableError:
    return PipelinesUnavailableError("the reports of pipelines could not be stored; try again")
