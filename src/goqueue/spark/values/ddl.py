"""Columns as Spark writes them, `id bigint, tags array<string>`, judged without Spark.

Spark has the last word, and has it late: a pipeline's file is judged before Spark is started, and
what Spark says of `valueSchema`, which it sees as a part of a longer list, points elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from goqueue.spark.wording import nearest, shown

_TOKEN: Final = re.compile(
    r"\s+|(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<word>[^\W\d]\w*)|(?P<number>\d+)|(?P<sign>.)",
    re.DOTALL,
)
_SIMPLE: Final = frozenset(
    (
        *("string", "boolean", "binary", "variant", "void", "date", "time"),
        *("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"),
        *("float", "real", "double", "decimal", "dec", "numeric"),
        *("timestamp", "timestamp_ntz", "timestamp_ltz", "char", "varchar", "interval"),
    )
)
_NESTED: Final = ("array", "map", "struct")
_WITH_NUMBERS: Final = ("decimal", "dec", "numeric", "char", "varchar", "time")
_REMARKS: Final = ("not", "null", "comment", "collate")
_MAX_DEPTH: Final = 50


def ddl_problem(text: str) -> str | None:
    """What is wrong with a list of columns; None when nothing is."""
    try:
        _Reader(text).columns()
    except _DdlError as error:
        return str(error)
    return None


def ddl_names(text: str) -> tuple[str, ...] | None:
    """The names of the columns of a list; None where it is none."""
    reader = _Reader(text)
    try:
        reader.columns()
    except _DdlError:
        return None
    return tuple(reader.names)


class _DdlError(Exception):
    """Carries the sentence."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: Final = [
            (found.lastgroup, found[0])
            for found in _TOKEN.finditer(text)
            if found.lastgroup is not None
        ]
        self._at = 0
        self.names: Final[list[str]] = []
        """Those of the list itself, not of structs in it."""

    def columns(self) -> None:
        """All of it."""
        self._fields(None, 0)
        if self._at < len(self._tokens):
            raise _DdlError(f"{shown(self._now[1])} is not expected here: is a bracket missing?")

    @property
    def _now(self) -> tuple[str | None, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else (None, "the end")

    def _takes(self, sign: str) -> bool:
        if self._now[1] != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str, why: str) -> None:
        if not self._takes(sign):
            raise _DdlError(f"expected {sign!r} {why}, not {shown(self._now[1])}")

    def _fields(self, end: str | None, depth: int) -> None:
        while True:
            kind, name = self._now
            if kind not in {"word", "quoted"}:
                raise _DdlError(
                    f"expected a column such as `id bigint`, not {shown(name)}: name and type, "
                    "with commas between the columns"
                )
            self._at += 1
            if end is None:
                self.names.append(name[1:-1].replace("``", "`") if kind == "quoted" else name)
            self._takes(":")
            self._type(name, depth)
            self._remarks()
            if not self._takes(","):
                break
        if end is not None:
            self._expect(end, "at the end of struct<…>")

    def _type(self, column: str, depth: int) -> None:
        kind, word = self._now
        if kind != "word":
            raise _DdlError(f"column {column} has no type: expected one such as string or bigint")
        if depth > _MAX_DEPTH:
            raise _DdlError(f"column {column} is nested too deep")
        self._at += 1
        name = word.lower()
        if name in _NESTED:
            self._nested(name, column, depth + 1)
        elif name not in _SIMPLE:
            hint = nearest(word, (*sorted(_SIMPLE), *_NESTED))
            raise _DdlError(f"column {column}: {shown(word)} is no type of Spark{hint}")
        elif name in _WITH_NUMBERS and self._takes("("):
            while not self._takes(")"):
                if self._now[0] != "number" and self._now[1] not in {",", "-"}:
                    raise _DdlError(f"column {column}: expected numbers and ) behind {word}(")
                self._at += 1
        elif name == "interval":
            while self._now[0] == "word" and self._now[1].lower() not in {"not", "comment"}:
                self._at += 1

    def _nested(self, name: str, column: str, depth: int) -> None:
        self._expect("<", f"behind {name}, as in {name}<…>")
        if name == "struct":
            if not self._takes(">"):
                self._fields(">", depth)
            return
        self._type(column, depth)
        if name == "map":
            self._expect(",", "between the types of map<key, value>")
            self._type(column, depth)
        self._expect(">", f"at the end of {name}<…>")

    def _remarks(self) -> None:
        """NOT NULL, COLLATE …, and COMMENT '…'."""
        while self._now[0] == "word" and self._now[1].lower() in _REMARKS:
            remark = self._now[1].lower()
            self._at += 2 if remark == "collate" else 1
            while remark == "comment" and self._now[0] == "text":
                self._at += 1
