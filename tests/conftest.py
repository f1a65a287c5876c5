"""What holds for every test: those that need Spark share one, also when tests run in parallel.

The same holds for those that need a browser.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from support.flaky import pytest_terminal_summary

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

__all__ = ["pytest_terminal_summary"]

# Property tests have no deadline, and data may take as long as it takes to make: a busy machine is
# no reason to fail.
settings.register_profile(
    "unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores: many tests wait, for processes, sockets and time itself."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Files are handed out one by one, but those with Spark go to one worker: it starts once.

    So do those with a browser.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only where it is installed

    class OneOfEach(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            for shared in ("spark", "browser"):
                if nodeid.startswith(f"tests/{shared}/"):
                    return shared
            return super()._split_scope(nodeid)

    return OneOfEach(config, log)
