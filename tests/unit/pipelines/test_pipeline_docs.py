"""The examples of docs/how-to/pipelines.md are pipelines, and its mistakes are mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goqueue.spark.pipelines.files.loading import load_file
from goqueue.spark.pipelines.model import show_problem

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "pipelines.md").read_text()
GOOD = re.findall(r"```yaml\n(name: .*?)```", PAGE, re.DOTALL)
BAD = re.findall(r'```yaml title="orders.yaml"\n(.*?)```', PAGE, re.DOTALL)
SAID = re.findall(r"\$ goqueue pipeline validate orders.yaml\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_examples() -> None:
    assert (len(GOOD), len(BAD), len(SAID), len(PYTHON)) == (4, 1, 1, 1)


@pytest.mark.parametrize("text", [*GOOD, *PYTHON], ids=lambda text: text.split("\n")[0])
def test_an_example_of_the_page_has_no_problem(text: str, tmp_path: Path) -> None:
    file = tmp_path / ("p.yaml" if text.startswith("name:") else "p.py")
    file.write_text(text)
    (tmp_path / "scoring.py").touch()  # which an example has a function of
    loaded = load_file(file)
    assert loaded.pipeline is not None
    assert [
        show_problem(each) for each in loaded.problems if "pip install" not in each.message
    ] == []


def test_the_mistakes_of_the_page_are_reported_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(BAD[0])
    shown = [show_problem(each, "orders.yaml") for each in load_file(file).problems]
    assert shown == SAID[0].splitlines()
