"""How plans and running queries look in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.cli.times import show_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.model.pipeline_reports import QueryReport
    from goqueue.spark.pipelines.planning import Plan, QueryPlan
    from goqueue.spark.pipelines.surveying import Survey, TopicState


def plan_lines(plan: Plan, survey: Survey | None) -> Iterator[str]:
    """A plan for people: the graph from sources to sinks, then each query by itself."""
    yield f"pipeline {plan.name}: broker {plan.servers}, Spark {plan.master}"
    yield ""
    yield "tables"
    yield from _columns(
        (
            [
                f"  {each.name}",
                each.kind,
                "stream" if each.is_stream else "table",
                f"<- {', '.join(each.inputs)}" if each.inputs else "",
                each.text,
            ]
            for each in plan.tables
        ),
    )
    if survey is not None:
        yield ""
        yield "topics"
        yield from _columns(_topic_cells(each) for each in survey.topics)
    for query in plan.queries:
        yield ""
        waiting = None if survey is None else survey.waiting.get(query.name)
        yield from _query_lines(query, waiting)


def _topic_cells(topic: TopicState) -> list[str]:
    if topic.partitions is None:
        return [f"  {topic.topic}", topic.use, topic.note]
    count = f"{topic.partitions} partition{'' if topic.partitions == 1 else 's'}"
    return [f"  {topic.topic}", topic.use, count, f"{topic.messages:,} messages"]


def _query_lines(query: QueryPlan, waiting: int | None) -> Iterator[str]:
    yield f"{query.name} -> {query.sink}"
    reads = [*(f"topic {each}" for each in query.topics), *query.tables]
    path = [", ".join(reads) or "nothing", *query.steps, query.sink]
    facts = {
        "path": " -> ".join(path),
        "waiting": None if waiting is None else f"{waiting:,} messages",
        "state": "; ".join(query.state) or "none",
        "writes": f"{query.mode}, {query.trigger}, {query.guarantee}",
        "checkpoint": query.checkpoint if query.is_stream else None,
        "group": query.group if query.is_stream else None,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"  {name:<10}  {fact}"


def _columns(rows: Iterable[list[str]]) -> Iterator[str]:
    """Cells below each other; the last of a row is as long as it is."""
    listed = list(rows)
    widths: dict[int, int] = {}
    for row in listed:
        for at, cell in enumerate(row[:-1]):
            widths[at] = max(widths.get(at, 0), len(cell))
    for row in listed:
        cells = [cell.ljust(widths[at]) for at, cell in enumerate(row[:-1])]
        yield "  ".join([*cells, row[-1]]).rstrip()


def query_rows(queries: Iterable[QueryReport]) -> list[dict[str, Any]]:
    """Running queries as rows of a table: those of a run here, or of what the broker was told."""
    return [
        {
            "query": each.name,
            "sink": each.sink,
            "state": each.state,
            "rows": each.rows or 0,
            "rows/s": _rounded(each.rows_per_second),
            "in/s": _rounded(each.input_rows_per_second),
            "lag": each.lag,
            "batch": each.batch_id,
            "took": None if each.batch_ms is None else f"{each.batch_ms:.0f} ms",
            "kept rows": each.state_rows,
            "watermark": show_time(each.watermark) if each.watermark else None,
            "error": each.error,
        }
        for each in queries
    ]


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)
