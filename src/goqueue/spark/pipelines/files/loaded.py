"""What was understood of a file, and everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from goqueue.spark.pipelines.checks.checking import check
from goqueue.spark.pipelines.model import Pipeline, PipelineError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.pipelines.yaml_nodes import Place


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file as it was understood, also where some of it was not."""

    pipeline: Pipeline | None
    """What could be understood; None when nothing could."""
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each entry is, by its path."""
    left_out: frozenset[str] = frozenset()
    """Tables that are there and could not be understood: nobody is to be told that they are not."""

    def sound_pipeline(self, file: str) -> Pipeline:
        """The pipeline, ready to be run.

        Raises:
            PipelineError: with everything that is wrong with the file.
        """
        errors = tuple(each for each in self.problems if not each.is_warning)
        if errors or self.pipeline is None:
            raise PipelineError(errors, file)
        return self.pipeline


def checked(loaded: Loaded) -> Loaded:
    """The same with what is wrong between its parts."""
    if loaded.pipeline is None:
        return loaded
    found = check(
        loaded.pipeline,
        loaded.places,
        left_out=loaded.left_out,
        known_problems=loaded.problems,
    )
    problems = sorted(
        (*loaded.problems, *found), key=lambda each: (each.line or 0, each.column or 0)
    )
    return replace(loaded, problems=tuple(problems))
