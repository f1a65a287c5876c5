from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    client = HttpApi(broker.http_port)
    yield client
    client.close()


@pytest.fixture
def topic(api: HttpApi, name: Callable[[str], str]) -> str:
    """A topic of two partitions that no other test uses."""
    made = name("topic")
    api.post("/topics", {"name": made, "num_partitions": 2})
    return made


@pytest.fixture
def group(name: Callable[[str], str]) -> str:
    return name("group")
