"""Subscription patterns, in RE2's syntax as Kafka's brokers read them.

RE2 matches in linear time. A backtracking engine would let one member's pattern stop the broker
for every other client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidRegularExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable


def compile_pattern(pattern: str, *, max_chars: int) -> Callable[[str], bool]:
    """A predicate that is true for names which the whole pattern matches.

    Raises:
        InvalidRegularExpressionError: the pattern does not compile, or is too long.
    """
    import re2  # noqa: PLC0415 - a native library, loaded only where patterns are used

    if len(pattern) > max_chars:
        raise InvalidRegularExpressionError(
            f"the pattern has {len(pattern)} characters, {max_chars} are allowed"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise InvalidRegularExpressionError(
            f"the pattern {pattern!r} does not compile as an RE2 expression: {error}"
        ) from error
    return lambda name: compiled.fullmatch(name) is not None
