from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.replicating import replicating
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        yield Path(made)


@scenario
async def test_what_a_leader_appends_is_on_every_replica_byte_for_byte(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        for number in range(20):
            placed = cluster[1].publish(b"%d" % number, b"b")
            await asyncio.wait_for(asyncio.ensure_future(leader.committed(placed.end_offset)), 10)
        await cluster.committed(40)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()
