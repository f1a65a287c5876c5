"""The root of the tree of errors."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class GoQueueError(Exception):
    """Everything that this product raises on purpose."""

    retriable: ClassVar[bool] = False
    refused: Mapping[int, str] = MappingProxyType({})
    """Of a batch that was refused because of some of its records: why, by their places in it."""

    def of_records(self, refused: Mapping[int, str]) -> Self:
        """The same error, which names the records that it is about."""
        self.refused = dict(refused)
        return self


class InvariantError(GoQueueError):
    """A check of our own state failed: a bug, never a user's mistake."""
