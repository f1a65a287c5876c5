"""A node with another secret than its cluster's is told so before it takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.cluster.secret_check import SECRET_KEY, check_secret
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import ClusterMismatchError
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"known to every node of it"


@scenario
async def test_the_first_secret_is_the_clusters_and_others_are_refused(tmp_path: Path) -> None:
    store = await SqliteMetadataStore.open(
        tmp_path / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    try:
        for _ in range(2):
            await check_secret(store, SECRET, "a file")
        with pytest.raises(ClusterMismatchError, match="the secret in /etc/other is not that of"):
            await check_secret(store, b"known to nobody else", "/etc/other")
        entry = await store.get(SECRET_KEY)
        assert entry is not None
        assert SECRET not in entry.value
    finally:
        await store.close()
