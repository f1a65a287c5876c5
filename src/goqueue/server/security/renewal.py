"""Certificates that are renewed on the disk: looked at now and then, and when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.metrics import security_names as names
from goqueue.runtime.tasks import PeriodicTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.broker import Broker
    from goqueue.metrics.registry import Samples

_STOP_S: Final = 10.0


class WatchedFiles(Protocol):
    """The files of one certificate."""

    failure: str | None
    """Why files that have changed are not in use; those before them are."""
    reload_count: int
    failure_count: int

    async def reload(self) -> None:
        """Load the files if they have changed; those that do not load change nothing."""


class Renewal:
    """All certificates of a node."""

    def __init__(
        self,
        interval_s: float,
        started: Callable[[str, Callable[[], Awaitable[None]], float], None],
    ) -> None:
        self._interval_s = interval_s
        self._started = started
        self._watched: list[WatchedFiles] = []

    def watch(self, files: WatchedFiles | None) -> None:
        """Look at these files from now on; None is no certificate."""
        if files is None:
            return
        self._watched.append(files)
        passes = PeriodicTasks()
        passes.start("TLS certificates", self._interval_s, files.reload)
        self._started("TLS certificates", passes.stop, _STOP_S)

    async def now(self) -> None:
        """Look at all files now."""
        for each in self._watched:
            await each.reload()

    def tell(self, broker: Broker) -> None:
        """Let metrics and the console know."""
        broker.metrics.add_source(self._put)
        if self._watched:
            broker.troubles["A TLS certificate was not renewed"] = self._failure

    def _put(self, samples: Samples) -> None:
        for each in self._watched:
            samples.put(names.TLS_RELOADS, each.reload_count, "success")
            samples.put(names.TLS_RELOADS, each.failure_count, "failure")
        samples.put(names.TLS_STALE, self._failure() is not None)

    def _failure(self) -> str | None:
        return next((each.failure for each in self._watched if each.failure is not None), None)
