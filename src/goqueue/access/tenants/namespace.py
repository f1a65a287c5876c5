"""The names of one tenant: bare to its clients, `tenant.name` inside and for administrators.

Pure: from a name to a name. Topics, groups, transactional ids and schema subjects are all named so.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from goqueue.model.errors import InvariantError

_SEPARATOR: Final = "."


class Namespace:
    """Takes names in and out of the namespace of one tenant."""

    __slots__ = ("_pattern_start", "prefix", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.prefix = tenant + _SEPARATOR
        self._pattern_start = tenant + r"\.(?:"

    def inside(self, name: str) -> str:
        """The name inside, of one that a client has sent. No name at all stays none."""
        return self.prefix + name if name else name

    def outside(self, name: str) -> str:
        """The name that a client is shown, of one inside.

        Raises:
            InvariantError: it is another tenant's, and would have been shown.
        """
        if not name:
            return name
        if not name.startswith(self.prefix):
            raise InvariantError(f"{name!r} is not in the namespace of tenant {self.tenant!r}")
        return name[len(self.prefix) :]

    def text_outside(self, text: str) -> str:
        """A text for people, such as an error, with quoted names as a client knows them."""
        return text.replace(f"'{self.prefix}", "'").replace(f'"{self.prefix}', '"')

    def pattern_inside(self, pattern: str) -> str:
        """A pattern (RE2) that matches the names inside of those that the given one matches whole.

        The given pattern must compile: one with a parenthesis too many would end ours.
        """
        if not pattern:
            return pattern
        kept, is_quoted = _without_anchors(pattern)
        return self._pattern_start + kept + (r"\E)" if is_quoted else ")")

    def pattern_outside(self, pattern: str) -> str:
        """What a client has sent, but for its anchors, of a pattern inside."""
        if not (pattern.startswith(self._pattern_start) and pattern.endswith(")")):
            return pattern
        return pattern[len(self._pattern_start) : -1]


@cache
def namespace_of(tenant: str) -> Namespace:
    """The one of a tenant; as many are kept as there are tenants."""
    return Namespace(tenant)


def _without_anchors(pattern: str) -> tuple[str, bool]:
    r"""A pattern without `^` and `\A`, and whether it ends inside `\Q`.

    The whole name is matched anyway, and behind the tenant's id no text begins.
    """
    kept: list[str] = []
    at, class_at, is_quoted = 0, -1, False
    while at < len(pattern):
        size = 2 if pattern[at] == "\\" else 1
        part = pattern[at : at + size]
        if is_quoted:
            part, size = (part, size) if part == r"\E" else (pattern[at], 1)
            is_quoted = part != r"\E"
        elif class_at >= 0:
            if part == "]" and at > class_at:
                class_at = -1
            elif pattern.startswith("[:", at) and (stop := pattern.find(":]", at)) > 0:
                part, size = pattern[at : stop + 2], stop + 2 - at
        elif part == r"\Q":
            is_quoted = True
        elif part == "[":
            # A bracket that closes a class is not its first character, also behind a `^`.
            class_at = at + 2 if pattern.startswith("^", at + 1) else at + 1
        elif part in {"^", r"\A"}:
            part = "(?:)"  # and not nothing, which cannot be repeated
        kept.append(part)
        at += size
    return "".join(kept), is_quoted
