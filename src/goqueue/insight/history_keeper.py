"""Keeps the history over a restart: reads its file at the start, and writes it now and then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import StorageError
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.insight.history import History
    from goqueue.insight.history_file import HistoryFile

SAVE_S: Final = 120.0
"""How often the file is written."""

logger = logging.getLogger(__name__)


class HistoryKeeper:
    """Reads the file at the start, and writes it now and then and at the stop."""

    def __init__(self, history: History, file: HistoryFile, executor: Executor) -> None:
        self._history = history
        self._file = file
        self._executor = executor

    async def start(self) -> None:
        """Go on from what was written last, if it can be used."""
        stored = await in_thread(self._executor, self._file.read)
        if stored is not None:
            self._history.restore(stored)

    async def save(self) -> None:
        """Write the file. A disk that refuses is reported, and asked again the next time."""
        stored = self._history.stored()
        try:
            await in_thread(self._executor, lambda: self._file.write(stored))
        except StorageError as error:
            logger.warning("the history of the charts was not written: %s", error)
