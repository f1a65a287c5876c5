"""Which tables a query reads, found in its text without Spark.

Only words that stand where a table must stand are taken: behind FROM and JOIN, and behind the
commas of a FROM. Everything in quotes and comments is skipped, and so are the names that the query
makes itself in its WITH. Whoever wants to be certain has to ask Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<open>(?:['"`]|/\*).*)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_FROM_INSIDE: Final = frozenset({"extract", "trim", "substring", "substr", "overlay", "position"})
"""Functions with a FROM of their own, as in `extract(hour FROM at)`."""
_NO_TABLE: Final = frozenset({"select", "values", "lateral", "unnest", "("})
_MODIFIERS: Final = frozenset({"stream", "table", "lateral"})
_AFTER_TABLES: Final = frozenset(
    (
        *("where", "group", "having", "order", "limit", "offset", "window", "qualify", "select"),
        *("union", "intersect", "except", "minus", "cluster", "distribute", "sort", "insert"),
        *("on", "using"),
    )
)
_AGGREGATES: Final = frozenset(
    (
        *("count", "sum", "avg", "min", "max", "mean", "median", "first", "last", "any_value"),
        *("collect_list", "collect_set", "array_agg", "count_if", "approx_count_distinct"),
        *("percentile", "percentile_approx", "approx_percentile", "stddev", "variance", "corr"),
        *("bool_and", "bool_or", "max_by", "min_by"),
    )
)
"""Names that mean an aggregate wherever they are called; `any` may mean something else."""


@dataclass(frozen=True, slots=True)
class Query:
    """What can be told of a query from its text."""

    tables: tuple[str, ...]
    """Names of one part, each once, in their order; what a query makes itself is left out."""
    qualified: tuple[str, ...] = ()
    """Names of several parts, such as `lake.orders`: tables of Spark's catalogues."""
    is_aggregate: bool = False
    """It has a GROUP BY, or an aggregate without one."""
    is_distinct: bool = False
    has_join: bool = False
    is_certain: bool = True
    """The text could be read to its end: all quotes and brackets are closed."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a sign or a literal of a query."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """What a keyword would be; a quoted name is none."""
        return self.text.lower() if self.kind in {"word", "sign"} else ""

    @property
    def is_name(self) -> bool:
        """Whether it may name something; keywords may, too."""
        return self.kind in {"word", "quoted"}

    @property
    def name(self) -> str:
        """The name without its quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


_END: Final = Token("end", "")


def tokens_of(sql: str) -> list[Token]:
    """The text as tokens, without spaces and comments."""
    return [
        Token(found.lastgroup or "", found[0])
        for found in _TOKEN.finditer(sql)
        if found.lastgroup not in {"space", "comment"}
    ]


@lru_cache(maxsize=1024)
def read_query(sql: str) -> Query:
    """The tables of a query, and what kind of query it is."""
    tokens = tokens_of(sql)
    made = _made_by_with(tokens)
    tables: dict[str, str] = {}
    qualified: dict[str, str] = {}
    for parts in _references(tokens):
        if len(parts) > 1:
            qualified.setdefault(".".join(parts).lower(), ".".join(parts))
        elif parts[0].lower() not in made:
            tables.setdefault(parts[0].lower(), parts[0])
    words = [each.word for each in tokens]
    return Query(
        tables=tuple(tables.values()),
        qualified=tuple(qualified.values()),
        is_aggregate=_is_aggregate(words),
        is_distinct=_has_pair(words, "select", "distinct"),
        has_join="join" in words,
        is_certain=_is_closed(tokens),
    )


def _made_by_with(tokens: list[Token]) -> set[str]:
    """Names before `AS (`, which is where WITH makes its tables."""
    made = set()
    for at, token in enumerate(tokens):
        if token.word != "as" or _at(tokens, at + 1).word != "(":
            continue
        before = _at(tokens, at - 1)
        if before.word == ")":  # the columns are named: WITH t (a, b) AS (
            depth, back = 1, at - 2
            while back >= 0 and depth:
                depth += {")": 1, "(": -1}.get(tokens[back].word, 0)
                back -= 1
            before = _at(tokens, back)
        if before.is_name:
            made.add(before.name.lower())
    return made if any(each.word == "with" for each in tokens) else set()


def _references(tokens: list[Token]) -> list[list[str]]:
    """The names of tables, each as its parts."""
    found: list[list[str]] = []
    inside: list[str] = []
    """The word before each bracket that is open."""
    listing: list[bool] = [False]
    """Whether commas at this depth separate tables."""
    for at, token in enumerate(tokens):
        word = token.word
        if word == "(":
            inside.append(_at(tokens, at - 1).word)
            listing.append(False)
        elif word == ")" and inside:
            inside.pop()
            listing.pop()
        elif _starts_tables(tokens, at, inside):
            listing[-1] = listing[-1] or word == "from"
            found += _table_at(tokens, at + 1)
        elif word == "," and listing[-1]:
            found += _table_at(tokens, at + 1)
        elif word in _AFTER_TABLES and listing[-1]:
            listing[-1] = word in {"on", "using"}
    return found


def _starts_tables(tokens: list[Token], at: int, inside: list[str]) -> bool:
    word, before = tokens[at].word, _at(tokens, at - 1).word
    if before == ".":
        return False
    if word == "from":
        return before != "distinct" and not (inside and inside[-1] in _FROM_INSIDE)
    return word == "join" or (word == "table" and before in {"", "(", "from", "as"})


def _table_at(tokens: list[Token], at: int) -> list[list[str]]:
    """The table that begins there: no function, no subquery."""
    while _at(tokens, at).word in _MODIFIERS and _at(tokens, at + 1).is_name:
        if tokens[at].word == "lateral":
            return []
        at += 1
    first = _at(tokens, at)
    if not first.is_name or first.word in _NO_TABLE:
        return []
    parts = [first.name]
    while _at(tokens, at + 1).word == "." and _at(tokens, at + 2).is_name:
        at += 2
        parts.append(tokens[at].name)
    if _at(tokens, at + 1).word == "(":
        return []
    return [parts]


def _is_aggregate(words: list[str]) -> bool:
    if _has_pair(words, "group", "by"):
        return True
    for at, word in enumerate(words[:-1]):
        if word in _AGGREGATES and words[at + 1] == "(" and (at == 0 or words[at - 1] != "."):
            return "over" not in words
    return False


def _has_pair(words: list[str], first: str, second: str) -> bool:
    return any(pair == (first, second) for pair in pairwise(words))


def _is_closed(tokens: list[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if depth < 0 or token.kind == "open":
            return False
    return depth == 0


def _at(tokens: list[Token], at: int) -> Token:
    return tokens[at] if 0 <= at < len(tokens) else _END
