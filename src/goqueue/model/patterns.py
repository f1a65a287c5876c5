"""Patterns that clients give, in RE2's syntax as Kafka's brokers read it.

RE2 matches in time that is linear in the text. A backtracking engine, such as Python's `re`, would
let one client's pattern stop the broker for every other client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import InvalidRegularExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PROGRAM: Final = 2000
"""Instructions that a pattern may compile to; `(a{1,100}){1,100}` has more, and is refused. Each
character of a text can cost as many steps."""

_MAX_MEMORY_BYTES: Final = 256 * 1024
"""For the states of one pattern. Beyond it RE2 goes on without them, which is sooner done than to
build states that are never met again."""


def whole_match(pattern: str, *, max_chars: int) -> Callable[[str], bool]:
    """A predicate that is true for texts which the whole pattern matches.

    Raises:
        InvalidRegularExpressionError: the pattern does not compile, or is too large.
    """
    if len(pattern) > max_chars:
        raise InvalidRegularExpressionError(
            f"the pattern has {len(pattern)} characters, {max_chars} are allowed"
        )
    compiled = _compiled(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def partial_match(pattern: str) -> Callable[[str], bool]:
    """A predicate that is true for texts with a part that the pattern matches. Raises likewise."""
    compiled = _compiled(pattern)
    return lambda text: compiled.search(text) is not None


def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415 - a native library, loaded only where patterns are used

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise InvalidRegularExpressionError(
            f"the pattern {pattern[:300]!r} does not compile as an RE2 expression: {error}"
        ) from error
    if compiled.programsize > _MAX_PROGRAM:
        raise InvalidRegularExpressionError(
            f"the pattern {pattern[:300]!r} is too large: it compiles to {compiled.programsize} "
            f"instructions, {_MAX_PROGRAM} are allowed; repeat less, or less often"
        )
    return compiled
