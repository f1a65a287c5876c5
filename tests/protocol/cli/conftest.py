from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from goqueue.cli.root import app

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run


@pytest.fixture
def run(goqueue_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process against a live server; `code` is what it must end with."""
    for name in [name for name in os.environ if name.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    given = goqueue_broker.http_url
    monkeypatch.setenv("GOQUEUE_SERVER", given)

    def invoke(*arguments: str, code: int = 0, **options: Any) -> Any:
        nonlocal given
        if os.environ.get("GOQUEUE_SERVER") == given:
            given = goqueue_broker.http_url  # of a cluster: the node that has its turn
            monkeypatch.setenv("GOQUEUE_SERVER", given)
        result = CliRunner().invoke(app, list(arguments), **options)
        assert result.exit_code == code, f"{result.exit_code}: {result.output}\n{result.exception}"
        return result

    return invoke
