"""Paths under the console's address, of which every one is served: nothing of them is kept."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.server import HOST, ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATHS = 1500
_PATH_BYTES = 60_000
_MOST_GROWTH_BYTES = 40 << 20
"""Of the 90 MB that all paths have; what is served beside them takes its share."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = make_server(tmp_path / "data").start()
    yield process
    process.close()


def held_bytes(server: ServerProcess) -> int:
    return sum(map(held_by, server.broker_pids))


def held_by(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    pytest.skip("the system does not tell what a process holds")


def ask_for(connection: http.client.HTTPConnection, number: int) -> int:
    connection.request("GET", f"/console/{number:06}/" + "p" * _PATH_BYTES)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what is held")
def test_many_long_paths_of_the_console_leave_nothing_behind(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=60)
    assert {ask_for(connection, number) for number in range(50)} == {200}
    before_bytes = held_bytes(server)
    assert {ask_for(connection, number) for number in range(50, _PATHS)} == {200}
    grown_bytes = held_bytes(server) - before_bytes
    connection.close()
    assert grown_bytes < _MOST_GROWTH_BYTES, f"{grown_bytes >> 20} MB were kept"
