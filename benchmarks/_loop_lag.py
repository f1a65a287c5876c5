"""How late the event loops of nodes were while something happened.

Brokers started with `WATCHED` in their environment look every 5 ms. The figure comes from the
histogram that each broker shows, so it is the bound of a bucket: at most so late.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks._clusters import ClusterProcesses

LATE_MS: Final = 50.0
"""What no take-over may hold an event loop for."""
AFTERWARDS_S: Final = 2.0
"""What a take-over goes on with when the first question is answered counts too."""
WATCHED: Final = {
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent / "_loop_watch"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
}
_HTTP_S: Final = 5.0
_LAG: Final = re.compile(
    r'^goqueue_process_loop_lag_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', re.MULTILINE
)


class LoopLag:
    """How late the loops of some nodes are from now on."""

    def __init__(self, cluster: ClusterProcesses, nodes: list[int]) -> None:
        self._cluster = cluster
        self._before = {node: self._counts(node) for node in nodes}

    def most_ms(self) -> float:
        """How late the latest of them was until a moment after this call."""
        time.sleep(AFTERWARDS_S)
        return max(self._of(node) for node in self._before) * 1000

    def _of(self, node: int) -> float:
        """The smallest bound that no sample was above, in seconds."""
        before, after = self._before[node], self._counts(node)
        new = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
        return min(bound for bound, count in new.items() if count >= max(new.values()))

    def _counts(self, node: int) -> dict[float, float]:
        url = f"http://127.0.0.1:{self._cluster.http_port_of(node)}/metrics"
        with urllib.request.urlopen(url, timeout=_HTTP_S) as answer:
            text = answer.read().decode()
        return {float(bound): float(count) for bound, count in _LAG.findall(text)}
