from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.commands import bench as bench_command
from goqueue.cli.root import app

GOQUEUE = [sys.executable, "-c", "from goqueue.cli import main; main()"]


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: a checkout's benchmarks are imported once in each."""
    command = [*GOQUEUE, "bench", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_group_runs_prints_a_table_and_adds_to_the_local_results(checkout: Path) -> None:
    done = bench(checkout, "toy")
    assert done.returncode == 0, done.stderr
    assert "toy.copy: Copy some bytes" in done.stdout
    assert "0.75" in done.stdout
    assert "a [note] in brackets" in done.stdout
    results = checkout / "benchmarks" / "results"
    assert [line["benchmark"] for line in lines_of(results / "local.jsonl")] == [
        "toy.copy",
        "toy.idle",
    ]
    assert not (results / "history.jsonl").exists()


def test_recording_adds_to_the_tracked_history_and_only_to_it(checkout: Path) -> None:
    for _ in range(2):
        assert bench(checkout, "toy.idle", "--record").returncode == 0
    results = checkout / "benchmarks" / "results"
    assert len(lines_of(results / "history.jsonl")) == 2
    assert not (results / "local.jsonl").exists()


def test_json_output_is_what_is_kept(checkout: Path) -> None:
    done = bench(checkout, "toy", "-o", "json")
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert printed == lines_of(checkout / "benchmarks" / "results" / "local.jsonl")
    assert printed[0]["rows"] == [
        {"label": "plain", "value": 200.0, "unit": "B/s"},
        {"label": "ours", "value": 150.0, "unit": "B/s", "ratio": 0.75, "against": "plain"},
    ]


def test_benchmarks_are_found_from_a_folder_inside_the_checkout(checkout: Path) -> None:
    done = bench(checkout / "src" / "goqueue", "toy", "--list", "-o", "json")
    assert json.loads(done.stdout) == [
        {"benchmark": "toy.copy", "measures": "Copy some bytes"},
        {"benchmark": "toy.idle", "measures": "Do nothing"},
    ]
    assert not (checkout / "benchmarks" / "results").exists()


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [("nonsense", "there are: against_kafka, broken, toy"), ("toy.nonsense", "toy.idle")],
)
def test_an_unknown_name_is_refused_with_what_there_is(
    checkout: Path, wanted: str, hint: str
) -> None:
    done = bench(checkout, wanted)
    assert done.returncode == 2
    assert hint in done.stderr


def test_a_module_that_cannot_be_imported_says_so_and_is_not_called_unknown(checkout: Path) -> None:
    done = bench(checkout, "broken")
    assert done.returncode == 1
    assert "needs a library" in done.stderr


def test_a_benchmark_that_cannot_run_here_is_skipped_with_the_reason(checkout: Path) -> None:
    done = bench(checkout, "against_kafka", "toy.idle")
    assert done.returncode == 0, done.stderr
    assert "against_kafka.jars was skipped: there are no jars" in done.stderr
    assert "1 added" in done.stderr
    (kept,) = lines_of(checkout / "benchmarks" / "results" / "local.jsonl")
    assert kept["benchmark"] == "toy.idle"


def test_a_folder_of_kafkas_jars_runs_the_group_that_needs_them(checkout: Path) -> None:
    (checkout / "jars").mkdir()
    done = bench(checkout, "--against-kafka", "jars", "-o", "json")
    (printed,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert printed["benchmark"] == "against_kafka.jars"
    assert printed["notes"] == [str(checkout / "jars")]


def test_a_folder_of_jars_that_does_not_exist_is_refused(checkout: Path) -> None:
    done = bench(checkout, "--against-kafka", "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr


def test_without_a_checkout_the_command_says_where_benchmarks_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_command, "_search_path", lambda: [tmp_path])
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 1
    assert "make bench" in result.stderr


def test_the_nearest_checkout_is_taken(checkout: Path, tmp_path: Path) -> None:
    assert bench_command.find_checkout([tmp_path / "src", checkout]) == checkout
    assert bench_command.find_checkout([tmp_path / "src"]) is None


def test_an_editable_install_finds_its_own_benchmarks_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = bench_command.find_checkout(bench_command._search_path())
    assert found == Path(__file__).resolve().parents[3]
