"""Writing to a stream in such a way that it can be ended at any time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grpc.aio import ServicerContext

LAST_WRITE_S: Final = 2.0
"""How long whoever is cancelled waits for its last write: a client that reads takes it at once."""


def whole_writes(context: ServicerContext[Any, Any]) -> Callable[[Any], Awaitable[None]]:
    """`context.write`, of which a cancelled caller hears only when the write is over.

    gRPC knows nothing of cancelled tasks: for it the write goes on, and until it is over neither
    another one nor the status that ends the call can be sent.
    """

    async def write(response: Any) -> None:
        writing = asyncio.ensure_future(context.write(response))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,), timeout=LAST_WRITE_S)
            raise

    return write
