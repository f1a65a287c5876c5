"""Telling the other nodes that something has changed, and waiting until they have seen it.

So whoever is told that something is stored finds it on every node that is alive. One that does not
answer in time is not waited for: it asks before it says that something does not exist.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from goqueue.cluster.metadata import Revision
from goqueue.model.errors import GoQueueError, MetadataUnavailableError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.state.followed import FollowedState
    from goqueue.topics.routes import Routes

_SPREAD_S: Final = 1.0
"""How long the others have."""


class Spreading:
    """Lets other nodes have what was changed here."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def spread(self, topic: str, end_offset: int) -> None:
        """Return when the copies of a topic have everything below an offset, or after a second."""
        await self._ask_all(ApiKey.STATE_APPLIED, topic=topic, end_offset=end_offset)

    async def spread_view(self, revision: int) -> None:
        """Return when the views of the metadata have a revision, or after a second."""
        await self._ask_all(ApiKey.VIEW_REACHED, revision=revision)

    async def _ask_all(self, api: ApiKey, **fields: Any) -> None:
        others = self._routes.others()
        asking = [asyncio.ensure_future(self._ask(each, api, fields)) for each in others]
        if not asking:
            return
        _, late = await asyncio.wait(asking, timeout=_SPREAD_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, node_id: int, api: ApiKey, fields: dict[str, Any]) -> None:
        with suppress(GoQueueError):  # it is away
            await self._routes.peers.ask(node_id, api, 0, wait_s=_SPREAD_S, **fields)


async def reached(keeper: ViewKeeper | None, revision: int) -> bool:
    """Whether the view of this node has a revision, within a second."""
    if keeper is None:
        return False
    try:
        async with asyncio.timeout(_SPREAD_S):
            await keeper.reached(Revision(revision))
    except (TimeoutError, MetadataUnavailableError):
        return False
    return True


async def applied(copies: Mapping[str, FollowedState], topic: str, end_offset: int) -> bool:
    """Whether the copy of a topic on this node has everything below an offset, within a second."""
    copy = copies.get(topic)
    if copy is None:
        return False
    try:
        async with asyncio.timeout(_SPREAD_S):
            await copy.reached(end_offset)
    except TimeoutError:
        return False
    return True
