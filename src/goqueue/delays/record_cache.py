"""The records of messages that fall due soon: read ahead, or kept since they came."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from goqueue.delays.store import DelayStore
    from goqueue.records import Record

_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of messages read ahead; more are read when they are due."""
_AT_ONCE: Final = 2000
_RECORD_BYTES: Final = 400
"""What a record costs beside its bytes, roughly."""


class RecordCache:
    """Records by the ids of their messages."""

    def __init__(self, store: DelayStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._records: dict[int, Record] = {}
        self._size_bytes = 0

    def __contains__(self, delayed_id: int) -> bool:
        return delayed_id in self._records

    def keep(self, delayed_id: int, record: Record) -> None:
        """Hold on to a message that is due before the next reading, while there is room."""
        if self._size_bytes < _MAX_BYTES and delayed_id not in self._records:
            self._records[delayed_id] = record
            self._size_bytes += size_of(record)

    def pop(self, delayed_id: int) -> Record | None:
        """Take out a message, if it is there."""
        record = self._records.pop(delayed_id, None)
        if record is not None:
            self._size_bytes -= size_of(record)
        return record

    async def take(self, ids: list[int]) -> dict[int, Record]:
        """Take out messages; those that are not there are read. What is damaged is missing."""
        found = {each: record for each in ids if (record := self.pop(each)) is not None}
        missing = [each for each in ids if each not in found]
        if missing:
            found |= await in_thread(self._executor, partial(self._store.read, missing))
        return found

    async def read_ahead(self, ids: list[int], is_pending: Callable[[int], bool]) -> None:
        """Have messages at hand, as many as there is room for."""
        for start in range(0, len(ids), _AT_ONCE):
            if self._size_bytes >= _MAX_BYTES:
                return
            read = partial(self._store.read, ids[start : start + _AT_ONCE])
            for delayed_id, record in (await in_thread(self._executor, read)).items():
                if is_pending(delayed_id):
                    self.keep(delayed_id, record)


def size_of(record: Record) -> int:
    """What a record costs in memory, roughly."""
    return len(record.value or b"") + len(record.key or b"") + _RECORD_BYTES
