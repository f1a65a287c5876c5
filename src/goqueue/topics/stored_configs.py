"""Settings that were given at run time, by what they are for, in the metadata store.

The view in memory is replaced as a whole, after the store has it. In a cluster it follows the
store, so that what is set by way of one node holds on all.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Delete,
    Entry,
    MetadataStore,
    Put,
    Revision,
)
from goqueue.model.errors import InvalidTopicConfigError, MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.cluster.view_keeper import ViewKeeper


_MAX_STORED_CONFIGS: Final = 100_000
"""Resources of one kind with settings of their own; a further one is refused."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class StoredConfigs:
    """The settings of every resource of one kind."""

    def __init__(self, store: MetadataStore, prefix: str, keeper: ViewKeeper | None = None) -> None:
        """Follow the store by `keeper`, where other nodes change it, too."""
        self._store = store
        self._prefix = prefix
        self._keeper = keeper
        self.on_change: Callable[[], None] | None = None
        """Told that another node, or this one, has changed something in the cluster."""
        self._configs: Mapping[str, Mapping[str, str]] = {}
        self._revisions: dict[str, Revision] = {}

    async def load(self) -> None:
        """Read them from the metadata store."""
        if self._keeper is not None:
            self._keeper.mirror(self._prefix, self._take)
            return
        snapshot = await self._store.range(self._prefix)
        self._take({entry.key: entry for entry in snapshot.entries})

    def _take(self, entries: Mapping[str, Entry]) -> None:
        names = {key.removeprefix(self._prefix): entry for key, entry in entries.items()}
        self._configs = {
            name: MappingProxyType(msgspec.msgpack.decode(entry.value, type=dict[str, str]))
            for name, entry in names.items()
        }
        self._revisions = {name: entry.revision for name, entry in names.items()}
        if self.on_change is not None:
            self.on_change()

    @property
    def names(self) -> list[str]:
        """The resources that have settings of their own."""
        return list(self._configs)

    def of(self, name: str) -> Mapping[str, str]:
        """What was set for one resource."""
        return self._configs.get(name, _NOTHING)

    async def replace(self, name: str, overrides: Mapping[str, str]) -> None:
        """Let one resource have these settings and no others; returns when that is stored.

        Raises:
            InvalidTopicConfigError: there are too many resources with settings.
            MetadataUnavailableError: somebody else was changing them.
        """
        if overrides and name not in self._configs and len(self._configs) >= _MAX_STORED_CONFIGS:
            raise InvalidTopicConfigError(
                f"{len(self._configs)} resources have settings of their own already, expected at "
                f"most {_MAX_STORED_CONFIGS}: take some back to their defaults first"
            )
        if not overrides and name not in self._configs:
            return
        key = self._prefix + name
        value = msgspec.msgpack.encode(dict(overrides))
        operation = Put(key, value) if overrides else Delete(key)
        condition = Condition(key, self._revisions.get(name, ABSENT))
        result = await self._store.transact([condition], [operation])
        if not isinstance(result, Committed):
            raise MetadataUnavailableError(
                f"the settings of {name!r} could not be changed because they were changing "
                "already; try again"
            )
        if self._keeper is not None:
            await self._keeper.written(result.revision)
            return
        others = {key: value for key, value in self._configs.items() if key != name}
        if overrides:
            self._configs = {**others, name: MappingProxyType(dict(overrides))}
            self._revisions[name] = result.revision
        else:
            self._configs = others
            self._revisions.pop(name, None)
