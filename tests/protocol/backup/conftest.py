from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Broker
from support.backups import BackupApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def source() -> Iterator[Broker]:
    """A broker to be backed up."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[Broker]:
    """An empty one to be restored into."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def backups(tmp_path: Path) -> Iterator[Callable[..., BackupApi]]:
    """Makes clients of the backups in one folder."""
    made: list[BackupApi] = []

    def make(broker: Broker, destination: str | None = None, **key: str) -> BackupApi:
        api = BackupApi(broker.http_url, destination or str(tmp_path / "backups"), **key)
        made.append(api)
        return api

    yield make
    for each in made:
        each.close()
