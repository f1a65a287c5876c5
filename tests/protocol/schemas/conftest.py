from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.server import ServerProcess


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    client = HttpApi(broker.http_port)
    yield client
    client.close()
