"""The profiles of k6 against a live broker: every request they make is understood."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.go_tools import go_tool

if TYPE_CHECKING:
    from support.server import ServerProcess

RUN = Path(__file__).parents[2] / "deploy/load/run"


def test_what_is_not_understood_is_answered_with_how_to_call_it() -> None:
    done = subprocess.run([RUN, "fast"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "deploy/load/run quick" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["quick"], ["custom", "10", "30"]], ids=["quick", "custom"])
def test_a_profile_publishes_and_acknowledges_without_a_failure(
    broker: ServerProcess, arguments: list[str]
) -> None:
    go_tool("k6")
    environment = {**os.environ, "GOQUEUE_SERVER": broker.http_url}
    done = subprocess.run(
        [RUN, *arguments], capture_output=True, text=True, timeout=240, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for counted in ("messages_produced", "messages_acknowledged"):
        counts = [int(each) for each in re.findall(rf"{counted}\.*: (\d+)", done.stdout)]
        assert max(counts) > 100, done.stdout
    rates = [float(each) for each in re.findall(r"failed\.*: ([\d.]+)%", done.stdout)]
    assert rates
    assert not any(rates), done.stdout
    ages = [seconds(each) for each in re.findall(r"end_to_end_latency.* max=(\S+)", done.stdout)]
    assert ages
    assert max(ages) < 40, done.stdout  # nothing from before the profile, which takes 30 s


def seconds(text: str) -> float:
    """A duration as k6 shows it, such as 1m27s, 55.6s or 20.1ms."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6}
    return sum(float(n) * units[unit] for n, unit in re.findall(r"([\d.]+)(h|ms|µs|m|s)", text))
