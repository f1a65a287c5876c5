"""Processes that were started in a session of their own, with all that they have started since."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def kill_session(leader: int) -> None:
    """`kill -9` for a driver, its JVM and its workers: whatever is in the session that it leads."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getsid(int(folder.name)) == leader:
                    os.kill(int(folder.name), signal.SIGKILL)
            except ProcessLookupError:
                pass
