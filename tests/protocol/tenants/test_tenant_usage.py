"""The usage of a tenant, which a killed server has told before, is there again after its start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from protocol.tenants.conftest import ENVIRONMENT, ROOT_KEY, Api
from support.server import make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.server import ServerProcess

USAGE = "/topics/__usage/partitions/0/messages?offset=0&limit=1000"


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[ServerProcess]:
    made = make_server(tmp_path / "data", environment=ENVIRONMENT)
    made.start()
    yield made
    made.close()


def test_a_server_that_is_killed_loses_no_usage_that_is_stored(killable: ServerProcess) -> None:
    server = killable
    root = Api(server.http_url, ROOT_KEY)
    root.ok("POST", "/admin/tenants", {"id": "red", "name": "Red"})
    root.ok("POST", "/topics", {"name": "red.orders", "num_partitions": 1})

    def publish(count: int) -> None:
        messages = {"messages": [{"value": "x"}] * count}
        root.ok("POST", "/topics/red.orders/messages", messages)

    def usage() -> int:
        return int(root.ok("GET", "/admin/tenants/red/usage")["published_messages"])

    def stored() -> bool:
        status, answer = root.call("GET", USAGE)
        return status == 200 and json.dumps(answer).count('published_messages\\":40') > 0

    publish(40)
    eventually(stored, "the usage is stored")
    publish(2)
    server.kill()
    server.start()
    eventually(lambda: usage() >= 40, "read again")
    assert usage() in {40, 42}  # what was counted since is lost
    before = usage()
    publish(3)
    assert usage() == before + 3
