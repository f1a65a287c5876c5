"""The experiments for Kubernetes: what they would do, and how they judge what clients saw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.server import ServerProcess

FOLDER = Path(__file__).parents[2] / "deploy/chaos"
EXPERIMENTS = ("pod-kill", "node-drain", "network-partition", "disk-pressure")
LOSING = """\
#!/bin/sh
case "$*" in *"delete pod"*)
    for topic in $(goqueue topic list --output json | grep -o 'chaos-[0-9]*' | sort -u); do
        curl --silent -X DELETE "$GOQUEUE_SERVER/topics/$topic/messages?confirm=true"
    done ;;
esac
"""


def run(
    script: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FOLDER / script, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **(environment or {})},
    )


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_dry_run_prints_each_command_and_runs_none(experiment: str) -> None:
    nothing = {"PATH": "/usr/bin:/bin", "GOQUEUE_SERVER": "http://127.0.0.1:1"}
    done = run(experiment, "--dry-run", "--namespace", "n", "--release", "q", environment=nothing)
    assert done.returncode == 0, done.stderr
    commands = [line for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert "q-goqueue-1" in done.stdout
    assert any("rollout status statefulset/q-goqueue" in each for each in commands)
    assert "goqueue consume" in commands[-1] or "kubectl" in commands[-1]


def test_a_run_of_all_tells_how_each_ended() -> None:
    done = run("run-all", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.split("\n\n")[-1].split() == [w for e in EXPERIMENTS for w in ("passed", e)]
    refused = run("run-all", "--nmespace", "n")
    assert refused.returncode == 2
    assert refused.stderr.count("unknown argument --nmespace") == 1


@pytest.mark.slow
@pytest.mark.parametrize("kubectl", ["#!/bin/sh\n", LOSING], ids=["harmless", "losing"])
def test_an_experiment_fails_when_something_acknowledged_is_missing(
    broker: ServerProcess, tmp_path: Path, kubectl: str
) -> None:
    tool = tmp_path / "kubectl"
    tool.write_text(kubectl)
    tool.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run("pod-kill", environment={"PATH": path, "GOQUEUE_SERVER": broker.http_url})
    judged = next(line for line in done.stdout.splitlines() if line.startswith("acknowledged"))
    if kubectl == LOSING:
        assert done.returncode == 1
        assert ", lost 0," not in judged
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert ", lost 0," in judged
