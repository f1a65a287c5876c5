"""Tells the broker how a run goes: its report for the console, its offsets as groups.

Both go from a thread of their own with short patience: a broker that is slow or away is told later,
and the run never waits for it. Only the newest state is kept, so there is nothing to pile up.
"""

from __future__ import annotations

import logging
import threading
import urllib.error
import urllib.parse
from typing import TYPE_CHECKING, Final

from goqueue.spark import clock
from goqueue.spark.http_client import Http
from goqueue.spark.kafka.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.kafka.settings import LinkSettings
    from goqueue.spark.monitoring.progress import RunProgress

_log = logging.getLogger(__name__)

EVERY_S: Final = 3.0
"""Between two reports, unless something begins or ends."""
_ALIVE_S: Final = 8.0
"""After so long the same is said once more: the driver is there, though nothing happens."""
_PATIENCE_S: Final = 3.0
_LAST_WORD_S: Final = 6.0
"""How long the end of a run waits for the last report to arrive."""


class Reporter:
    """Publishes the newest progress of a run, now and then."""

    def __init__(self, link: LinkSettings, http: str | None) -> None:
        self._cluster = Cluster(link.within(min(link.patience_s, _PATIENCE_S)))
        self._http = http
        self._changed = threading.Condition()
        self._progress: RunProgress | None = None
        self._offsets: Mapping[str, Mapping[TopicPartition, int]] = {}
        self._is_closing = False
        self._sent: RunProgress | None = None
        self._sent_at = 0.0
        self._told: dict[str, Mapping[TopicPartition, int]] = {}
        self._is_complaining = False
        self._thread = threading.Thread(target=self._work, name="goqueue-reporter", daemon=True)
        self._thread.start()

    def tell(
        self,
        progress: RunProgress,
        offsets: Mapping[str, Mapping[TopicPartition, int]] | None = None,
    ) -> None:
        """Remember this to be published; returns at once.

        Args:
            progress: The run as it is now.
            offsets: How far each group is.
        """
        with self._changed:
            self._progress = progress
            self._offsets = offsets or self._offsets
            self._changed.notify()

    def close(self, *, wait: bool = True) -> None:
        """Publish what was told last, and end; waits a few seconds for it at most."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if wait:
            self._thread.join(_LAST_WORD_S)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_due, EVERY_S)
                progress, offsets, is_closing = self._progress, self._offsets, self._is_closing
            is_old = clock.monotonic_s() - self._sent_at >= _ALIVE_S
            if progress is not None and (progress is not self._sent or is_closing or is_old):
                self._commit(offsets)
                self._publish(progress)
                self._sent, self._sent_at = progress, clock.monotonic_s()
            if is_closing:
                self._cluster.close()
                return

    def _is_due(self) -> bool:
        sent = self._sent
        if self._is_closing:
            return True
        if self._progress is None or self._progress is sent:
            return False
        if sent is None or _states(sent) != _states(self._progress):
            return True
        return clock.monotonic_s() - self._sent_at >= EVERY_S

    def _commit(self, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        for group, places in offsets.items():
            if not places or self._told.get(group) == places:
                continue
            try:
                self._cluster.commit(group, places)
            except Exception as error:  # noqa: BLE001 - what is shown must never stop what is done
                self._complain(f"the offsets of group {group} were not stored: {error}")
                return
            self._told[group] = dict(places)

    def _publish(self, progress: RunProgress) -> None:
        if self._http is None:
            return
        path = f"/pipelines/{urllib.parse.quote(progress.name, safe='')}"
        try:
            Http(self._http).ask(path, progress.as_dict(), method="PUT", timeout_s=_PATIENCE_S)
        except urllib.error.HTTPError as error:
            with error:
                self._complain(f"the broker refused the report: {error}")
        except OSError as error:
            self._complain(f"the report was not delivered: {error}")
        else:
            self._is_complaining = False

    def _complain(self, text: str) -> None:
        """Once, until it works again: a broker that is away is no news every three seconds."""
        level = logging.DEBUG if self._is_complaining else logging.WARNING
        self._is_complaining = True
        _log.log(level, "%s", text)


def _states(progress: RunProgress) -> tuple[str, ...]:
    return (progress.state, *(each.state for each in progress.queries))
