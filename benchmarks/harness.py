"""Run benchmarks, show what they measured, and keep it as JSON lines.

A benchmark is a function that takes a `Run` and reports rows:

    @benchmark("append", "Append 64 KB batches, against plain os.write")
    def append(run: Run) -> None:
        plain_s = best_of(5, write_plainly)
        ours_s = best_of(5, append_to_log)
        run.row("os.write", SIZE / plain_s, "B/s")
        run.row("log", SIZE / ours_s, "B/s", ratio=plain_s / ours_s, against="os.write")

The file it is in is its group: in `storage.py` this one is `storage.append`. A figure says little
without the machine, so give a ratio to something measured in the same run wherever there is one.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, overload

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import _session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

ROOT: Final = _session.ROOT
describe_session = _session.describe_session
LOCAL_RESULTS: Final = ROOT / "benchmarks" / "results" / "local.jsonl"
RECORDED_RESULTS: Final = ROOT / "benchmarks" / "results" / "history.jsonl"
CONDITIONS: Final = os.environ.get("GOQUEUE_BENCH_CONDITIONS", "")
"""What a reader must know of the machine at the time: a note of every run."""

_REFRESH_S: Final = 0.1
_PROC_STATUS: Final = Path("/proc/self/status")
_PROC_CLEAR_REFS: Final = Path("/proc/self/clear_refs")


# --- What a benchmark reports ------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One figure; `ratio` is this value over the one named by `against`, measured in this run."""

    label: str
    value: float
    unit: str
    ratio: float | None = None
    against: str | None = None


class Skipped(Exception):  # noqa: N818 - as in unittest, it is no error
    """Raise it in a benchmark that cannot run here; the message says what it needs."""


@dataclass
class Run:
    """One execution of one benchmark: what it may use, and what it has found so far."""

    name: str
    title: str
    console: Console = field(default_factory=lambda: Console(stderr=True))
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(
        self,
        label: str,
        value: float,
        unit: str,
        ratio: float | None = None,
        against: str | None = None,
    ) -> None:
        """Report one figure.

        Raises:
            ValueError: the figure is no number, or a ratio does not say to what.
        """
        if (ratio is None) != (against is None):
            raise ValueError(f"{self.name}: {label!r} needs both a ratio and what it is against")
        if not all(math.isfinite(number) for number in (value, ratio or 0.0)):
            raise ValueError(f"{self.name}: {label!r} is not a finite number: {value}, {ratio}")
        self.rows.append(Row(label, value, unit, ratio, against))

    def note(self, text: str) -> None:
        """Say something that belongs beside the figures: what was left out, and why."""
        self.notes.append(text)

    @overload
    def progress(self, work: int, description: str) -> Iterator[int]: ...
    @overload
    def progress(self, work: Iterable[T], description: str) -> Iterator[T]: ...
    def progress(self, work: int | Iterable[Any], description: str) -> Iterator[Any]:
        """Iterate over `work` (a number means that many steps) behind a progress bar.

        The bar redraws between two steps and never from a thread of its own, which would take the
        interpreter from what is being measured. A step should be worth a millisecond or more.
        """
        steps: Iterable[Any] = range(work) if isinstance(work, int) else work
        total = len(steps) if isinstance(steps, Sized) else None
        hidden = not self.console.is_terminal
        with Progress(
            console=self.console, transient=True, auto_refresh=False, disable=hidden
        ) as bar:
            task = bar.add_task(description, total=total)
            drawn_at = -math.inf
            for done, step in enumerate(steps):
                if time.monotonic() - drawn_at > _REFRESH_S:
                    bar.update(task, completed=done, refresh=True)
                    drawn_at = time.monotonic()
                yield step

    @cached_property
    def scratch(self) -> Path:
        """An empty folder on the disk of the checkout, removed when the benchmark ends."""
        (ROOT / "build").mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="bench-", dir=ROOT / "build"))

    def close(self) -> None:
        """Remove the scratch folder, if there is one."""
        scratch = self.__dict__.pop("scratch", None)
        if scratch is not None:
            shutil.rmtree(scratch)


# --- The list of benchmarks --------------------------------------------------------------------

BenchmarkFunction: TypeAlias = "Callable[[Run], None]"


@dataclass(frozen=True)
class Benchmark:
    """A registered function; `name` starts with its group, the module that it is in."""

    name: str
    title: str
    function: BenchmarkFunction

    @property
    def group(self) -> str:
        """The part before the dot."""
        return self.name.partition(".")[0]


class UnknownBenchmarkError(Exception):
    """There is no such group or benchmark; the message lists what there is."""


REGISTRY: Final[dict[str, Benchmark]] = {}


def benchmark(name: str, title: str) -> Callable[[BenchmarkFunction], BenchmarkFunction]:
    """Register a function as `name`, or as `group.name` where the group is its own module.

    Raises:
        ValueError: the name is taken, or claims to be in another module.
    """

    def register(function: BenchmarkFunction) -> BenchmarkFunction:
        group = function.__module__.rpartition(".")[2]
        full_name = name if "." in name else f"{group}.{name}"
        if full_name.partition(".")[0] != group:
            raise ValueError(f"benchmark {name!r} is in the module {group!r}: call it {group}.…")
        if full_name in REGISTRY:
            raise ValueError(f"there are two benchmarks called {full_name!r}")
        REGISTRY[full_name] = Benchmark(full_name, title, function)
        return function

    return register


def groups() -> list[str]:
    """The modules beside this one that may hold benchmarks; `_helpers` are left out."""
    modules = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in modules if name != "harness" and not name.startswith("_"))


def select(wanted: Sequence[str] = ()) -> list[Benchmark]:
    """The benchmarks of the groups, or with the full names, asked for; all when none is.

    Only the modules asked for are imported, so that one group never needs another's libraries.

    Raises:
        UnknownBenchmarkError: there is no such group or benchmark.
    """
    known = groups()
    chosen: dict[str, Benchmark] = {}
    for name in wanted or known:
        group = name.partition(".")[0]
        if group not in known:
            listed = ", ".join(known) or "none yet"
            raise UnknownBenchmarkError(f"no benchmark group {group!r}; there are: {listed}")
        importlib.import_module(f"{__package__}.{group}")
        members = {key: value for key, value in REGISTRY.items() if value.group == group}
        found = members if name == group else {k: v for k, v in members.items() if k == name}
        if wanted and not found:
            listed = ", ".join(members) or "none"
            raise UnknownBenchmarkError(f"no benchmark {name!r}; {group} has: {listed}")
        chosen |= found
    return list(chosen.values())


# --- Measuring ---------------------------------------------------------------------------------


@dataclass
class Stopwatch:
    """What `timed` fills in when its block ends."""

    seconds: float = math.nan


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """Measure the block of a `with`; the stopwatch has the seconds when the block has ended."""
    watch = Stopwatch()
    start = time.perf_counter()
    try:
        yield watch
    finally:
        watch.seconds = time.perf_counter() - start


def best_of(times: int, function: Callable[[], object]) -> float:
    """The seconds of the fastest of so many calls: the one that the machine disturbed least."""
    seconds = []
    for _ in range(times):
        with timed() as watch:
            function()
        seconds.append(watch.seconds)
    return min(seconds)


def percentiles(
    samples: Iterable[float], wanted: Sequence[float] = (50, 99, 99.9)
) -> dict[str, float]:
    """Latencies by nearest rank (`p50`, `p99`, `p99.9`): each is one that really occurred."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("there are no samples to take percentiles of")
    # Rounded first: 99.9 % of 1000 is 999, and in floating point a hair more.
    ranks = {rank: math.ceil(round(len(ordered) * rank / 100, 6)) for rank in wanted}
    return {f"p{rank:g}": ordered[max(place, 1) - 1] for rank, place in ranks.items()}


def peak_rss_bytes() -> int:
    """The most memory this process has held, since its start or since `reset_peak_rss`."""
    if _PROC_STATUS.exists():
        for line in _PROC_STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak_rss() -> bool:
    """Forget the peak so far; false where the system cannot, and the peak is of all the run."""
    try:
        _PROC_CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


# --- Running, showing, keeping -----------------------------------------------------------------


def execute(chosen: Benchmark, console: Console) -> Run:
    """Run one benchmark; its scratch folder is gone afterwards, also when it fails."""
    run = Run(chosen.name, chosen.title, console)
    try:
        chosen.function(run)
    finally:
        run.close()
    if CONDITIONS:
        run.note(CONDITIONS)
    return run


def show(run: Run, console: Console) -> None:
    """Print the rows as a table and the notes below it."""
    table = Table(title=f"{run.name}: {run.title}", title_justify="left")
    table.add_column("what")
    for heading in ("value", "unit", "ratio"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    table.add_column("against")
    for row in run.rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.label, readable(row.value), row.unit, ratio, row.against or "")
    console.print(table)
    for note in run.notes:
        console.print(f"  {note}", markup=False, highlight=False)


def readable(value: float) -> str:
    """A number for a table: whole when large, three significant digits when small."""
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def record(run: Run, session: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: where and when it was, and its figures."""
    rows = [{k: v for k, v in asdict(row).items() if v is not None} for row in run.rows]
    return {"benchmark": run.name, **session, "rows": rows, "notes": run.notes}


def append_line(path: Path, entry: dict[str, Any]) -> None:
    """Add one line of JSON to a results file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, allow_nan=False, ensure_ascii=False) + "\n")
