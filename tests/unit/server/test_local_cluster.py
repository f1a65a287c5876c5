"""When a process of a local cluster has ended: its ports are free from then on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from goqueue.server.supervision.local_cluster import is_running
from support.waiting import eventually

# The first thread ends, the second one waits for the end of the input.
HALF_ENDED = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
print("begun", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_runs_until_the_last_of_its_threads_has_ended() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HALF_ENDED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        stat = Path(f"/proc/{child.pid}/stat")
        eventually(lambda: ") Z " in stat.read_text(), "its first thread has ended", 60)
        assert is_running(child.pid)
        child.kill()
        eventually(lambda: not is_running(child.pid), "all have", 60)
