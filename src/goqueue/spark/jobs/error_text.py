"""One text for one cause: error messages without what differs from message to message."""

from __future__ import annotations

import re
from typing import Final

_MAX_CHARACTERS: Final = 300
"""Of a normalised error; what follows rarely tells causes apart, and always costs."""

_TOKENS: Final = re.compile(
    r"""
      (?P<keep>\b(?:http|status|code|errno)(?:/\d(?:\.\d)?)?[\s:=_-]{0,3}\d{1,3}\b)
    | (?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)
    | (?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)
    | (?P<text>(?<!\w)'[^'\n]*'(?!\w) | (?<!\w)"[^"\n]*"(?!\w) | `[^`\n]*`)
    | (?P<hex>\b0x[0-9a-f]+\b | \b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}\b)
    | (?P<n>[0-9]+(?:[.,:][0-9]+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What differs: each kind has a name, which is put in its place. Names hold neither digits nor
quotes, so that nothing is found in them again. A status code is part of the cause, and stays."""
_SPACES: Final = re.compile(r"\s+")


def normalised(error: str | None) -> str:
    """An error with its numbers, ids, times, hexadecimals and quoted texts replaced by their kind.

    Normalising twice is normalising once: what a report shows can be given back as a filter.
    """
    text = (error or "")[: _MAX_CHARACTERS * 4]
    while True:
        # What is put in changes what stands beside it, and so does the cut. Each round that changes
        # anything has fewer digits and quotes than the one before, or is shorter: this ends.
        found = _SPACES.sub(" ", _TOKENS.sub(_kind, text))[:_MAX_CHARACTERS].strip()
        if found == text:
            return found
        text = found


def _kind(match: re.Match[str]) -> str:
    kind = match.lastgroup
    return match[0] if kind == "keep" else f"<{kind}>"
