"""Conditions on JSON documents, as a user types them: `$.user.age > 30 && $.country == "DE"`.

    wanted = parse_filter('$.items[*].price >= 100')
    wanted.matches({"items": [{"price": 20}, {"price": 120}]})  # True

A path compares with a string, a number, `true`, `false` or `null`, by `==`, `!=`, `<`, `<=`, `>`,
`>=`, `contains` or `=~`, an RE2 pattern. A path alone asks whether it exists. `&&`, `||`, `!` and
parentheses combine them. With a wildcard one value that fits is enough; `!=` is the opposite of
`==`, so it asks that no value is equal. Values of different types are never equal and have no
order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.model.errors import InvalidRegularExpressionError
from goqueue.model.json_path import JsonPathError, Step, parse_path, unquoted, values_at
from goqueue.model.patterns import partial_match

_MAX_CHARS: Final = 1000
"""A longer filter is refused."""
_MAX_DEPTH: Final = 50
"""Parentheses and negations within each other; more are refused."""

_SPACE: Final = re.compile(r"\s*")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|=~|<|>|=|contains\b")
_LITERAL: Final = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.]) | (?P<word>true|false|null)\b""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_HELP: Final = "expected a condition such as $.user.age > 30 or $.country == 'DE'"

Condition: TypeAlias = Callable[[Any], bool]


class JsonFilter:
    """A condition on documents, made by `parse_filter`."""

    def __init__(self, text: str, condition: Condition) -> None:
        self.text: Final = text
        self._condition = condition

    def __repr__(self) -> str:
        return f"JsonFilter({self.text!r})"

    def matches(self, document: Any) -> bool:
        """Whether a decoded document fits."""
        return self._condition(document)

    def matches_text(self, data: bytes | str | None) -> bool:
        """Whether a value fits; one that is no JSON does not."""
        if data is None:
            return False
        try:
            return self._condition(msgspec.json.decode(data))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False


def parse_filter(text: str) -> JsonFilter:
    """The filter that a text is.

    Raises:
        JsonPathError: it is none; the error says where and what was expected.
    """
    if len(text) > _MAX_CHARS:
        raise JsonPathError(f"it has {len(text)} characters, up to {_MAX_CHARS} are allowed")
    parser = _Parser(text)
    condition = parser.alternatives()
    if parser.at < len(text):
        raise JsonPathError(
            f"at character {parser.at + 1}: {text[parser.at : parser.at + 20]!r} follows a whole "
            "condition; expected &&, || or the end"
        )
    return JsonFilter(text, condition)


class _Parser:
    """Reads a filter from the left to the right; `at` is how far it came."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.at = 0
        self._skip()

    def alternatives(self) -> Condition:
        found = [self._conjunction()]
        while self._takes("||"):
            found.append(self._conjunction())
        return found[0] if len(found) == 1 else lambda doc: any(each(doc) for each in found)

    def _conjunction(self) -> Condition:
        found = [self._term()]
        while self._takes("&&"):
            found.append(self._term())
        return found[0] if len(found) == 1 else lambda doc: all(each(doc) for each in found)

    def _term(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise JsonPathError(f"it is nested too deeply: up to {_MAX_DEPTH} levels are allowed")
        try:
            if self._takes("!"):
                inner = self._term()
                return lambda doc: not inner(doc)
            if self._takes("("):
                inner = self.alternatives()
                if not self._takes(")"):
                    raise JsonPathError(f"at character {self.at + 1}: expected a closing )")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        if self._text[self.at : self.at + 1] != "$":
            raise JsonPathError(f"at character {self.at + 1}: {_HELP}")
        steps, self.at = parse_path(self._text, self.at)
        self._skip()
        found = _OPERATOR.match(self._text, self.at)
        if found is None:
            return lambda doc: any(True for _ in values_at(doc, steps))
        self.at = found.end()
        self._skip()
        return _comparison(steps, found[0], self._literal())

    def _literal(self) -> Any:
        found = _LITERAL.match(self._text, self.at)
        if found is None:
            rest = self._text[self.at : self.at + 20]
            raise JsonPathError(
                f"at character {self.at + 1}: found {rest!r}, expected a "
                "string in quotes, a number, true, false or null"
            )
        at, self.at = self.at, found.end()
        self._skip()
        if found["quoted"] is not None:
            return unquoted(found["quoted"], at)
        if found["number"] is not None:
            number = found["number"]
            return int(number) if number.lstrip("-").isdigit() else float(number)
        return _WORDS[found["word"]]

    def _takes(self, sign: str) -> bool:
        if not self._text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self._skip()
        return True

    def _skip(self) -> None:
        self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]  # it matches


def _comparison(steps: tuple[Step, ...], sign: str, literal: Any) -> Condition:
    if sign == "!=":
        fits = _equality(literal)
        return lambda doc: not any(fits(each) for each in values_at(doc, steps))
    fits = _fitting(sign, literal)
    return lambda doc: any(fits(each) for each in values_at(doc, steps))


def _fitting(sign: str, literal: Any) -> Callable[[Any], bool]:
    if sign in {"==", "="}:
        return _equality(literal)
    if sign in _ORDER:
        compare, kind = _ORDER[sign], _kind(literal)
        if kind not in {"number", "string"}:
            raise JsonPathError(f"{sign} needs a number or a string, not {literal!r}")
        return lambda value: _kind(value) == kind and compare(value, literal)
    if not isinstance(literal, str):
        raise JsonPathError(f"{sign} needs a string in quotes, not {literal!r}")
    if sign == "contains":
        return lambda value: isinstance(value, str | list) and literal in value
    try:
        is_match = partial_match(literal)
    except InvalidRegularExpressionError as error:
        raise JsonPathError(str(error)) from error
    return lambda value: isinstance(value, str) and is_match(value)


def _equality(literal: Any) -> Callable[[Any], bool]:
    kind = _kind(literal)
    return lambda value: _kind(value) == kind and value == literal


def _kind(value: Any) -> str:
    """The type in JSON: true is no number, 1 and 1.0 are one."""
    if isinstance(value, bool) or value is None:
        return "word"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "container"
