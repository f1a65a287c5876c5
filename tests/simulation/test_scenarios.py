"""Classic cases of replication as scripts with their traces.

After a change that alters a trace for good, write them anew and read the difference:

    python -m simulation.test_scenarios
"""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.scenarios import parse, play

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_takes_its_course(path: Path) -> None:
    assert play(path) == parse(path)[1]


def rewrite() -> None:
    """Write the traces as they are now."""
    for path in FILES:
        script, _, _ = path.read_text(encoding="utf-8").partition("----\n")
        path.write_text(script + "----\n" + "\n".join(play(path)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    rewrite()
