from __future__ import annotations

import getpass
import io
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from benchmarks import _session, harness
from benchmarks._session import describe_session
from benchmarks.harness import Run, benchmark
from hypothesis import given, strategies as st
from rich.console import Console


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, harness.Benchmark]:
    """A list of benchmarks that ends with the test."""
    empty: dict[str, harness.Benchmark] = {}
    monkeypatch.setattr(harness, "REGISTRY", empty)
    return empty


def quiet() -> Console:
    return Console(file=io.StringIO(), width=100)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_toy_benchmark_leaves_rows_ratios_and_one_line_of_json(
    tmp_path: Path, registry: dict[str, harness.Benchmark]
) -> None:
    @benchmark("toy", "Count to a thousand")
    def toy(run: Run) -> None:
        run.row("plain", 1000, "n/s")
        run.row("ours", 500, "n/s", ratio=0.5, against="plain")
        run.note("on a quiet machine")

    run = harness.execute(registry["test_harness.toy"], quiet())
    entry = harness.record(run, describe_session())
    harness.append_line(tmp_path / "new" / "results.jsonl", entry)
    harness.append_line(tmp_path / "new" / "results.jsonl", entry)

    first, second = (tmp_path / "new" / "results.jsonl").read_text().splitlines()
    assert first == second
    kept = json.loads(first)
    assert kept["benchmark"] == "test_harness.toy"
    assert kept["rows"][1] == {
        "label": "ours",
        "value": 500,
        "unit": "n/s",
        "ratio": 0.5,
        "against": "plain",
    }
    assert kept["notes"] == ["on a quiet machine"]
    assert set(kept) == {"benchmark", "commit", "dirty", "time", "machine", "versions"} | {
        "rows",
        "notes",
    }
    assert set(kept["machine"]) == {"cpu", "cores", "memory_bytes", "python", "kernel"}


def test_the_line_names_no_host_and_no_folder() -> None:
    line = json.dumps(describe_session())
    assert platform.node() not in line
    assert str(harness.ROOT) not in line
    assert f"/{getpass.getuser()}" not in line


def test_the_line_has_the_versions_of_what_is_measured_beside_goqueue() -> None:
    versions = describe_session()["versions"]
    assert versions["confluent-kafka"] == metadata.version("confluent-kafka")
    assert versions["Apache Kafka"] in (_session.ROOT / "benchmarks" / "kafka-pom.xml").read_text()
    assert all(version[0].isdigit() for version in versions.values())


def test_outside_a_repository_the_commit_is_unknown_and_counts_as_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "ROOT", tmp_path)
    session = describe_session()
    assert session["commit"] is None
    assert session["dirty"] is True


def test_the_table_shows_every_row_and_note() -> None:
    run = Run("storage.append", "Append")
    run.row("os.write", 1_234_567.8, "B/s")
    run.row("log", 0.01234, "s", ratio=0.987, against="os.write")
    run.note("fsync [never]")
    console = quiet()
    harness.show(run, console)
    shown = printed(console)
    for expected in ("storage.append: Append", "1,234,568", "0.0123", "0.99", "fsync [never]"):
        assert expected in shown


def test_a_ratio_must_say_to_what_and_a_figure_must_be_a_number() -> None:
    run = Run("a.b", "c")
    with pytest.raises(ValueError, match="against"):
        run.row("ours", 1, "s", ratio=0.5)
    with pytest.raises(ValueError, match="against"):
        run.row("ours", 1, "s", against="plain")
    with pytest.raises(ValueError, match="finite"):
        run.row("ours", float("nan"), "s")
    assert run.rows == []


def test_two_benchmarks_may_not_share_a_name_nor_claim_another_group() -> None:
    benchmark("test_harness.one", "title")(lambda run: None)
    with pytest.raises(ValueError, match="two benchmarks"):
        benchmark("one", "title")(lambda run: None)
    with pytest.raises(ValueError, match="test_harness"):
        benchmark("storage.one", "title")(lambda run: None)


def test_the_scratch_folder_is_on_the_disk_of_the_checkout_and_gone_after_a_failure(
    registry: dict[str, harness.Benchmark],
) -> None:
    seen: list[Path] = []

    @benchmark("failing", "Fail half-way")
    def failing(run: Run) -> None:
        seen.append(run.scratch)
        assert run.scratch.stat().st_dev == harness.ROOT.stat().st_dev
        (run.scratch / "folder").mkdir()
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        harness.execute(registry["test_harness.failing"], quiet())
    assert not seen[0].exists()


def test_progress_passes_on_every_step_with_and_without_a_terminal() -> None:
    for console in (quiet(), Console(file=io.StringIO(), force_terminal=True, width=100)):
        run = Run("a.b", "c", console)
        assert list(run.progress(3, "counting")) == [0, 1, 2]
        assert list(run.progress(iter("xyz"), "spelling")) == ["x", "y", "z"]
        assert ("counting" in printed(console)) == console.is_terminal


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_the_smallest_sample_with_that_share_at_or_below_it(
    samples: list[float], rank: float
) -> None:
    (value,) = harness.percentiles(samples, [rank]).values()

    def share(limit: float) -> float:
        return 100 * sum(sample <= limit for sample in samples) / len(samples)

    assert value == min(sample for sample in samples if share(sample) >= rank)


def test_percentiles_are_named_and_no_samples_are_refused() -> None:
    assert harness.percentiles(range(1, 1001)) == {"p50": 500, "p99": 990, "p99.9": 999}
    with pytest.raises(ValueError, match="no samples"):
        harness.percentiles([])


def test_best_of_calls_as_often_as_asked_and_a_stopwatch_stops_on_errors() -> None:
    calls: list[int] = []
    assert harness.best_of(4, lambda: calls.append(1)) >= 0
    assert len(calls) == 4
    with pytest.raises(RuntimeError), harness.timed() as watch:
        raise RuntimeError
    assert watch.seconds >= 0


def test_peak_memory_is_at_least_what_was_just_held() -> None:
    # In a process of its own: this one may have that much memory left over from other tests.
    program = """
import os
from benchmarks import _session, harness
from benchmarks._session import describe_session
before = harness.peak_rss_bytes() if harness.reset_peak_rss() else 0
block = os.urandom(32 * 1024 * 1024)
print(harness.peak_rss_bytes() - before >= len(block) // 2)
"""
    root = Path(harness.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "True\n"
