"""Tests that are coroutines: each runs in an event loop of its own, for a bounded time."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_SCENARIO_S: Final = 60.0


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine function."""

    @wraps(test)
    def run(*arguments: object, **named: object) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), _SCENARIO_S))

    return run
