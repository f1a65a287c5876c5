"""The `steps` of a YAML file: SQL, Python, windows, joins and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.files.fields import Fields, kind_of
from goqueue.spark.pipelines.files.yaml_sources import read_watermark
from goqueue.spark.pipelines.model import (
    JoinStep,
    Otherwise,
    PythonStep,
    Rule,
    RulesStep,
    SqlStep,
    Step,
    WindowStep,
)
from goqueue.spark.pipelines.yaml_nodes import Items

if TYPE_CHECKING:
    from collections.abc import Callable


EXPECTED: Final = "a step such as {sql: SELECT …} or {from: orders, rules: […]}"
_KEYS: Final = {
    "sql": ("sql", "watermark"),
    "python": ("from", "python", "watermark"),
    "window": ("from", "window"),
    "join": ("join",),
    "rules": ("from", "rules", "dead_letters"),
}
_HOMES: Final = {
    "from": "python, window and rules: SQL and joins name their tables themselves",
    "watermark": "sql and python steps, and for topics",
    "dead_letters": "rules",
    **dict.fromkeys(_KEYS, "a step of its own"),
}
_OTHERWISE: Final = {each.value: each for each in Otherwise}
JOINS: Final = {
    "inner": "inner",
    "left": "left",
    "left_outer": "left",
    "right": "right",
    "right_outer": "right",
    "full": "full",
    "full_outer": "full",
    "outer": "full",
    "left_semi": "left_semi",
    "semi": "left_semi",
    "left_anti": "left_anti",
    "anti": "left_anti",
}
"""How rows may be joined, with Spark's other words for the same."""


def read_step(fields: Fields, name: str, _folder: str) -> Step | None:
    """One step; None when it cannot be told what it does."""
    kind = fields.only_kind(
        _KEYS,
        ("from", "watermark", "dead_letters"),
        several="a step does one thing, and this has {}: make a step of each",
        none=f"nothing says what is done: expected one of {', '.join(_KEYS)}",
    )
    if kind is None:
        return None
    fields.only(_KEYS[kind], _HOMES)
    return _READERS[kind](fields, name)


def _sql(fields: Fields, name: str) -> SqlStep | None:
    watermark = read_watermark(fields)
    sql = fields.text("sql")
    if sql is None:
        return None
    return SqlStep(name=name, sql=sql, watermark=watermark, line=fields.place.line)


def _python(fields: Fields, name: str) -> PythonStep | None:
    inputs = fields.texts("from", required="the tables that the function takes, in its order")
    watermark = read_watermark(fields)
    function = fields.text("python")
    if function is None:
        return None
    home, colon, called = function.rpartition(":")
    if not colon or not home or not called.isidentifier():
        fields.problem(
            f"{function!r} names no function: expected file.py:name or module:name", "python"
        )
    return PythonStep(
        name=name, inputs=inputs, function=function, watermark=watermark, line=fields.place.line
    )


def _window(fields: Fields, name: str) -> WindowStep | None:
    source = fields.text("from", required="the table that is cut into windows")
    inner = fields.inner(
        "window", "a window such as {on: at, size: 1 minute, select: {n: count(*)}}"
    )
    if inner is None:
        return None
    inner.only(("on", "size", "slide", "gap", "by", "select"))
    on = inner.text("on", required="the column of time")
    if "gap" in inner:
        for other in ("size", "slide"):
            if other in inner:
                inner.problem(f"{other} does not go with gap: a session ends by itself", other)
        size, slide, gap = "", None, inner.duration("gap")
    else:
        said = "how long a window is, such as 1 minute, or the gap that ends a session"
        size = inner.duration("size", required=said) or ""
        slide, gap = inner.duration("slide"), None
    select = inner.options("select", "aggregates by name, as in {revenue: sum(amount)}")
    if not select and "select" not in inner:
        inner.problem("select is missing: what is made of a window, as in {orders: count(*)}")
    return WindowStep(
        name=name,
        input=source or "",
        on=on or "",
        size=size,
        slide=slide,
        gap=gap,
        by=inner.texts("by"),
        select=select,
        line=fields.place.line,
    )


def _join(fields: Fields, name: str) -> JoinStep | None:
    inner = fields.inner("join", "a join such as {left: orders, right: payments, on: order_id}")
    if inner is None:
        return None
    inner.only(("left", "right", "on", "how", "within", "select"))
    return JoinStep(
        name=name,
        left=inner.text("left", required="the table on the left") or "",
        right=inner.text("right", required="the table on the right") or "",
        on=inner.text("on", required="a column of both, or a condition") or "",
        how=inner.choice("how", JOINS, "inner"),
        within=inner.duration("within"),
        select=inner.options("select", "columns by name, as in {paid: right.amount}"),
        line=fields.place.line,
    )


def _rules(fields: Fields, name: str) -> RulesStep | None:
    source = fields.text("from", required="the table whose rows are judged")
    dead_letters = fields.text("dead_letters")
    if not fields.given("rules"):
        return None
    node = fields.node("rules")
    if not isinstance(node, Items) or not node.items:
        said = "an empty one" if isinstance(node, Items) else kind_of(node)
        fields.problem(
            f"expected a list of rules, as in [{{expect: amount > 0}}], not {said}", "rules"
        )
        return None
    rules = [
        _rule(Fields(fields.notes, each, f"{fields.at('rules')}[{at}]", "a rule"))
        for at, each in enumerate(node.items)
    ]
    return RulesStep(
        name=name,
        input=source or "",
        rules=tuple(each for each in rules if each is not None),
        dead_letters=dead_letters,
        line=fields.place.line,
    )


def _rule(fields: Fields) -> Rule | None:
    fields.only(("name", "expect", "otherwise"))
    expect = fields.text("expect", required="a condition that rows must meet, as in amount > 0")
    otherwise = fields.choice("otherwise", _OTHERWISE, Otherwise.DEAD_LETTER)
    name = fields.text("name")
    if expect is None:
        return None
    return Rule(name=name or expect, expect=expect, otherwise=otherwise, line=fields.place.line)


_READERS: Final[dict[str, Callable[[Fields, str], Step | None]]] = {
    "sql": _sql,
    "python": _python,
    "window": _window,
    "join": _join,
    "rules": _rules,
}
