"""Every example of the page on transactions runs, in the order of the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "transactions.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def test_the_examples_of_the_page_on_transactions_run(broker):
    assert len(EXAMPLES) == 2
    for example in EXAMPLES:
        code = example.replace("127.0.0.1:9092", broker.kafka_address)
        assert code != example, "an example that connects nowhere"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{example}\n{done.stderr}"
