"""How files of tests are shared out among workers; needs pytest-xdist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_SHARED: Final = frozenset({"spark", "browser"})
"""Folders whose tests share what is started once: all of one go to one worker."""
_COMPUTING: Final = frozenset({"unit", "fuzz"})
"""Folders whose tests are many and short; all others wait for processes, sockets and time."""


class FileScheduling(LoadFileScheduling):
    """Files are handed out one by one, those with the most tests first.

    Every other worker begins with those that wait: by their number of tests many would come last,
    all at once, and nothing that computes would be left beside them.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        return folder if folder in _SHARED else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            waiting = (each for each in self.workqueue if _folder(each) not in _COMPUTING)
            if (first := next(waiting, None)) is not None:
                self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)

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


def _folder(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]
