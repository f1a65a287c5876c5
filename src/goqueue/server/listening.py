"""Why an address cannot be listened on, in one line."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from goqueue.server.errors import ListenError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def listening(name: str, host: str, port: int) -> AsyncIterator[None]:
    """Say in one line why an address cannot be listened on."""
    try:
        yield
    except OSError as error:
        address = f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            text = f"{address} is in use by another process: stop it, or choose another port"
        elif error.errno == errno.EACCES:
            text = f"{address} may not be used by this user: choose a port above 1023"
        else:
            text = f"{address} cannot be listened on: {error.strerror or error}"
        raise ListenError(f"{name}: {text}") from error
