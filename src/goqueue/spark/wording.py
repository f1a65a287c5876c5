"""Parts of sentences about what somebody wrote: what was probably meant, and values in quotes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 60


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: what was probably meant."""
    by_fold = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_fold, 1, cutoff=0.6)
    return f"; did you mean {by_fold[found[0]]}?" if found else ""


def shown(text: str) -> str:
    """A value in a sentence: short, in quotes."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
