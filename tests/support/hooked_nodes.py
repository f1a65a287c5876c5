"""Steers the brokers that have `support.node_hooks` on their path."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support import node_hooks
from support.cluster_nodes import BROKER
from support.node_hooks.sitecustomize import ARMED, FOLDER, REACHED, RESULT, STACKS

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNode

_STACKS_S: Final = 2.0
"""For so long a broker is given to write down its stacks."""


def hook_environment(folder: Path, number: int) -> dict[str, str]:
    """What a node is started with; its broker is steered through a folder of its own."""
    own = _folder(folder, number)
    own.mkdir(parents=True, exist_ok=True)
    path = [str(Path(node_hooks.__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {FOLDER: str(own.absolute()), "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _folder(folder: Path, number: int) -> Path:
    return folder / f"hooks-{number}"


class StoppedBeforeElections:
    """A broker that stops itself between what it has read and the elections it then sends."""

    def __init__(self, folder: Path, node: ClusterNode) -> None:
        self._folder = _folder(folder, node.number)
        self.disarm()
        (self._folder / ARMED).touch()

    def disarm(self) -> None:
        for name in (ARMED, REACHED, RESULT):
            (self._folder / name).unlink(missing_ok=True)

    @property
    def is_reached(self) -> bool:
        return (self._folder / REACHED).exists()

    @property
    def result(self) -> str:
        """What the store answered in the end: the name of a `TransactionResult`; empty before."""
        with suppress(OSError):
            return (self._folder / RESULT).read_text()
        return ""


def write_stacks(folder: Path, nodes: list[ClusterNode]) -> str:
    """What every broker is doing: the stacks of its threads and tasks."""
    files = {node.number: _folder(folder, node.number) / STACKS for node in nodes}
    for file in files.values():
        file.unlink(missing_ok=True)
    for node in nodes:
        node.send(BROKER, signal.SIGUSR1)
    time.sleep(_STACKS_S)
    return "\n".join(
        f"--- stacks of node {number}\n{file.read_text() if file.exists() else 'none'}"
        for number, file in files.items()
    )
