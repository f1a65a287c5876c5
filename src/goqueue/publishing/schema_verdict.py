"""What came of checking a batch against the schemas of its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import SchemaValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.model.errors import BatchError


def refusal(reasons: Mapping[int, str]) -> SchemaValidationError | None:
    """What is said of a batch in which some messages do not fit."""
    if not reasons:
        return None
    first, more = next(iter(reasons.values())), len(reasons) - 1
    said = f"{first} (and {more} more do not fit)" if more else first
    return SchemaValidationError(said, reasons)


class SchemaVerdict(NamedTuple):
    """What came of holding a batch against schemas."""

    error: SchemaValidationError | BatchError | None = None
    """Why it is refused, if it is."""


FITS: Final = SchemaVerdict()
