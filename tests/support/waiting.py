"""Waiting for what nobody tells of, for as long as a busy machine takes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S: Final = 90.0


def eventually(look: Callable[[], Any], what: str = "it", timeout_s: float = WAIT_S) -> Any:
    """What `look` returns once that is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)
    return found


async def until(condition: Callable[[], object]) -> None:
    """Give the event loop turns until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
