"""Records of one kind in the metadata store: read once, changed there first, followed in a cluster.

The view in memory is replaced as a whole, after the store has the change.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Delete,
    Entry,
    MetadataStore,
    Operation,
    Put,
    Revision,
)
from goqueue.model.errors import (
    CorruptMetadataError,
    MetadataUnavailableError,
    TooManyCredentialsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.cluster.view_keeper import ViewKeeper

_T = TypeVar("_T", bound=msgspec.Struct)


class StoredRecords(Generic[_T]):
    """The records under one prefix, by their names."""

    def __init__(
        self,
        store: MetadataStore,
        prefix: str,
        kind: type[_T],
        *,
        limit: int,
        keeper: ViewKeeper | None = None,
    ) -> None:
        """Hold at most `limit`; in a cluster `keeper` tells what other nodes change."""
        self._store = store
        self._prefix = prefix
        self._kind = kind
        self._limit = limit
        self._keeper = keeper
        self._revisions: Mapping[str, Revision] = {}
        self.all: Mapping[str, _T] = MappingProxyType({})
        """Every record by its name."""
        self.on_change: Callable[[], None] | None = None
        """Called after a node of the cluster, or this one, has changed something."""

    async def load(self) -> None:
        """Read what is stored."""
        if self._keeper is not None:
            self._keeper.mirror(self._prefix, self._take)
            return
        snapshot = await self._store.range(self._prefix)
        self._take({entry.key: entry for entry in snapshot.entries})

    def _take(self, entries: Mapping[str, Entry]) -> None:
        found = {
            key.removeprefix(self._prefix): self._decode(entry.value, key)
            for key, entry in entries.items()
        }
        self._revisions = {
            key.removeprefix(self._prefix): entry.revision for key, entry in entries.items()
        }
        self._show(found)

    def _decode(self, value: bytes, key: str) -> _T:
        try:
            return msgspec.msgpack.decode(value, type=self._kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptMetadataError(
                f"the metadata under {key!r} is no {self._kind.__name__}: {error}"
            ) from error

    def _show(self, records: Mapping[str, _T]) -> None:
        self.all = MappingProxyType(dict(records))
        if self.on_change is not None:
            self.on_change()

    async def change(self, changes: Mapping[str, _T | None]) -> None:
        """Write records, or remove them (None): all of them or none; returns when it is durable.

        Raises:
            TooManyCredentialsError: there would be more than the limit.
            MetadataUnavailableError: somebody else changed one of them at the same time.
        """
        new = sum(record is not None and name not in self.all for name, record in changes.items())
        if new and len(self.all) + new > self._limit:
            raise TooManyCredentialsError(
                f"there are {len(self.all)} entries under {self._prefix!r}, expected at most "
                f"{self._limit}: delete some first"
            )
        operations: list[Operation] = []
        conditions = []
        for name, record in changes.items():
            key = self._prefix + name
            conditions.append(Condition(key, self._revisions.get(name, ABSENT)))
            operations.append(
                Delete(key) if record is None else Put(key, msgspec.msgpack.encode(record))
            )
        result = await self._store.transact(conditions, operations)
        if not isinstance(result, Committed):
            raise MetadataUnavailableError(
                f"{', '.join(changes)} could not be changed, because somebody else was changing "
                "the same; try again"
            )
        if self._keeper is not None:
            await self._keeper.written(result.revision)
            return
        self._changed_alone(changes, result.revision)

    def _changed_alone(self, changes: Mapping[str, _T | None], revision: Revision) -> None:
        records = {name: each for name, each in self.all.items() if name not in changes}
        revisions = {name: each for name, each in self._revisions.items() if name not in changes}
        for name, record in changes.items():
            if record is not None:
                records[name] = record
                revisions[name] = revision
        self._revisions = revisions
        self._show(records)
