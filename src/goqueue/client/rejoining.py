"""Being a member over one stream after the other, for those who read and those who take."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from grpc import StatusCode, aio

from goqueue.client.errors import from_call, is_lost
from goqueue.model.errors import GoQueueError, UnknownMemberError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.client.channels import Channels

logger = logging.getLogger(__name__)


async def one_session(
    session: Callable[[], Awaitable[None]], channels: Channels, group: str, failures: int
) -> int:
    """Be a member until the stream ends; returns how many sessions in a row have failed.

    Raises:
        GoQueueError: it makes no sense to join again: the group refuses, or the client is closed.
    """
    try:
        await session()
    except aio.AioRpcError as failure:
        told = from_call(failure, channels.address)
        if not _may_join_again(failure, told):
            raise told from failure
        logger.info("group %s is joined again in a moment: %s", group, told)
    except asyncio.InvalidStateError:
        pass
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Only the call was cancelled: somebody has closed the connection.
    else:
        return 0
    return failures + 1


def _may_join_again(failure: aio.AioRpcError, told: GoQueueError) -> bool:
    """The connection was lost, or the group has forgotten the member."""
    fenced = failure.code() is StatusCode.ABORTED or isinstance(told, UnknownMemberError)
    return fenced or is_lost(failure)
