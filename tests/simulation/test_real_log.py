"""The same with the log of `storage` under the cores, on a disk that forgets what is not synced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulation.faults import run
from simulation.real_log import RealLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.cluster.records import PartitionKey

SEEDS = 20
SLOW_SEEDS = 400


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the machine has one: the logs are opened hundreds of times."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    import tempfile  # noqa: PLC0415 - only here

    with tempfile.TemporaryDirectory(dir=memory, prefix="goqueue-simulation-") as made:
        yield Path(made)


def run_on_disk(seed: int, folder: Path) -> None:
    def new_log(node_id: int, key: PartitionKey) -> RealLog:
        return RealLog(folder / f"{seed}-{node_id}-{key.partition}", seed * 10 + node_id)

    run(seed, log_factory=new_log)


@pytest.mark.parametrize("first", range(0, SEEDS, 5))
def test_logs_on_disks_keep_what_is_committed(folder: Path, first: int) -> None:
    for seed in range(first, first + 5):
        run_on_disk(seed, folder)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SLOW_SEEDS, 20))
def test_logs_on_disks_keep_what_is_committed_for_many_seeds(folder: Path, first: int) -> None:
    for seed in range(first, first + 20):
        run_on_disk(seed, folder)
