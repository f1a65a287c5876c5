"""What tenants have used: plain values, added up over nodes and starts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

COUNTED: Final = (
    "published_messages",
    "published_bytes",
    "consumed_messages",
    "consumed_bytes",
)


class Usage(msgspec.Struct):
    """What one tenant has used, since it was made or its usage was reset."""

    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    violations: dict[str, int] = msgspec.field(default_factory=dict)
    """How often each quota was exceeded, by its name."""
    connections: int = 0
    groups: int = 0
    """What there is now, which no reset makes less."""

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return self._combined(other, 1)

    def minus(self, other: Usage) -> Usage:
        """What is more than the other."""
        return self._combined(other, -1)

    def _combined(self, other: Usage, sign: int) -> Usage:
        numbers = {each: getattr(self, each) + sign * getattr(other, each) for each in COUNTED}
        violations: Counter[str] = Counter(self.violations)
        for name, count in other.violations.items():
            violations[name] += sign * count
        kept = {name: count for name, count in violations.items() if count > 0}
        return Usage(
            **{each: max(value, 0) for each, value in numbers.items()},
            violations=kept,
            connections=self.connections + max(sign, 0) * other.connections,
            groups=self.groups + max(sign, 0) * other.groups,
        )


def total(usages: Iterable[Usage]) -> Usage:
    """All of them together."""
    result = Usage()
    for usage in usages:
        result = result.plus(usage)
    return result
