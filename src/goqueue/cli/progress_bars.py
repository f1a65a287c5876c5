"""Progress bars on standard error: one for each stage of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from goqueue.cli.output import note

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress, TaskID


class Bars:
    """Called with a stage, how much of it is done, and the total; draws a bar on a terminal.

    Without a terminal each stage is named once where `names_stages` says so, so that a log shows
    how far a job came.
    """

    def __init__(self, *, names_stages: bool = False) -> None:
        self._names_stages = names_stages
        self._stages: dict[str, TaskID | None] = {}
        self._drawn: RichProgress | None = None

    def __enter__(self) -> Self:
        from rich.console import Console  # noqa: PLC0415 - start-up stays light
        from rich.progress import (  # noqa: PLC0415 - the same
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if console.is_terminal:
            self._drawn = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """Show how much of a stage is done."""
        if self._drawn is None:
            if stage not in self._stages and self._names_stages:
                note(f"{stage} ...")
            self._stages[stage] = None
            return
        task = self._stages.get(stage)
        if task is None:
            self._end_others()
            task = self._stages[stage] = self._drawn.add_task(stage, total=total)
        self._drawn.update(task, completed=done, total=total)

    def _end_others(self) -> None:
        """Stop the clocks of earlier stages."""
        for task in self._stages.values():
            if task is not None and self._drawn is not None:
                self._drawn.stop_task(task)
