"""Secrets removed from texts and data: known ones by their value, others by their name or form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK: Final = "********"
_LEAST_CHARS: Final = 4
"""A shorter value is not looked for everywhere: it would mask parts of words."""

_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|api[_.-]?key|root[_.-]?key|private[_.-]?key|credential"
    r"|jaas|authorization|cookie|signature",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(r"(?:_file|_path|file|_ms|_s|_count|_bytes|_total)$", re.IGNORECASE)
"""Ends of names that say where a secret is, or how many there are, and not what it is."""

_PATTERNS: Final = (
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    re.compile(r"\bgq_[A-Za-z0-9_-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"\bAKIA[0-9A-Z]{12,}"),
)
_AFTER: Final = (
    re.compile(r"(?P<before>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~-]{4,}", re.IGNORECASE),
    re.compile(r"(?P<before>://[^/\s:@]*:)[^@\s/]+(?=@)"),
    re.compile(
        rf"(?P<before>[\w.-]*(?:{_NAME.pattern})[\w.-]*[\"']?\s*[=:]\s*)"
        r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&}]+)",
        re.IGNORECASE,
    ),
)


class Redactor:
    """Removes secrets, and counts how often it did."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {each for each in secrets if len(each) >= _LEAST_CHARS}
        longest_first = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if known else None
        self.count = 0

    def text(self, text: str) -> str:
        """A text without its secrets."""
        if self._known is not None:
            text = self._replace(self._known, MASK, text)
        for pattern in _PATTERNS:
            text = self._replace(pattern, MASK, text)
        for pattern in _AFTER:
            text = self._replace(pattern, rf"\g<before>{MASK}", text)
        return text

    def data(self, data: Any, name: str = "") -> Any:
        """The same data, with masked values of fields that are named like secrets."""
        if isinstance(data, Mapping):
            return {self.text(str(key)): self.data(value, str(key)) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(each, name) for each in data]
        if isinstance(data, str) and data and is_secret_name(name):
            self.count += data != MASK
            return MASK
        return self.text(data) if isinstance(data, str) else data

    def _replace(self, pattern: re.Pattern[str], by: str, text: str) -> str:
        replaced, count = pattern.subn(by, text)
        self.count += count
        return replaced


def is_secret_name(name: str) -> bool:
    """Whether what is called so is a secret itself."""
    return bool(_NAME.search(name)) and not _HARMLESS.search(name)
