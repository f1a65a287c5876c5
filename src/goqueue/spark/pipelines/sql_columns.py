"""Which columns an expression or a query reads, found in its text without Spark.

Only what is certain counts: words that can be nothing but a column. A text with parts that make
names of their own, such as a lambda or a subquery, is not judged at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.sql_tables import Token, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEYWORDS: Final = frozenset(
    (
        *("and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "rlike"),
        *("regexp", "between", "exists", "any", "some", "all", "escape", "unknown", "div", "xor"),
        *("case", "when", "then", "else", "end", "distinct", "as", "asc", "desc", "nulls"),
        *("first", "last", "from", "for", "both", "leading", "trailing", "placing", "collate"),
        *("over", "partition", "order", "by", "rows", "range", "unbounded", "preceding"),
        *("following", "current", "row", "filter", "where", "within", "group", "ignore", "respect"),
        *("current_date", "current_timestamp", "current_time", "current_user", "session_user"),
        *("user", "localtimestamp", "current_catalog", "current_database", "current_schema"),
        *("interval", "at", "time", "zone", "using", "default", "date", "timestamp"),
        *("array", "map", "struct", "sets", "cube", "rollup", "grouping", "having", "on"),
        *("select", "limit", "offset", "sort", "cluster", "distribute", "qualify", "window"),
        *("join", "inner", "left", "right", "full", "outer", "cross", "semi", "anti", "natural"),
    )
)
_UNITS: Final = frozenset(
    unit
    for each in (
        *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month"),
        *("quarter", "year", "dayofyear", "dayofweek", "dow", "doy", "yearofweek"),
    )
    for unit in (each, f"{each}s")
)
"""As in INTERVAL 1 minute; a column may be called so, and is taken for the unit."""
_CONSTANTS: Final = frozenset(
    (
        *("null", "true", "false", "current_date", "current_timestamp", "current_time"),
        *("current_user", "session_user", "user", "localtimestamp"),
        *("current_catalog", "current_database", "current_schema"),
    )
)
"""What is a value where it stands alone; any other word alone is a column, also a keyword."""
_VALUES: Final = frozenset(
    (
        *("as", "end", "null", "true", "false", "current_date", "current_timestamp", "row"),
        *("current_user", "localtimestamp", "date", "timestamp", "offset", "partition"),
    )
)
"""Keywords behind which a name is an alias: of a value, or of a column that is called so."""
_MAKES_NAMES: Final = frozenset(
    {"->", "=>", "::", "lateral", "pivot", "unpivot", "|>", "tablesample"}
)
_NOT_SIMPLE: Final = frozenset({"with", "union", "intersect", "except", "minus", "values", "table"})
_CLAUSES: Final = frozenset({"where", "group", "having", "order", "limit", "sort", "cluster"})


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column as it is written, `amount` or `o.amount`."""

    name: str
    table: str | None = None
    """What stands before the dot: a table, its alias, or a column that is a struct."""


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """One SELECT over tables, without subqueries."""

    tables: dict[str, str]
    """The names by which columns are qualified, folded, to the names of the tables."""
    columns: tuple[ColumnName, ...]
    """All that it reads."""
    aliases: frozenset[str]
    """Names that it gives, folded: later parts of it may use them."""
    made: tuple[str, ...] | None
    """The columns of the result; `*` and `a.*` stand for those of tables. None: not certain."""


def columns_in(expression: str) -> tuple[ColumnName, ...]:
    """The columns of an expression; none where the text is not simple enough to be certain."""
    tokens = tokens_of(expression)
    if len(tokens) == 1 and tokens[0].is_name and tokens[0].word not in _CONSTANTS:
        return (ColumnName(tokens[0].name),)
    if not _is_simple(tokens) or any(each.word == "select" for each in tokens):
        return ()
    return tuple(_columns(tokens))


def simple_query(sql: str) -> SimpleQuery | None:
    """A query whose columns can be told; None for all others."""
    tokens = tokens_of(sql)
    words = [each.word for each in tokens]
    if not _is_simple(tokens) or words.count("select") != 1 or words[:1] != ["select"]:
        return None
    if _NOT_SIMPLE & set(words):
        return None
    at = _depth_zero(tokens, {"from"})
    if at is None:
        return None
    end = _depth_zero(tokens, _CLAUSES, at + 1)
    tables = _tables(tokens[at + 1 : end])
    if tables is None:
        return None
    items = list(_items(tokens[1:at]))
    aliases = [alias for alias in map(_alias, items) if alias is not None]
    selected = [each for item in items for each in _columns(_without_alias(item))]
    conditions = [
        *_columns(_conditions(tokens[at + 1 : end])),
        *_columns(tokens[end:] if end else []),
    ]
    made = [_made(item) for item in items]
    return SimpleQuery(
        tables,
        (*selected, *conditions),
        frozenset(each.lower() for each in aliases),
        None if None in made else tuple(each for each in made if each is not None),
    )


# --- Words ---------------------------------------------------------------------------------------


def _is_simple(tokens: Sequence[Token]) -> bool:
    if any(each.kind == "open" for each in tokens):
        return False
    pairs = {f"{a.word}{b.word}" for a, b in pairwise(tokens)}
    return not _MAKES_NAMES & ({each.word for each in tokens} | pairs)


def _columns(tokens: Sequence[Token]) -> Iterator[ColumnName]:
    """Words that can be nothing but columns, with what is before their dot."""
    type_depth: int | None = None
    depth = 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if type_depth is not None:
            if depth >= type_depth:
                continue  # the type in CAST(a AS decimal(10, 2))
            type_depth = None
        if token.word == "as" and depth > 0:
            type_depth = depth
        elif token.is_name and _may_be_column(tokens, at):
            yield _column_at(tokens, at)


def _may_be_column(tokens: Sequence[Token], at: int) -> bool:
    token, before, after = tokens[at], _word(tokens, at - 1), _at(tokens, at + 1)
    if before in {".", ":", "@"} or after.word == "(" or after.kind == "text":
        return False
    if token.kind == "quoted":
        return True
    is_qualifier = after.word == "."
    return is_qualifier or token.word not in _KEYWORDS | _UNITS


def _column_at(tokens: Sequence[Token], at: int) -> ColumnName:
    first = tokens[at].name
    if _word(tokens, at + 1) == "." and _at(tokens, at + 2).is_name:
        return ColumnName(_at(tokens, at + 2).name, first)
    if _word(tokens, at + 1) == "." and _word(tokens, at + 2) == "*":
        return ColumnName("*", first)
    return ColumnName(first)


def _at(tokens: Sequence[Token], at: int) -> Token:
    return tokens[at] if 0 <= at < len(tokens) else Token("end", "")


def _word(tokens: Sequence[Token], at: int) -> str:
    return _at(tokens, at).word


# --- A query -------------------------------------------------------------------------------------


def _depth_zero(
    tokens: Sequence[Token], words: set[str] | frozenset[str], start: int = 0
) -> int | None:
    """Where one of the words stands outside of brackets."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if depth == 0 and at >= start and token.word in words:
            return at
    return None


def _items(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The parts of a SELECT between its commas."""
    if _word(tokens, 0) in {"distinct", "all"}:
        tokens = tokens[1:]
    depth, start = 0, 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if depth == 0 and token.word == ",":
            yield tokens[start:at]
            start = at + 1
    yield tokens[start:]


def _alias(item: Sequence[Token]) -> str | None:
    """The name that a part is given, with AS or without."""
    last, before = _at(item, len(item) - 1), _at(item, len(item) - 2)
    if len(item) < 2 or not last.is_name or (last.kind == "word" and last.word in _KEYWORDS):
        return None
    is_named = (
        before.word in {"as", ")", "end"} or before.is_name or before.kind in {"text", "number"}
    )
    return last.name if is_named and before.word not in _KEYWORDS - _VALUES else None


def _without_alias(item: Sequence[Token]) -> Sequence[Token]:
    if _alias(item) is None:
        return item
    return item[: -2 if _word(item, len(item) - 2) == "as" else -1]


def _made(item: Sequence[Token]) -> str | None:
    """What a part of a SELECT is called in the result."""
    words = [each.word for each in item]
    if words == ["*"]:
        return "*"
    if len(item) == 3 and words[1:] == [".", "*"] and item[0].is_name:
        return f"{item[0].name.lower()}.*"
    alias = _alias(item)
    if alias is not None:
        return alias
    is_dotted = all(
        each.is_name if at % 2 == 0 else each.word == "." for at, each in enumerate(item)
    )
    return item[-1].name if item and is_dotted and len(item) % 2 else None


def _tables(tokens: Sequence[Token]) -> dict[str, str] | None:
    """The tables of a FROM by the names that they have in the query; None: not certain."""
    found: dict[str, str] = {}
    at, is_table = 0, True
    while at < len(tokens):
        word = tokens[at].word
        if is_table:
            if not tokens[at].is_name or _word(tokens, at + 1) in {".", "("}:
                return None
            name = tokens[at].name
            at += 1
            if _word(tokens, at) == "as":
                at += 1
            alias = _at(tokens, at)
            if alias.is_name and alias.word not in _KEYWORDS:
                at += 1
                found[alias.name.lower()] = name
            else:
                found[name.lower()] = name
            is_table = False
            continue
        is_table = word in {"join", ","} and _is_outside(tokens, at)
        at += 1
    return found


def _is_outside(tokens: Sequence[Token], at: int) -> bool:
    return sum({"(": 1, ")": -1}.get(each.word, 0) for each in tokens[:at]) == 0


def _conditions(tokens: Sequence[Token]) -> list[Token]:
    """What stands behind ON and USING in a FROM."""
    found: list[Token] = []
    is_condition = False
    for at, token in enumerate(tokens):
        if token.word in {"on", "using"}:
            is_condition = True
        elif token.word in {"join", ","} and _is_outside(tokens, at):
            is_condition = False
        if is_condition:
            found.append(token)
    return found
