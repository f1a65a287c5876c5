"""The registry of a node that does not write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.schemas.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.schemas.service import Schemas
    from goqueue.state.log import StateEntry


class CopiedRegistry:
    """Feeds the registry of a node with what another one has stored; see `StateCopy`."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._loading = Registry(schemas.registry.engine)

    def begin(self) -> None:
        """Build another registry."""
        self._loading = Registry(self._schemas.registry.engine)

    def replay(self, entries: Sequence[StateEntry]) -> None:
        """Entries of it."""
        self._loading.apply(entries)

    async def loaded(self, is_copy: Callable[[], bool]) -> None:
        """It is whole."""
        async with self._schemas.shard.turn:
            if is_copy():
                self._loading.generation = self._schemas.registry.generation + 1
                self._schemas.registry = self._loading

    async def apply(self, entries: Sequence[StateEntry], is_copy: Callable[[], bool]) -> None:
        """Entries that came since."""
        if not entries:
            return
        async with self._schemas.shard.turn:
            if is_copy():
                self._schemas.registry.apply(entries)
