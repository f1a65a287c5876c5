"""Which columns each table of a pipeline has, as far as its file says, without Spark.

Where a registry, a file on disk, Python or a query says more than can be told here, it is left
open: nobody is told off on a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.spark.pipelines.graph import in_order
from goqueue.spark.pipelines.model import (
    JoinStep,
    Pipeline,
    PythonStep,
    RulesStep,
    Source,
    SqlStep,
    Step,
    TopicSource,
    WindowStep,
)
from goqueue.spark.pipelines.sql_columns import simple_query
from goqueue.spark.values.ddl import ddl_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Columns: TypeAlias = tuple[str, ...] | None
"""Names in their order; None: not certain."""

MESSAGE_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "priority",
    "rawValue",
)
_NAME: Final = re.compile(r"\w+")
_SEMI: Final = frozenset({"left_semi", "left_anti"})


def columns_of(pipeline: Pipeline) -> dict[str, Columns]:
    """The columns of every source and step, by name.

    Raises:
        PipelineError: steps are made of each other.
    """
    found: dict[str, Columns] = {each.name: _of_source(each) for each in pipeline.sources}
    for step in in_order(pipeline):
        found[step.name] = _of_step(step, found)
    return found


def _of_source(source: Source) -> Columns:
    if not isinstance(source, TopicSource):
        # A folder may have more columns, in the names of its folders; a file has what it has.
        is_file = _NAME.search(source.path.rpartition("/")[2].partition(".")[2]) is not None
        return ddl_names(source.schema) if source.schema is not None and is_file else None
    if source.value_format == "binary" or not source.flatten:
        return MESSAGE_COLUMNS
    fields = ddl_names(source.value_schema) if source.value_schema is not None else None
    if fields is None or source.value_format != "json":
        return None
    time = (source.watermark.column,) if source.watermark else ()
    others = (each for each in (*source.columns, *time) if each in MESSAGE_COLUMNS)
    return tuple(dict.fromkeys((*fields, *others)))


def _of_step(step: Step, tables: Mapping[str, Columns]) -> Columns:
    match step:
        case RulesStep():
            return tables.get(step.input)
        case PythonStep():
            return None
        case SqlStep():
            return _of_query(step.sql, tables)
        case WindowStep():
            if not all(_NAME.fullmatch(each.strip()) for each in step.by):
                return None
            by = (each.strip() for each in step.by)
            return ("window_start", "window_end", *by, *step.select)
        case JoinStep():
            return _of_join(step, tables)


def _of_join(step: JoinStep, tables: Mapping[str, Columns]) -> Columns:
    if step.select:
        return tuple(step.select)
    left, right = tables.get(step.left), tables.get(step.right)
    if step.how in _SEMI:
        return left
    return together((left, right))


def _of_query(sql: str, tables: Mapping[str, Columns]) -> Columns:
    query = simple_query(sql)
    if query is None or query.made is None:
        return None
    scope = {alias: table_named(tables, name) for alias, name in query.tables.items()}
    found: list[Columns] = []
    for each in query.made:
        if each == "*":
            found += scope.values()
        elif each.endswith(".*"):
            found.append(scope.get(each.removesuffix(".*")))
        else:
            found.append((each,))
    return together(found)


def together(parts: Iterable[Columns]) -> Columns:
    """All columns of several tables, each once."""
    found: dict[str, str] = {}
    for each in parts:
        if each is None:
            return None
        for name in each:
            found.setdefault(name.lower(), name)
    return tuple(found.values())


def table_named(tables: Mapping[str, Columns], name: str) -> Columns:
    """The columns of a table by its name in SQL, where case does not count."""
    return next((each for key, each in tables.items() if key.lower() == name.lower()), None)
