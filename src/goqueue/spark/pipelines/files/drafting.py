"""Pipelines written in Python: calls are noted with their lines and read as a file would be.

    from goqueue.spark import pipelines as gp

    pipeline = gp.pipeline("orders", servers="127.0.0.1:9092")
    pipeline.topic("orders", format="json", schema="id bigint, amount double")

    @pipeline.step
    def large(orders):
        return orders.where("amount > 100")

    pipeline.to_topic("orders.large", large, key="id")

Nothing is raised while a pipeline is written down: whatever is wrong is found together with the
rest, in the words that a YAML file would get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, overload

from goqueue.spark.pipelines.files.draft_nodes import (
    TableName,
    WatermarkLike,
    as_name,
    caller,
    key_of,
    node_of,
    parameters_of,
    table_name,
    watermark_of,
)
from goqueue.spark.pipelines.files.loaded import Loaded, checked
from goqueue.spark.pipelines.files.yaml_file import read_tree
from goqueue.spark.pipelines.model import Pipeline, PythonStep
from goqueue.spark.pipelines.yaml_nodes import Entries, Node, Place, Scalar

if TYPE_CHECKING:
    from goqueue.spark.monitoring.progress import RunReport

F = TypeVar("F", bound=Callable[..., Any])
_Part: TypeAlias = tuple[Scalar, "Node"]


class Draft:
    """A pipeline that is being written down; `gp.pipeline` makes one."""

    def __init__(self, name: str, settings: Mapping[str, Any], file: str, place: Place) -> None:
        self.name: Final = name
        self.file: Final = file
        self._place: Final = place
        self._settings: Final = settings
        self._parts: Final[dict[str, list[_Part]]] = {"sources": [], "steps": [], "sinks": []}
        self._functions: Final[dict[str, Callable[..., Any]]] = {}

    # --- Sources ---------------------------------------------------------------------------------

    def topic(
        self,
        *topics: str,
        name: str | None = None,
        pattern: str | None = None,
        format: str | None = None,  # noqa: A002 - Spark's word
        schema: str | None = None,
        starting: str | None = None,
        watermark: WatermarkLike = None,
        columns: Sequence[str] = (),
        flatten: bool = True,
        streaming: bool = True,
        options: Mapping[str, object] | None = None,
    ) -> str:
        """Messages of topics as a table, called like the first of them unless `name` says so."""
        said = {
            "topics": list(topics) if topics or pattern is None else None,
            "pattern": pattern,
            "format": format,
            "schema": schema,
            "starting": starting,
            "watermark": watermark_of(watermark),
            "columns": list(columns) or None,
            "flatten": flatten,
            "streaming": streaming,
            "options": options,
        }
        called = name or as_name(topics[0] if topics else "topics")
        return self._add("sources", called, said)

    def table(
        self,
        name: str,
        *,
        schema: str | None = None,
        options: Mapping[str, object] | None = None,
        **path: str,
    ) -> str:
        """A table on disk: `pipeline.table("customers", parquet="./customers")`."""
        return self._add("sources", name, {**path, "schema": schema, "options": options})

    # --- Steps -----------------------------------------------------------------------------------

    def sql(self, name: str, query: str, *, watermark: WatermarkLike = None) -> str:
        """A table that a query makes of others."""
        return self._add("steps", name, {"sql": query, "watermark": watermark_of(watermark)})

    @overload
    def step(self, function: F) -> F: ...

    @overload
    def step(
        self,
        *,
        name: str | None = None,
        inputs: Sequence[TableName] | None = None,
        watermark: WatermarkLike = None,
    ) -> Callable[[F], F]: ...

    def step(
        self,
        function: F | None = None,
        *,
        name: str | None = None,
        inputs: Sequence[TableName] | None = None,
        watermark: WatermarkLike = None,
    ) -> F | Callable[[F], F]:
        """A table that a function makes of data frames; its parameters are the tables it takes."""

        def add(made: F) -> F:
            code = getattr(made, "__code__", None)
            place = self._here() if code is None else Place(code.co_firstlineno, 1)
            called = name or made.__name__
            tables = (
                parameters_of(made) if inputs is None else [table_name(each) for each in inputs]
            )
            said = {
                "from": tables,
                "python": f"{made.__module__}:{made.__name__}".replace("<lambda>", "function"),
                "watermark": watermark_of(watermark),
            }
            self._functions[called] = made
            self._add("steps", called, said, place)
            return made

        return add if function is None else add(function)

    def window(
        self,
        name: str,
        table: TableName,
        *,
        on: str,
        size: str | None = None,
        slide: str | None = None,
        gap: str | None = None,
        by: str | Sequence[str] = (),
        select: Mapping[str, str],
    ) -> str:
        """An aggregate over windows of time, or over sessions that end after a gap."""
        window = {
            "on": on,
            "size": size,
            "slide": slide,
            "gap": gap,
            "by": [by] if isinstance(by, str) else list(by) or None,
            "select": select,
        }
        return self._add("steps", name, {"from": table_name(table), "window": window})

    def join(
        self,
        name: str,
        left: TableName,
        right: TableName,
        *,
        on: str,
        how: str = "inner",
        within: str | None = None,
        select: Mapping[str, str] | None = None,
    ) -> str:
        """Two tables side by side."""
        join = {
            "left": table_name(left),
            "right": table_name(right),
            "on": on,
            "how": how,
            "within": within,
            "select": select,
        }
        return self._add("steps", name, {"join": join})

    def rules(
        self,
        name: str,
        table: TableName,
        rules: Sequence[str | Mapping[str, str]],
        *,
        dead_letters: str | None = None,
    ) -> str:
        """A table without the rows that break a rule; a rule is a condition, or what YAML takes."""
        said = [{"expect": each} if isinstance(each, str) else dict(each) for each in rules]
        return self._add(
            "steps", name, {"from": table_name(table), "rules": said, "dead_letters": dead_letters}
        )

    # --- Sinks -----------------------------------------------------------------------------------

    def to_topic(
        self,
        topic: str,
        table: TableName,
        *,
        name: str | None = None,
        key: str | None = None,
        value: str | None = None,
        mode: str | None = None,
        trigger: str | None = None,
        create: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Write a table to a topic."""
        said = {"topic": topic, "key": key, "value": value, "create": create, "options": options}
        self._sink(name or topic, table, said, mode, trigger)

    def to_table(
        self,
        table: TableName,
        *,
        name: str | None = None,
        partition_by: str | Sequence[str] = (),
        trigger: str | None = None,
        options: Mapping[str, object] | None = None,
        **path: str,
    ) -> None:
        """Write a table to disk: `pipeline.to_table(valid, delta="./lake/orders")`."""
        columns = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        said = {**path, "partition_by": columns or None, "options": options}
        self._sink(name or table_name(table), table, said, None, trigger)

    def to_console(
        self,
        table: TableName,
        *,
        name: str | None = None,
        rows: int = 20,
        mode: str | None = None,
        trigger: str | None = None,
    ) -> None:
        """Print a table."""
        called = name or f"{table_name(table)}-console"
        self._sink(called, table, {"console": {"rows": rows}}, mode, trigger)

    def _sink(
        self,
        name: str,
        table: TableName,
        said: Mapping[str, Any],
        mode: str | None,
        trigger: str | None,
    ) -> None:
        common = {"from": table_name(table), "mode": mode, "trigger": trigger}
        self._add("sinks", name, {**common, **said})

    # --- The whole -------------------------------------------------------------------------------

    def load(self) -> Loaded:
        """The pipeline as it was written down, and what is wrong with how it was."""
        entries = [
            (key_of(key, self._place), node_of(value, self._place))
            for key, value in {"name": self.name, **self._settings}.items()
            if value is not None
        ]
        for kind, parts in self._parts.items():
            if parts:
                node = Entries(tuple(parts), parts[0][0].place)
                entries.append((key_of(kind, self._place), node))
        loaded = read_tree(Entries(tuple(entries), self._place), self.file, {})
        if loaded.pipeline is None:
            return loaded
        steps = tuple(
            replace(each, function=self._functions[each.name])
            if isinstance(each, PythonStep) and each.name in self._functions
            else each
            for each in loaded.pipeline.steps
        )
        return replace(loaded, pipeline=replace(loaded.pipeline, steps=steps))

    def build(self) -> Pipeline:
        """The pipeline, checked.

        Raises:
            PipelineError: with everything that is wrong.
        """
        return checked(self.load()).sound_pipeline(self.file)

    def run(self, *, available_now: bool = False, timeout_s: float | None = None) -> RunReport:
        """Check the pipeline and run it, as `goqueue pipeline run` does."""
        from goqueue.spark.pipelines.execution.running import run_pipeline  # noqa: PLC0415 - needs Spark

        return run_pipeline(self.build(), available_now=available_now, timeout_s=timeout_s)

    def _add(
        self, kind: str, name: str, said: Mapping[str, Any], place: Place | None = None
    ) -> str:
        at = place or self._here()
        self._parts[kind].append((key_of(name, at), node_of(said, at)))
        return name

    def _here(self) -> Place:
        return caller()[1]


def pipeline(
    name: str,
    *,
    servers: str | None = None,
    http: str | None = None,
    checkpoints: str | None = None,
    trigger: str | None = None,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
    connection: Mapping[str, object] | None = None,
) -> Draft:
    """Begin a pipeline; a file has one, at its top level, under any name.

    Args:
        name: What it is called.
        servers: Where the broker is; `127.0.0.1:9092` by default.
        http: Its HTTP address: schemas come from there, and progress is shown there.
        checkpoints: A folder, beside the file unless it is absolute.
        trigger: `10 seconds`, `available-now` or `as-fast-as-possible`.
        master: Where Spark runs; `local[*]` by default.
        conf: Settings of Spark.
        connection: Options of the connection, such as `kafka.sasl.username`.
    """
    file, place = caller()
    broker = {"servers": servers, "http": http, "options": connection}
    spark = {"master": master, "conf": conf}
    settings = {
        "broker": {key: value for key, value in broker.items() if value is not None} or None,
        "checkpoints": checkpoints,
        "trigger": trigger,
        "spark": {key: value for key, value in spark.items() if value is not None} or None,
    }
    return Draft(name, settings, file, place)
