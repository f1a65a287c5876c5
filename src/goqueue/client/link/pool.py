"""The connections of one client: by address and lane, each made once however many ask for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from goqueue.client.errors import ConnectionLostError
from goqueue.client.link.opening import open_connection

if TYPE_CHECKING:
    from goqueue.client.link.addresses import Address
    from goqueue.client.link.connection import Connection
    from goqueue.client.settings import ClientSettings

LATE_S: Final = 2.0
"""A broker that has not answered for so long may be paused or cut off, and others are asked."""

T = TypeVar("T")


class ConnectionPool:
    """Connections, made when they are needed."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._open: dict[tuple[Address, str], Connection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[Connection]] = {}
        self.client_ids: Final[dict[str, str]] = {}
        """By lane, where it is not the one of the settings."""

    def any_of(self, lane: str) -> Connection | None:
        """An open connection of a lane, to whichever broker that answers in time."""
        for (_, its_lane), connection in self._open.items():
            if its_lane == lane and connection.is_open and connection.late_s < LATE_S:
                return connection
        return None

    def late(self) -> set[Address]:
        """The brokers that let somebody wait for longer than one that is well would."""
        return {
            address
            for (address, _), connection in self._open.items()
            if connection.is_open and connection.late_s >= LATE_S
        }

    def drop(self, address: Address) -> None:
        """Close the connections to a broker; questions under way fail."""
        for place in [place for place in self._open if place[0] == address]:
            self._open.pop(place).close()

    async def get(self, address: Address, lane: str) -> Connection:
        """The connection of a lane to one address.

        Raises:
            ConnectionLostError: it cannot be made, or is no longer wanted.
            ForeignServerError, LoginError: see `open_connection`.
        """
        place = (address, lane)
        found = self._open.get(place)
        if found is not None and found.is_open:
            return found
        task = self._opening.get(place)
        if task is None:
            task = asyncio.create_task(self._connect(place), name=f"goqueue connects to {address}")
            self._opening[place] = task
            task.add_done_callback(lambda _: self._opening.pop(place, None))
        return await wait_shared(task)

    async def _connect(self, place: tuple[Address, str]) -> Connection:
        address, lane = place
        settings = self._settings
        if lane in self.client_ids:
            settings = replace(settings, client_id=self.client_ids[lane])
        connection = await open_connection(address, settings)
        self._open[place] = connection
        return connection

    def hang_up(self, lane: str) -> None:
        """Close the connections of a lane: nobody will use it any more."""
        for place in [place for place in self._opening if place[1] == lane]:
            self._opening[place].cancel()
        self.client_ids.pop(lane, None)
        for place in [place for place in self._open if place[1] == lane]:
            self._open.pop(place).close()

    async def close(self) -> None:
        """Close every connection; questions under way fail."""
        tasks = list(self._opening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._open.values():
            connection.close()
        self._open.clear()


async def wait_shared(task: asyncio.Task[T]) -> T:
    """Wait for what others wait for too: whoever gives up does not end it for them.

    Raises:
        ConnectionLostError: the task itself was cancelled, because somebody hung up.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if not task.cancelled() or waiting is None or waiting.cancelling():
            raise
        raise ConnectionLostError("the connection was closed here") from None
