"""Rules that make the name of a principal from the subject of a certificate or from a claim.

The syntax is Kafka's `ssl.principal.mapping.rules`: `RULE:pattern/replacement/` with `L` or `U`
after it for lower or upper case, and `DEFAULT` for the text as it is. The first rule whose pattern
matches the whole text counts; `$1` is what its first group matched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])+)/((?:\\.|[^\\/])*)/([LU]?)")
_DEFAULT: Final = re.compile(DEFAULT)
_REFERENCE: Final = re.compile(r"\$(\d)")


class NameRule(msgspec.Struct, frozen=True):
    """One rule; without a pattern it takes the text as it is."""

    pattern: str | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, text: str) -> str | None:
        """The name, or None when the rule does not match."""
        if self.pattern is None:
            return text
        match = re.fullmatch(self.pattern, text)
        if match is None:
            return None
        name = _REFERENCE.sub(lambda found: _group(match, int(found[1])), self.replacement)
        if self.case:
            name = name.lower() if self.case == "L" else name.upper()
        return name.strip()


def _group(match: re.Match[str], number: int) -> str:
    return (match[number] or "") if number <= (match.re.groups) else ""


def split_rules(text: str) -> tuple[str, ...]:
    """The rules of one text, with commas between them; patterns have commas, too.

    Raises:
        ValueError: there is something else in it, with that.
    """
    found, rest = [], text.strip()
    while rest:
        match = _RULE.match(rest) or _DEFAULT.match(rest)
        if match is None:
            raise ValueError(rest)
        found.append(match[0])
        rest = rest[match.end() :].lstrip()
        if rest and not rest.startswith(","):
            raise ValueError(rest)
        rest = rest[1:].lstrip()
    return tuple(found)


def parse_rules(texts: Iterable[str]) -> tuple[NameRule, ...]:
    """Rules out of their texts.

    Raises:
        ValueError: one of them is none, with that text.
    """
    return tuple(_parse(text.strip()) for text in texts)


def _parse(text: str) -> NameRule:
    if text == DEFAULT:
        return NameRule()
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    pattern, replacement, case = match.groups()
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(text) from error
    return NameRule(pattern, replacement, case)


def map_name(rules: Sequence[NameRule], text: str) -> str | None:
    """The name that the first matching rule makes; None when none matches."""
    for rule in rules:
        name = rule.apply(text)
        if name is not None:
            return name or None
    return None


_ATTRIBUTES: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """The subject of a certificate, as `ssl` tells it, in the form of RFC 2253."""
    parts = [
        "+".join(f"{_ATTRIBUTES.get(kind, kind)}={_escaped(value)}" for kind, value in part)
        for part in subject
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text
