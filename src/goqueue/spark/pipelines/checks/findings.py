"""Collects what checks find, each with its line: that of the entry, or of the part around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.spark.pipelines.model import Pipeline, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.spark.pipelines.yaml_nodes import Place


@dataclass
class Findings:
    """Problems and warnings so far."""

    pipeline: Pipeline
    places: Mapping[str, Place] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    """Tables that are in the file and could not be understood."""
    troubled: frozenset[str] = frozenset()
    """Parts such as `steps.valid` in which something is wrong already: what seems to be missing
    there may be what is misspelt."""
    problems: list[Problem] = field(default_factory=list)

    def error(self, path: str, message: str) -> None:
        """Note something that keeps the pipeline from running."""
        self._note(path, message, is_warning=False)

    def warn(self, path: str, message: str) -> None:
        """Note something worth a look."""
        self._note(path, message, is_warning=True)

    def is_troubled(self, path: str) -> bool:
        """Whether the part that a path is in was not understood in full."""
        return ".".join(path.split(".")[:2]) in self.troubled

    def _note(self, path: str, message: str, *, is_warning: bool) -> None:
        at = path
        while at and at not in self.places:
            at = at.rpartition(".")[0]
        if at.count(".") >= 1 or (at and at == path):
            place = self.places[at]
            found = Problem(message, place.line, place.column, path, is_warning)
        else:
            found = Problem(message, self._line(path), None, path, is_warning)
        self.problems.append(found)

    def _line(self, path: str) -> int | None:
        kind, _, rest = path.partition(".")
        parts: Iterable[object] = {
            "sources": self.pipeline.sources,
            "steps": self.pipeline.steps,
            "sinks": self.pipeline.sinks,
        }.get(kind, ())
        for part in parts:
            name = getattr(part, "name", "")
            if rest == name or rest.startswith(f"{name}."):
                line: int | None = getattr(part, "line", None)
                return line
        return None
