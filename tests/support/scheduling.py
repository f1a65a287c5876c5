"""Which worker of pytest-xdist runs which tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling
    from xdist.workermanage import WorkerController


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
            return _shared(nodeid) or super()._split_scope(nodeid)

        def remove_node(self, node: WorkerController) -> str | None:
            """The test in which a worker died has failed: it is not run again, the others are."""
            crashed = super().remove_node(node)
            for scope, tests in list(self.workqueue.items()):
                if crashed in tests:
                    tests[crashed] = True
                if all(tests.values()):
                    del self.workqueue[scope]
            return crashed

        def _reschedule(self, node: WorkerController) -> None:
            """A worker that replaces one that died gets nothing before it knows the tests.

            Two that die at once ended the whole run: the first to be replaced asked for both.
            """
            if node in self.registered_collections:
                super()._reschedule(node)

    return OneOfEach(config, log)


def _shared(nodeid: str) -> str:
    """What the tests of a folder share."""
    folder = nodeid.removeprefix("tests/").partition("/")[0]
    return folder if folder in {"spark", "browser"} else ""
