"""What Spark's streams allow: watermarks, output modes, joins; found before Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.durations import duration_us
from goqueue.spark.pipelines.model import (
    NO_UPDATES,
    JoinStep,
    OutputMode,
    Sink,
    TableSink,
    TopicSink,
    WindowStep,
)
from goqueue.spark.pipelines.natures import Kind, Nature, Stateful, natures_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.pipelines.checks.findings import Findings

_A_WATERMARK: Final = "watermark: {column: …, delay: 1 minute}"


def check_streams(findings: Findings) -> None:
    """Note what Spark would refuse, and what would keep its state for ever."""
    natures = natures_of(findings.pipeline)
    for step in findings.pipeline.steps:
        if isinstance(step, WindowStep):
            _check_window(findings, step)
        elif isinstance(step, JoinStep):
            _check_join(findings, step, natures)
    for sink in findings.pipeline.sinks:
        nature = natures.get(sink.input)
        if nature is not None:
            _check_sink(findings, sink, nature)
    _check_endless(findings, natures)


# --- Windows -------------------------------------------------------------------------------------


def _check_window(findings: Findings, step: WindowStep) -> None:
    path = f"steps.{step.name}.window"
    if step.slide is None or not step.size:
        return
    if _us(step.slide) > _us(step.size):
        findings.error(
            f"{path}.slide",
            f"a window of {step.size} every {step.slide} leaves out the time between them: make "
            "slide at most size",
        )


def _us(text: str) -> int:
    try:
        return duration_us(text)
    except ValueError:  # reported where it was read
        return 0


# --- Joins ---------------------------------------------------------------------------------------


def _check_join(findings: Findings, step: JoinStep, natures: Mapping[str, Nature]) -> None:
    left, right = natures.get(step.left), natures.get(step.right)
    if left is None or right is None:
        return
    path = f"steps.{step.name}.join"
    if left.is_stream and right.is_stream:
        _check_two_streams(findings, step, left, right)
        return
    if step.within is not None:
        findings.warn(f"{path}.within", "within is for two streams, and one of these is a table")
    if left.is_stream == right.is_stream:
        return
    stream = "left" if left.is_stream else "right"
    allowed = {
        "left": {"inner", "left", "left_semi", "left_anti"},
        "right": {"inner", "right"},
    }[stream]
    if step.how not in allowed:
        findings.error(
            f"{path}.how",
            f"a {step.how} join with the stream on the {stream} would have to wait for ever: Spark "
            f"allows {', '.join(sorted(allowed))}; or change the sides",
        )


def _check_two_streams(findings: Findings, step: JoinStep, left: Nature, right: Nature) -> None:
    path = f"steps.{step.name}.join"
    if step.how == "left_anti":
        findings.error(f"{path}.how", "Spark cannot do a left_anti join of two streams")
        return
    bare = [
        name
        for name, nature in ((step.left, left), (step.right, right))
        if nature.time is None and not nature.is_open
    ]
    is_needed = step.how != "inner" or step.within is not None
    if bare and is_needed:
        why = "within" if step.within is not None else f"a {step.how} join of two streams"
        findings.error(
            path,
            f"{why} needs a watermark on both, and there is none on {' and '.join(bare)}: add "
            f"{_A_WATERMARK}",
        )
    if step.within is None and step.how != "inner":
        findings.error(
            path,
            f"a {step.how} join of two streams has to know when to stop waiting: add within, as in "
            "within: 10 minutes",
        )
    if step.how == "inner" and (bare or step.within is None):
        findings.warn(
            path,
            "the join of two streams keeps every row for ever: give both a watermark, and the join "
            "within, as in within: 10 minutes",
        )


# --- Sinks ---------------------------------------------------------------------------------------


def _check_sink(findings: Findings, sink: Sink, nature: Nature) -> None:
    path = f"sinks.{sink.name}.mode"
    if isinstance(sink, TableSink) and sink.mode is not OutputMode.APPEND:
        findings.error(
            path,
            f"a table takes rows and gives none back: mode {sink.mode} is for topics and the "
            "console; use append, with a watermark where something is counted",
        )
        return
    if not nature.is_stream:
        return
    is_update_of_topic = isinstance(sink, TopicSink) and sink.mode is OutputMode.UPDATE
    if is_update_of_topic and findings.pipeline.is_remote:
        findings.error(path, NO_UPDATES)
    aggregates = [each for each in nature.operators if each.kind is Kind.AGGREGATE]
    if sink.mode is OutputMode.APPEND:
        for each in aggregates:
            _check_append(findings, sink, each)
        return
    if sink.mode is OutputMode.COMPLETE and not aggregates and not nature.is_open:
        findings.error(
            path,
            f"complete is for what is counted, and nothing behind {sink.input} is: use append",
        )
    several = [each for each in nature.operators if each.kind is not Kind.DISTINCT]
    if len(several) > 1:
        steps = ", ".join(each.step for each in several)
        findings.error(
            path,
            f"there are several steps with a memory behind it ({steps}), which Spark allows in "
            "mode append alone",
        )
    elif any(each.is_outer for each in several):
        findings.error(path, "an outer join of two streams is written in mode append alone")


def _check_append(findings: Findings, sink: Sink, operator: Stateful) -> None:
    if operator.has_watermark is not False or findings.is_troubled(f"steps.{operator.step}"):
        return
    step = next((each for each in findings.pipeline.steps if each.name == operator.step), None)
    column = step.on if isinstance(step, WindowStep) else "…"
    findings.error(
        f"sinks.{sink.name}",
        f"{operator.step} has {operator.text} without a watermark on {column}, so that none ever "
        f"closes, and mode append writes those that are closed: add watermark: {{column: {column}, "
        "delay: 1 minute} to its source, or write mode: update",
    )


def _check_endless(findings: Findings, natures: Mapping[str, Nature]) -> None:
    """State that grows until the memory is full, where no error says so."""
    seen: set[str] = set()
    appended = {each.path for each in findings.problems}
    for nature in natures.values():
        for each in nature.operators:
            if each.step in seen or each.has_watermark is not False:
                continue
            if findings.is_troubled(f"steps.{each.step}"):
                continue
            seen.add(each.step)
            if each.kind is Kind.JOIN and f"steps.{each.step}.join" in appended:
                continue
            if each.kind is Kind.AGGREGATE and _is_reported(findings, each):
                continue
            findings.warn(
                f"steps.{each.step}",
                f"{each.text}: without a watermark its state grows for ever; add {_A_WATERMARK} to "
                "its source",
            )


def _is_reported(findings: Findings, operator: Stateful) -> bool:
    start = f"{operator.step} has {operator.text} without a watermark"
    return any(each.message.startswith(start) for each in findings.problems)
