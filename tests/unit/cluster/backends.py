"""The metadata stores that the same tests run over."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.cluster.etcd.client import Timing
from goqueue.cluster.etcd.store import EtcdMetadataStore
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from goqueue.cluster.metadata import MetadataStore, Revision

UNHURRIED: Final = Timing(attempt_s=30, call_s=60)
"""For tests that are not about time: a busy machine is no reason to fail."""
_numbers: Final = itertools.count()


class Backend(Protocol):
    """Opens one store again and again, each time on what was there."""

    many: int
    """More transactions than a watcher is handed at a time."""

    def opened(
        self, clock: ManualClock | None = None
    ) -> AbstractAsyncContextManager[MetadataStore]:
        """The store, closed afterwards."""


class SqliteBackend:
    """A file."""

    many = 2500

    def __init__(self, folder: Path) -> None:
        self._path = folder / "metadata.db"

    @asynccontextmanager
    async def opened(self, clock: ManualClock | None = None) -> AsyncIterator[MetadataStore]:
        store = await SqliteMetadataStore.open(
            self._path, disk=SystemDisk(), clock=clock or ManualClock()
        )
        try:
            yield store
        finally:
            await store.close()


class EtcdBackend:
    """Keys under a prefix of their own in a real etcd that others use, too."""

    many = 1200

    def __init__(self, endpoints: list[str]) -> None:
        self._endpoints = endpoints
        self._prefix = f"test-{next(_numbers)}/"

    def store(self, clock: ManualClock) -> EtcdMetadataStore:
        return EtcdMetadataStore(
            self._endpoints, clock=clock, prefix=self._prefix, timing=UNHURRIED
        )

    @asynccontextmanager
    async def opened(self, clock: ManualClock | None = None) -> AsyncIterator[MetadataStore]:
        store = self.store(clock or ManualClock())
        try:
            yield store
        finally:
            await store.close()


async def newest(store: MetadataStore) -> Revision:
    """The revision of a store before a test has changed anything."""
    return (await store.range("")).revision
