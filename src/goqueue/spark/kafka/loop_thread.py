"""The event loop of this process, on a thread of its own: Spark's code blocks, the client awaits.

It starts with the first cluster, not with an import: Spark forks its workers, and threads do not
survive a fork.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from goqueue.client.sync.blocking import LoopThread

_threads: Final[dict[int, LoopThread]] = {}
"""By process. What a child has inherited stays here: closing it would reach into its parent."""
_lock: Final = threading.Lock()


def loop_thread() -> LoopThread:
    """The loop of this process."""
    with _lock:
        own = os.getpid()
        if own not in _threads:
            _threads[own] = LoopThread()
        return _threads[own]
