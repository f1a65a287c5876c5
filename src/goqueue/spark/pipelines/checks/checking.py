"""Whether the parts of a pipeline fit together, judged without Spark and without a broker.

Whatever is certain to fail is an error; what may be meant is a warning. Everything is found in one
go, so that a file is fixed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.checks.columns import check_columns
from goqueue.spark.pipelines.checks.findings import Findings
from goqueue.spark.pipelines.checks.options import check_options
from goqueue.spark.pipelines.checks.streams import check_streams
from goqueue.spark.pipelines.functions import function_file
from goqueue.spark.pipelines.graph import inputs_of, sources_behind
from goqueue.spark.pipelines.model import (
    JoinStep,
    Pipeline,
    Problem,
    PythonStep,
    RulesStep,
    SqlStep,
    Step,
    TopicSink,
)
from goqueue.spark.pipelines.naming import LETTERS, dead_letter_topic, keeps_letters, letter_steps
from goqueue.spark.pipelines.sql_tables import read_query
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.spark.pipelines.yaml_nodes import Place

_MAX_PARTS: Final = 500
"""Each sink is a query with threads of its own; Spark gives up long before this."""


def check(
    pipeline: Pipeline,
    places: Mapping[str, Place] | None = None,
    *,
    left_out: frozenset[str] = frozenset(),
    known_problems: Sequence[Problem] = (),
) -> tuple[Problem, ...]:
    """Everything that is wrong with a pipeline, in the order of its file.

    Args:
        pipeline: What to check.
        places: Where each entry of the file is.
        left_out: Tables that are in the file and could not be understood.
        known_problems: What is known to be wrong: nothing that follows from it is reported.
    """
    troubled = frozenset(".".join(each.path.split(".")[:2]) for each in known_problems)
    findings = Findings(pipeline, places or {}, left_out, troubled)
    if len(pipeline.sources) + len(pipeline.steps) + len(pipeline.sinks) > _MAX_PARTS:
        findings.error("", f"there are more than {_MAX_PARTS} sources, steps and sinks: split it")
        return tuple(findings.problems)
    _check_names(findings)
    _check_inputs(findings)
    cycle = _check_cycles(findings)
    _check_rules(findings)
    _check_functions(findings)
    check_options(findings)
    if not cycle:
        _check_unused(findings)
        _check_loops(findings)
        check_streams(findings)
        check_columns(findings)
    return tuple(sorted(findings.problems, key=lambda each: (each.line or 0, each.column or 0)))


# --- Names ---------------------------------------------------------------------------------------


def _check_names(findings: Findings) -> None:
    pipeline = findings.pipeline
    if not pipeline.sources and not findings.left_out and "sources" not in findings.troubled:
        findings.error("sources", "there are no sources: add what to read, as in {topic: orders}")
    has_sinks = any(each.startswith("sinks.") for each in findings.left_out)
    if not pipeline.sinks and not has_sinks and "sinks" not in findings.troubled:
        findings.error("sinks", "there are no sinks: add where to write")
    seen: dict[str, str] = {}
    for kind, parts in (("sources", pipeline.sources), ("steps", pipeline.steps)):
        for part in parts:
            first = seen.setdefault(part.name.lower(), f"{kind}.{part.name}")
            if first != f"{kind}.{part.name}" or _count(parts, part.name) > 1:
                findings.error(
                    f"{kind}.{part.name}",
                    f"there is a table {first} already, and Spark does not tell Orders from "
                    "orders: rename one",
                )
    _check_checkpoints(findings)


def _count(parts: Sequence[object], name: str) -> int:
    return sum(getattr(each, "name", None) == name for each in parts)


def _check_checkpoints(findings: Findings) -> None:
    """Each query keeps its place in a folder of its own name; disks may not tell A from a."""
    pipeline = findings.pipeline
    seen: dict[str, str] = {
        f"{each.name}{LETTERS}".lower(): f"the dead letters of steps.{each.name}"
        for each in letter_steps(pipeline.steps)
    }
    for sink in pipeline.sinks:
        other = seen.setdefault(sink.name.lower(), f"sinks.{sink.name}")
        if other != f"sinks.{sink.name}" or _count(pipeline.sinks, sink.name) > 1:
            findings.error(
                f"sinks.{sink.name}",
                f"its checkpoint would have the same name as that of {other}: rename one",
            )


# --- The graph -----------------------------------------------------------------------------------


def _check_inputs(findings: Findings) -> None:
    pipeline = findings.pipeline
    known = {*pipeline.table_names, *findings.left_out}
    for step in pipeline.steps:
        if isinstance(step, SqlStep):
            _check_sql(findings, step, known)
        for key, name in _named_by(step):
            _check_table(findings, f"steps.{step.name}.{key}", name, known - {step.name})
            if name == step.name:
                findings.error(f"steps.{step.name}.{key}", "a step cannot be made of itself")
    for sink in pipeline.sinks:
        _check_table(findings, f"sinks.{sink.name}.from", sink.input, known)


def _named_by(step: Step) -> Iterator[tuple[str, str]]:
    match step:
        case SqlStep():
            return
        case PythonStep():
            for each in step.inputs:
                yield "from", each
        case JoinStep():
            yield "join.left", step.left
            yield "join.right", step.right
        case _:
            yield "from", step.input


def _check_table(findings: Findings, path: str, name: str, known: set[str]) -> None:
    if name and name not in known and not path.startswith(f"steps.{name}."):
        tables = sorted(each for each in known if not each.startswith("sinks."))
        hint = nearest(name, tables) or f"; there are: {', '.join(tables) or 'none'}"
        findings.error(path, f"there is no table {name!r}{hint}")


def _check_sql(findings: Findings, step: SqlStep, known: set[str]) -> None:
    path = f"steps.{step.name}.sql"
    query = read_query(step.sql)
    folded = {each.lower() for each in known}
    if not query.is_certain:
        findings.warn(path, "a quote or a bracket is not closed: Spark will hardly understand it")
        return
    for name in query.tables:
        if name.lower() == step.name.lower():
            findings.error(path, f"the query reads {name}, which is this step itself: rename it")
        elif name.lower() not in folded:
            tables = sorted(each for each in known if not each.startswith("sinks."))
            hint = nearest(name, tables) or f"; there are: {', '.join(tables)}"
            findings.error(
                path,
                f"there is no table {name!r}{hint} (a table of Spark's catalogue is written with "
                f"its database, as in default.{name})",
            )
    if not query.tables and not query.qualified:
        findings.warn(path, "no table can be seen in the query: what does it read?")


def _check_cycles(findings: Findings) -> bool:
    """Steps that are made of each other; says whether there are any."""
    pipeline = findings.pipeline
    steps = {each.name: each for each in pipeline.steps}
    done: set[str] = set()
    has_cycle = False
    for name in steps:
        cycle = _cycle(name, steps, [], done)
        if cycle:
            has_cycle = True
            if len(cycle) > 2:  # one step by itself is reported where it says so
                shown = " -> ".join(reversed(cycle))
                findings.error(
                    f"steps.{cycle[0]}",
                    f"steps form a cycle: {shown}; remove one of the references",
                )
    return has_cycle


def _cycle(
    name: str, steps: Mapping[str, Step], path: list[str], done: set[str]
) -> list[str] | None:
    """The first circle that is found from a step on, with its first step at both ends."""
    if name in path:
        return [*path[path.index(name) :], name]
    if name in done:
        return None
    for each in inputs_of(steps[name], list(steps)):
        found = _cycle(each, steps, [*path, name], done)
        if found:
            done.update(found)
            return found
    done.add(name)
    return None


def _check_unused(findings: Findings) -> None:
    pipeline = findings.pipeline
    used = {each.input for each in pipeline.sinks}
    for step in pipeline.steps:
        used.update(inputs_of(step, pipeline.table_names))
    if findings.left_out or findings.problems:
        return  # what seems unused may be what is misspelt elsewhere
    for kind, parts in (("sources", pipeline.sources), ("steps", pipeline.steps)):
        for part in parts:
            if part.name not in used and not (isinstance(part, RulesStep) and keeps_letters(part)):
                findings.warn(
                    f"{kind}.{part.name}",
                    "nothing uses this table: write it somewhere, or remove it",
                )


# --- Rules and loops -----------------------------------------------------------------------------


def _check_rules(findings: Findings) -> None:
    for step in findings.pipeline.steps:
        if not isinstance(step, RulesStep):
            continue
        path = f"steps.{step.name}"
        names = [each.name for each in step.rules]
        for at, name in enumerate(names):
            if name in names[:at]:
                findings.error(
                    f"{path}.rules[{at}]", f"a rule {name!r} is there already: give it another name"
                )
        if findings.is_troubled(path):
            continue
        if not keeps_letters(step):
            if step.dead_letters is not None:
                findings.warn(
                    f"{path}.dead_letters", "no rule says dead-letter: nothing will come there"
                )
        elif step.input and dead_letter_topic(findings.pipeline, step) is None:
            findings.error(
                path,
                "a rule says dead-letter, and rows come from several topics or from none: say "
                "where dead letters go with dead_letters, as in dead_letters: orders.rejected",
            )


def _check_functions(findings: Findings) -> None:
    """Their files must be there; what is in them is only known when they are run."""
    for step in findings.pipeline.steps:
        if not isinstance(step, PythonStep) or not isinstance(step.function, str):
            continue
        home = step.function.rpartition(":")[0]
        file = function_file(home, findings.pipeline.file)
        if home.endswith(".py") and not file.is_file():
            findings.error(f"steps.{step.name}.python", f"there is no file {file}")


def _check_loops(findings: Findings) -> None:
    """What a pipeline writes to a topic that it reads, it reads again, and so on for ever."""
    pipeline = findings.pipeline
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink) and _is_read(pipeline, sink.input, sink.topic):
            findings.warn(
                f"sinks.{sink.name}.topic",
                f"{sink.input} is made of the topic {sink.topic}, and is written to it: every row "
                "is read and written again without end",
            )
    for step in pipeline.steps:
        topic = step.dead_letters if isinstance(step, RulesStep) else None
        if topic is not None and _is_read(pipeline, step.name, topic):
            findings.warn(
                f"steps.{step.name}.dead_letters",
                f"the topic {topic} is read here, too: a dead letter that breaks the rule again "
                "is read and dead-lettered again without end",
            )


def _is_read(pipeline: Pipeline, table: str, topic: str) -> bool:
    return any(each.reads(topic) for each in sources_behind(pipeline, table))
