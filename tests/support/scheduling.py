"""How many workers of pytest-xdist there are, and which of them runs which tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores: many tests wait, for processes, sockets and time itself."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Files are handed out as `FileScheduling` says."""
    if config.getvalue("dist") != "loadfile":
        return None
    from support.file_scheduling import FileScheduling  # noqa: PLC0415 - needs pytest-xdist

    return FileScheduling(config, log)
