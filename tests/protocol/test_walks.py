"""How many files one follows from the socket to the disk and back, counted while they run.

A file is on a walk when it is on the call stack of the broker at a moment that counts: a task is
started, the answer is given to the socket, the log is written, the log is read. What is called on
the way and returns (a codec, a counter, a clock) is looked up, not followed. `runtime` is the
operating system's side of the same calls, and `testing` starts the broker.

docs/explanation/architecture.md tells both walks; the lists there are compared with what ran.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import goqueue
from goqueue.runtime.disk import SystemFile
from goqueue.testing.brokers import Broker
from protocol.raw_kafka import RawKafka, make_batch
from support.alone import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ROOT: Final = Path(goqueue.__file__).parent
ASYNCIO: Final = str(Path(asyncio.__file__).parent)
NOT_FOLLOWED: Final = {"runtime", "testing"}
SYSTEM_CALLS: Final = {"pwrite", "pread", "preadv"}
ASYNCIO_CALLS: Final = {"create_task", "write", "writelines"}
REPEATS: Final = 5
PAGE: Final = ROOT.parents[1] / "docs" / "explanation" / "architecture.md"


class Walk:
    """Notes the files on the call stack of every thread that was started under it."""

    def __init__(self) -> None:
        self._is_on = False
        self._files: dict[str, None] = {}

    def hook(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._is_on:
            return
        if event == "c_call":
            counts = argument.__module__ == "posix" and argument.__name__ in SYSTEM_CALLS
        else:
            code = frame.f_code
            counts = (
                event == "call"
                and code.co_name in ASYNCIO_CALLS
                and code.co_filename.startswith(ASYNCIO)
            )
        if counts:
            self._files.update(dict.fromkeys(reversed(list(_followed(frame)))))

    def files(self, step: Callable[[], None]) -> list[str]:
        """The files that are on the walk each time that it is walked, in the order of the first."""
        step()
        found: list[list[str]] = []
        for _ in range(REPEATS):
            self._files = {}
            self._is_on = True
            step()
            self._is_on = False
            found.append(list(self._files))
        return [each for each in found[0] if all(each in other for other in found)]


def _followed(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            name = path.relative_to(ROOT)
            if name.parts[0] not in NOT_FOLLOWED:
                yield name.as_posix()
        frame = frame.f_back


def walking() -> Walk:
    """Begin, in a process of its own: whatever else has threads there would be followed, too."""
    # Not every file system can say whether bytes are in memory; what is read here always is.
    SystemFile.read_cached = SystemFile.read  # type: ignore[method-assign]
    walk = Walk()
    threading.setprofile(walk.hook)
    return walk


def told(heading: str) -> list[str]:
    """The files that the page names under a heading, each first on its line."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\d+\. `([a-z_/]+\.py)`", section, re.MULTILINE)


def test_a_batch_goes_to_the_disk_and_to_a_consumer_in_twelve_files() -> None:
    alone(batch)


def batch() -> None:
    walk = walking()
    with Broker() as broker, RawKafka(int(broker.kafka_address.rpartition(":")[2])) as client:
        client.create("walked")

        def step() -> None:
            produced = client.produce("walked", make_batch(b"v"))
            assert produced.error_code == 0
            assert client.fetch("walked", produced.base_offset).records

        files = walk.files(step)
    assert len(files) <= 12, "\n".join(files)
    assert sorted(told("A batch")) == sorted(files)


def test_a_queue_message_is_published_polled_and_acknowledged_in_fifteen_files() -> None:
    alone(queue_message)


def queue_message() -> None:
    walk = walking()
    with Broker() as broker:
        url = urlsplit(broker.http_url)
        assert url.hostname is not None
        connection = HTTPConnection(url.hostname, url.port, timeout=60)

        def call(method: str, path: str, body: object = None) -> Any:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            assert response.status < 300, answer
            return json.loads(answer)

        call("POST", "/topics", {"name": "jobs", "num_partitions": 1})
        joined = call("POST", "/groups/workers/join", {"topics": ["jobs"], "assignment": "shared"})

        def step() -> None:
            call("POST", "/topics/jobs/messages", {"messages": [{"value": "v"}]})
            poll = f"/groups/workers/poll?timeout=30s&member_id={joined['member_id']}"
            (message,) = call("GET", poll)["messages"]
            call("POST", "/messages/ack", {"receipt_handle": message["receipt_handle"]})

        files = walk.files(step)
        connection.close()
    assert len(files) <= 15, "\n".join(files)
    assert sorted(told("A queue message")) == sorted(files)
