"""Whether expressions name columns that there are, judged without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.columns import Columns, columns_of, table_named, together
from goqueue.spark.pipelines.model import (
    JoinStep,
    RulesStep,
    SqlStep,
    TableSink,
    TopicSink,
    TopicSource,
    Watermark,
    WindowStep,
)
from goqueue.spark.pipelines.sql_columns import columns_in, simple_query
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.spark.pipelines.checks.findings import Findings
    from goqueue.spark.pipelines.model import Sink, Source, Step

_MOST_NAMED: Final = 12


def check_columns(findings: Findings) -> None:
    """Note every column that is in an expression and in no table that it reads."""
    tables = columns_of(findings.pipeline)
    for part in (*findings.pipeline.sources, *findings.pipeline.steps, *findings.pipeline.sinks):
        for path, text, table in _expressions(part):
            if not findings.is_troubled(path):
                _check(findings, path, text, table, tables)
    for step in findings.pipeline.steps:
        if findings.is_troubled(f"steps.{step.name}"):
            continue
        if isinstance(step, JoinStep):
            _check_join(findings, step, tables)
        elif isinstance(step, SqlStep):
            _check_query(findings, step, tables)


def _expressions(part: Source | Step | Sink) -> Iterator[tuple[str, str, str]]:
    """The path, the text and the table of each expression over one table."""
    name = part.name
    match part:
        case TopicSource(watermark=Watermark(column=column)):
            yield f"sources.{name}.watermark.column", f"`{column}`", name
        case RulesStep():
            for at, rule in enumerate(part.rules):
                yield f"steps.{name}.rules[{at}].expect", rule.expect, part.input
        case WindowStep():
            for text in (part.on, *part.by):
                key = "on" if text is part.on else "by"
                yield f"steps.{name}.window.{key}", text, part.input
            for key, text in part.select.items():
                yield f"steps.{name}.window.select.{key}", text, part.input
        case TopicSink():
            yield f"sinks.{name}.key", part.key or "", part.input
            yield f"sinks.{name}.value", part.value or "", part.input
        case TableSink():
            for each in part.partition_by:
                yield f"sinks.{name}.partition_by", f"`{each}`", part.input
        case _:
            return


def _check(
    findings: Findings, path: str, text: str, table: str, tables: Mapping[str, Columns]
) -> None:
    columns = tables.get(table)
    if columns is None:
        return
    for each in columns_in(text):
        # `table.column`, or a struct and its field: what is before the dot is looked for.
        is_table = each.table is not None and each.table.lower() == table.lower()
        name = each.table if each.table is not None and not is_table else each.name
        _note(findings, path, name, table, columns)


def _check_join(findings: Findings, step: JoinStep, tables: Mapping[str, Columns]) -> None:
    sides = {"left": step.left, "right": step.right}
    path = f"steps.{step.name}.join"
    texts = [(f"{path}.select.{name}", text) for name, text in step.select.items()]
    if any(each.table is not None for each in columns_in(step.on)):
        texts.append((f"{path}.on", step.on))
    else:  # columns of both
        for table in sides.values():
            for each in columns_in(step.on):
                _note(findings, f"{path}.on", each.name, table, tables.get(table))
    for at, text in texts:
        for each in columns_in(text):
            side = (each.table or "").lower()
            if side in sides:
                _note(findings, at, each.name, sides[side], tables.get(sides[side]))


def _check_query(findings: Findings, step: SqlStep, tables: Mapping[str, Columns]) -> None:
    query = simple_query(step.sql)
    if query is None:
        return
    path = f"steps.{step.name}.sql"
    scope = {alias: table_named(tables, name) for alias, name in query.tables.items()}
    whole = together(scope.values())
    for column in query.columns:
        qualifier = (column.table or "").lower()
        if qualifier in scope and column.name != "*":
            _note(findings, path, column.name, query.tables[qualifier], scope[qualifier])
        elif qualifier not in scope:  # a column, or a struct and its field
            name = column.table or column.name
            if name.lower() not in query.aliases:
                names = " and ".join(dict.fromkeys(query.tables.values()))
                _note(findings, path, name, names, whole)


def _note(
    findings: Findings, path: str, name: str, table: str, columns: Sequence[str] | None
) -> None:
    """Note a column that a table does not have; case does not count, and hidden ones are ours."""
    if columns is None or not table or name.startswith("_"):
        return
    if name.lower() in {each.lower() for each in columns}:
        return
    few = ", ".join(columns[:_MOST_NAMED]) + (", …" if len(columns) > _MOST_NAMED else "")
    hint = nearest(name, columns) or f"; it has {few}"
    findings.error(path, f"there is no column {name!r} in {table}{hint}")
