"""Why a server does not start. Each text is one line for whoever started it: what, and what now."""

from __future__ import annotations

from typing import Final

from goqueue.model.errors import GoQueueError

CANNOT_START: Final = 2
"""The exit code of a server that could not start as it was told to."""
STORE_AWAY: Final = 75
"""The exit code of a broker whose metadata store did not answer: it is started again."""


class StartError(GoQueueError):
    """The server cannot start as it was told to."""


class DataFolderInUseError(StartError):
    """Another process works on the same data folder."""


class ListenError(StartError):
    """An address cannot be listened on."""
