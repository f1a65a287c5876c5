"""State that one node keeps and every other one has a copy of, fed by what is committed.

The node that leads the partition writes, and its shard holds the state. The others read the
partition's replica here, or its leader where there is none, and apply what is committed. Whoever
needs what was committed before now asks the leader how far that is, and waits until it is here.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import GoQueueError, OffsetOutOfRangeError
from goqueue.partitions.partition import Isolation
from goqueue.reading.fetch import FetchRequest, PartitionRead
from goqueue.records import decode_rows
from goqueue.records.batch import walk
from goqueue.runtime.shared_work import SharedWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.elsewhere.leaders import Leaders
    from goqueue.reading.fetch import Fetched, Fetcher
    from goqueue.reading.positions import Positions
    from goqueue.reading.stored_messages import Fetches
    from goqueue.state.log import StateEntry

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 256 * 1024
"""Read, and applied, at once."""
_WAIT_MS: Final = 1000
"""How long one read waits for more; a change of the leader ends it sooner."""
_RETRY_S: Final = 0.1
_CATCH_UP_S: Final = 5.0
"""How long a copy may take to have what was committed before it was asked."""


class StateCopy(Protocol):
    """A copy of a state; what it is told may be late, when this node leads already."""

    def begin(self) -> None:
        """A copy is built from the beginning; until it is whole, the one before is read."""

    def replay(self, entries: Sequence[StateEntry]) -> None:
        """Entries of the copy that is built."""

    async def loaded(self, is_copy: Callable[[], bool]) -> None:
        """The copy is whole, and counts from now on, unless this node has begun to lead."""

    async def apply(self, entries: Sequence[StateEntry], is_copy: Callable[[], bool]) -> None:
        """Entries that were committed since, unless this node has begun to lead."""


class FollowedState:
    """Keeps one copy up to date while another node leads its partition."""

    def __init__(
        self,
        place: TopicPartition,
        copy: StateCopy,
        leaders: Leaders,
        fetcher: Fetcher,
        fetches: Fetches,
        *,
        positions: Positions,
    ) -> None:
        """Read replicas here by `fetcher`, and leaders elsewhere by `fetches`."""
        self.place = place
        self._copy = copy
        self._leaders = leaders
        self._fetcher = fetcher
        self._fetches = fetches
        self._positions = positions
        self._applied = -1
        """Everything below is in the copy; -1 while there is none."""
        self._moved = asyncio.Event()
        """Set, and replaced, whenever those who wait should look again."""
        self._following: asyncio.Task[None] | None = None
        self._catching_up = SharedWork(self._catch_up)

    def start(self) -> None:
        """Follow from now on."""
        self._following = asyncio.get_running_loop().create_task(self._follow_on())

    async def stop(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._catching_up.stop()

    @property
    def is_leading(self) -> bool:
        """Whether the state here is no copy."""
        replica = self._leaders.replica(self.place)
        return replica is not None and replica.is_leading

    def _is_copy(self) -> bool:
        return not self.is_leading

    # --- Waiting ---------------------------------------------------------------------------------

    async def reached(self, offset: int) -> None:
        """Return when everything below an offset is in the copy, or this node leads."""
        while self._applied < offset and self._is_copy():
            await self._moved.wait()

    async def caught_up(self) -> None:
        """Return when the copy has everything that was committed before this was called.

        Also when nobody knows how far that is, or the copy does not get on: then it is what it is.
        """
        if not self.is_leading:
            await self._catching_up.done()

    async def _catch_up(self) -> None:
        with suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                await self.reached((await self._positions.ends(self.place)).high_watermark)

    # --- Following -------------------------------------------------------------------------------

    async def _follow_on(self) -> None:
        while True:
            try:
                await self._follow()
            except GoQueueError as error:
                _log.info(
                    "%s: reading records of other nodes failed, retrying: %s", self.place, error
                )
            self._note(-1)
            await asyncio.sleep(_RETRY_S)

    async def _follow(self) -> None:
        """Build a copy and keep it, until this node leads, or the log is not what it was."""
        offset, is_whole = 0, False
        self._copy.begin()
        while self._is_copy():
            found = await self._fetch(offset, _WAIT_MS if is_whole else 0)
            if isinstance(found.error, OffsetOutOfRangeError) and not is_whole:
                offset = max(found.error.log_start, offset + 1)
                continue
            if found.error is not None:
                raise found.error
            entries = list(_entries(found, offset))
            if not self._is_copy():
                return
            if is_whole:
                await self._copy.apply(entries, self._is_copy)
            else:
                self._copy.replay(entries)
                await asyncio.sleep(0)
            offset = found.next_offset
            if not is_whole and offset >= found.high_watermark:
                await self._copy.loaded(self._is_copy)
                is_whole = True
            if is_whole:
                self._note(offset)

    async def _fetch(self, offset: int, wait_ms: int) -> Fetched:
        has_replica = self._leaders.replica(self.place) is not None
        request = FetchRequest(
            [PartitionRead(self.place, offset, _READ_BYTES)],
            wait_ms,
            isolation=Isolation.READ_UNCOMMITTED,
            by_message=True,
            any_replica=has_replica,
        )
        fetches = self._fetcher if has_replica else self._fetches
        (found,) = await fetches.fetch(request)
        return found

    def _note(self, offset: int) -> None:
        self._applied = offset
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _entries(found: Fetched, start: int) -> Iterator[StateEntry]:
    for position, info in walk(found.data):
        if info.is_control:
            continue
        for record in decode_rows(found.data, position, check_crc=False):
            if record.offset >= start and record.key is not None:
                yield record.key, record.value
