"""Every example of the client's page runs, in the order of the page, against one server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import make_server

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python-client.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    server = make_server(tmp_path_factory.mktemp("docs") / "data")
    server.start()
    yield server
    server.close()


def test_the_examples_of_the_page_run(shared):
    assert len(EXAMPLES) >= 6
    for example in EXAMPLES:
        code = example.replace("127.0.0.1:9092", shared.kafka_address)
        assert code != example, "an example that connects nowhere"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{example}\n{done.stderr}"
        assert done.stderr == ""
