"""What the drivers of Spark pipelines report of themselves, kept for those who look.

The newest report of each pipeline is stored in an internal compacted topic before its driver is
told so, and read back at a start. Nothing in the broker depends on any of it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from goqueue.broker.state_log import StateLog
from goqueue.model import internal_topics
from goqueue.model.errors import (
    PipelinesUnavailableError,
    StorageError,
    TooManyPipelinesError,
    UnknownPipelineError,
)
from goqueue.model.pipeline_reports import PipelineFields, PipelineReport
from goqueue.partitions.partition import PartitionId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.broker import Broker

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

PIPELINES_TOPIC: Final = internal_topics.PIPELINES
PIPELINES: Final = 10
"""The kind of snapshot that holds reports."""
PIPELINES_NAME: Final = "pipelines"
MAX_PIPELINES: Final = 1000
"""A report of one more is refused with `TooManyPipelinesError`; those of others are replaced."""
MAX_REPORT_BYTES: Final = 256 * 1024
LOST_AFTER: Final = 3
"""Intervals without a report, after which a pipeline that should run is said to be lost."""
LOST: Final = "lost"
FAILED: Final = "failed"

_ALIVE: Final = frozenset({"starting", "running"})


_decode: Final = msgspec.json.Decoder(PipelineReport).decode


class Pipelines:
    """Every pipeline that has reported of itself. The topic is made with the first of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._state: StateLog | None = None
        self._reports: dict[str, PipelineReport] = {}
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()
        """Under way; as many as there are requests for them."""
        self._listening_since_ms = 0
        self.generation = 0
        """Counts changes of which pipelines there are, and of their states."""

    async def start(self) -> None:
        """Load what is stored."""
        self._listening_since_ms = self._broker.clock.now_ms()
        if PIPELINES_TOPIC in self._broker.topics.catalogue.by_name:
            self._load()

    async def stop(self) -> None:
        """Keep the reports for the next start."""
        await asyncio.gather(*self._changes, return_exceptions=True)
        if self._state is not None and self._state.partition.log.failure is None:
            self._state.save_snapshot(self._dump())

    # --- Looking ---------------------------------------------------------------------------------

    def all(self) -> list[PipelineReport]:
        """Every report, by name."""
        now_ms = self._broker.clock.now_ms()
        return [self._as_of(self._reports[name], now_ms) for name in sorted(self._reports)]

    def get(self, name: str) -> PipelineReport:
        """One report.

        Raises:
            UnknownPipelineError: there is none.
        """
        report = self._reports.get(name)
        if report is None:
            raise UnknownPipelineError(f"no pipeline {name!r} has reported of itself")
        return self._as_of(report, self._broker.clock.now_ms())

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
        return await self._to_the_end(partial(self._put, name, said))

    async def _put(self, name: str, said: PipelineFields) -> PipelineReport:
        known = self._reports.get(name)
        if known is None and len(self._reports) >= MAX_PIPELINES:
            raise TooManyPipelinesError(
                f"there are {MAX_PIPELINES} pipelines: delete those that are not needed any more"
            )
        fields = {each: getattr(said, each) for each in PipelineFields.__struct_fields__}
        report = PipelineReport(name=name, updated_at=self._broker.clock.now_ms(), **fields)
        await self._store(name, msgspec.json.encode(report))
        self._reports[name] = report
        if known is None or known.state != report.state:
            self.generation += 1
        await self._save_if_due()
        return report

    async def delete(self, name: str) -> None:
        """Forget a pipeline; if it still runs, its next report brings it back.

        Raises:
            UnknownPipelineError: there is none of that name.
            PipelinesUnavailableError: that could not be stored.
        """
        await self._to_the_end(partial(self._delete, name))

    async def _delete(self, name: str) -> None:
        self.get(name)
        await self._store(name, None)
        del self._reports[name]
        self.generation += 1
        await self._save_if_due()

    async def _to_the_end(self, change: Callable[[], Awaitable[_T]]) -> _T:
        """One change after the other, each whole, also when whoever asked is gone meanwhile."""

        async def run() -> _T:
            async with self._changing:
                return await change()

        task = asyncio.create_task(run())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    # --- Storing ---------------------------------------------------------------------------------

    async def _store(self, name: str, value: bytes | None) -> None:
        if self._state is None:
            await self._broker.create_internal_topic(PIPELINES_TOPIC, 1)
            self._load()
        assert self._state is not None
        try:
            await self._state.partition.durable(self._state.append([(name.encode(), value)]))
        except StorageError as error:
            _log.error("the report of pipeline %r could not be stored: %s", name, error)
            raise PipelinesUnavailableError(
                "the reports of pipelines could not be stored; try again"
            ) from error

    def _load(self) -> None:
        broker = self._broker
        self._state = StateLog(
            broker.partitions.partition(PartitionId(PIPELINES_TOPIC, 0)),
            PIPELINES,
            broker.disk,
            broker.clock,
            partial(broker.measures.snapshot_saved, PIPELINES_NAME),
        )
        for key, value in self._state.replay():
            name = key.decode()
            if value is None:
                self._reports.pop(name, None)
                continue
            try:
                self._reports[name] = _decode(value)
            except msgspec.DecodeError as error:
                _log.warning("the stored report of pipeline %r is skipped: %s", name, error)
        self.generation += 1

    async def _save_if_due(self) -> None:
        if self._state is not None and self._state.snapshot_is_due:
            await self._state.save_snapshot_aside(self._dump(), self._broker.executor)

    def _dump(self) -> list[tuple[bytes, bytes | None]]:
        return [
            (name.encode(), msgspec.json.encode(report)) for name, report in self._reports.items()
        ]
