"""What went wrong in a query, in one sentence: Spark wraps it in its own and in Python's traces."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS: Final = re.compile(r"goqueue\.(?:[a-z_]+\.)*\w*errors\.\w+: ")
"""How Python prints an error of ours at the end of a trace."""
_RAISED: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)\b:? ?", re.MULTILINE
)
_RULE: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?= SQLSTATE|\Z)", re.DOTALL)
_CLASS: Final = re.compile(r"^(?:\s*\[[A-Z][A-Z0-9_.]+\]\s*)+")
_NOISE: Final = re.compile(
    r"\s*(?:SQLSTATE: \w+|=== Streaming Query ===|== SQL|\n\s*at [\w.$]+\(|JVM stacktrace:"
    r"|This stopped SparkContext was created at:"
    r"|Driver stacktrace:|\n'|\n\+- |;\n).*",
    re.DOTALL,
)
_WRAPPED: Final = re.compile(r"terminated with exception: ")
_SPARK_CLASS: Final = re.compile(r"\b(?:org\.apache\.spark|java)\.[\w.$]+(?:Exception|Error): ")
SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""What Spark raises; the second is what it has not wrapped into an error of its own."""
ERROR_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Where Spark logs what is wrong with a query, with all frames of Java, before it raises it."""
_TOO_SLOW: Final = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start, which a busy machine may not have."""
_LONGEST: Final = 600
"""Characters of a message that fits into a report."""


@contextmanager
def said_once() -> Iterator[None]:
    """Keep Spark from logging, as JSON on stderr, the errors that are raised and shown anyway."""
    loggers = [PySparkLogger.getLogger(name) for name in ERROR_LOGGERS]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was_disabled in zip(loggers, before, strict=True):
            each.disabled = was_disabled


def reason_of(error: BaseException | str | None) -> str:
    """What happened, without the frames, states and ids around it."""
    text = str(error) if error is not None else ""
    return _shortened(_core(text)) or (type(error).__name__ if error else "unknown error")


def may_work_again(reason: str | None) -> bool:
    """Whether a query that failed for this reason may just be started once more."""
    return reason is not None and _TOO_SLOW in reason


def _core(text: str) -> str:
    """The innermost message: of a broken rule, of our own errors, of Python, or of Spark."""
    if found := _RULE.search(text):
        return found[1]
    if ours := list(_OURS.finditer(text)):
        return _until_noise(text[ours[-1].end() :])
    if "Traceback (most recent call last)" in text:
        return _of_python(text)
    inner = _WRAPPED.split(text)[-1].partition("\n\tat ")[0]
    inner = _SPARK_CLASS.split(inner)[-1]
    return _until_noise(_CLASS.sub("", inner))


def _of_python(text: str) -> str:
    """The last line of the last trace, with the name of the error."""
    trace = text.rpartition("Traceback (most recent call last)")[2]
    raised = list(_RAISED.finditer(trace))
    return _until_noise(trace[raised[-1].start() :] if raised else trace)


def _until_noise(text: str) -> str:
    return _NOISE.sub("", text, count=1).strip()


def _shortened(text: str) -> str:
    lines = [each.strip() for each in text.strip().splitlines() if each.strip()]
    whole = " ".join(lines)
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"
