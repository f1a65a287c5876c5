"""Queue groups over HTTP when the server is killed: what was acknowledged stays so."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from support.http_api import HttpApi
from support.server import start_server  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess

TOPIC, GROUP = "work", "workers"


def join(api: HttpApi, **fields: Any) -> str:
    return str(api.post(f"/groups/{GROUP}/join", {"topics": [TOPIC], **fields})["member_id"])


def poll(api: HttpApi, member: str, query: str = "") -> list[dict[str, Any]]:
    path = f"/groups/{GROUP}/poll?member_id={member}&timeout=60s&{query}"
    found: list[dict[str, Any]] = api.get(path)["messages"]
    return found


def killed(server: ServerProcess, api: HttpApi) -> HttpApi:
    """The server after `kill -9` and a start, as a client sees it."""
    api.close()
    server.kill()
    server.start()
    return HttpApi(server.http_port)


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:  # noqa: F811 - see above
    return start_server()


@pytest.mark.parametrize("assignment", ["shared", "exclusive"])
def test_after_a_kill_nothing_acknowledged_comes_again_and_everything_else_does(
    server: ServerProcess, assignment: str
) -> None:
    api = HttpApi(server.http_port)
    api.post("/topics", {"name": TOPIC, "num_partitions": 1})
    member = join(api, assignment=assignment, visibility_timeout="1h", max_deliveries=5)
    api.publish(TOPIC, *"abcdefgh")
    taken = poll(api, member, "limit=6")
    handles = [each["receipt_handle"] for each in taken]
    api.post("/messages/ack", {"receipt_handle": handles[0]})
    api.post("/messages/ack", {"receipt_handle": handles[2]})
    api.post("/messages/nack", {"receipt_handle": handles[3], "delay": "500ms"})
    api.post("/messages/reject", {"receipt_handle": handles[5], "reason": "no"})
    api.post("/messages/visibility", {"receipt_handle": handles[4], "extension": "2h"})
    api.post("/messages/visibility", {"receipt_handle": handles[1], "extension": "1s"})
    api = killed(server, api)
    found = api.get(f"/groups/{GROUP}")
    assert found["offsets"] == {TOPIC: {"0": 1}}
    queue = found["queue"]
    assert queue["in_flight"] + queue["waiting"] + queue["ready"] == 5
    assert queue["settings"]["max_deliveries"] == 5
    api.post("/messages/ack", {"receipt_handle": handles[4]})  # a receipt from before
    answer = api.ask("POST", "/messages/ack", {"receipt_handle": handles[0]})
    assert (answer.status, answer.code) == (404, "unknown_receipt")
    member = join(api, assignment=assignment, member_id=member)
    counts: dict[str, int] = {}
    deadline = time.monotonic() + 120
    while len(counts) < 4:
        assert time.monotonic() < deadline, counts
        for each in poll(api, member, "visibility=1h"):
            assert each["value"] not in counts
            counts[each["value"]] = each["delivery_count"]
            api.post("/messages/ack", {"receipt_handle": each["receipt_handle"]})
    assert counts == {"b": 2, "d": 2, "g": 1, "h": 1}
    while api.get(f"/groups/{GROUP}")["total_lag"]:  # until the rejected one is put away
        assert time.monotonic() < deadline
    letters = api.get(f"/topics/{TOPIC}/dlq")["letters"]
    assert [each["preview"] for each in letters] == ["f"]
    api.close()


class Crowd:
    """A publisher and workers that go on whatever happens to the server, and what they saw."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self.published: set[str] = set()
        self.settled: Counter[str] = Counter()
        """How often each message was acknowledged with an answer that said so."""
        self.unanswered: set[str] = set()
        """Messages whose acknowledgement had no answer: it may be stored, or not."""
        self.late: list[str] = []
        """Messages that were handed out after that."""
        self._over = threading.Event()
        works = (self._publish, self._consume, self._consume)
        self._threads = [threading.Thread(target=self._go_on, args=(work,)) for work in works]

    def _go_on(self, work: Callable[[HttpApi], None]) -> None:
        while not self._over.is_set():
            api = HttpApi(self._port)
            try:
                work(api)
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(0.02)
            finally:
                api.close()

    def _publish(self, api: HttpApi) -> None:
        while not self._over.is_set() and len(self.published) < self._count:
            batch = [f"{len(self.published) + number}" for number in range(10)]
            if all(each["status"] == 200 for each in api.publish(TOPIC, *batch)):
                self.published.update(batch)
        self._over.wait()

    def _consume(self, api: HttpApi) -> None:
        member = join(api, assignment="shared")
        while not self._over.is_set():
            for each in poll(api, member, "timeout=300ms&limit=20"):
                if self.settled[each["value"]]:
                    self.late.append(each["value"])
                handle = {"receipt_handle": each["receipt_handle"]}
                self.unanswered.add(each["value"])
                if api.ask("POST", "/messages/ack", handle).status == 200:
                    self.settled[each["value"]] += 1
                self.unanswered.discard(each["value"])

    def _unsettled(self) -> set[str]:
        return self.published - self.settled.keys() - self.unanswered

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait until every message is settled."""
        deadline = time.monotonic() + 120
        try:
            while len(self.published) < self._count or self._unsettled():
                assert time.monotonic() < deadline, self._unsettled()
                time.sleep(0.05)
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()


def stored(api: HttpApi, topic: str, partitions: int) -> Counter[str]:
    """Every value of a topic, and how often it is there."""
    found: Counter[str] = Counter()
    for number in range(partitions):
        offset, end = 0, 1
        while offset < end:
            path = f"/topics/{topic}/partitions/{number}/messages?limit=1000&offset={offset}"
            page = api.get(path)
            found.update(each["value"] for each in page["messages"])
            offset, end = page["next_offset"], page["high_watermark"]
    return found


def test_a_message_is_settled_once_however_often_the_server_is_killed(
    server: ServerProcess,
) -> None:
    chance = random.Random(20251116)
    api = HttpApi(server.http_port)
    api.post("/topics", {"name": TOPIC, "num_partitions": 3})
    join(api, assignment="shared", visibility_timeout="700ms", max_deliveries=200)
    api.close()
    crowd = Crowd(server.http_port, 1000)
    crowd.begin()
    for _ in range(4):
        time.sleep(chance.uniform(0.1, 0.5))
        server.kill()
        server.start()
    crowd.finish()
    api = HttpApi(server.http_port)
    # A publish whose answer got lost is sent again by the test itself: that is another message.
    there = stored(api, TOPIC, 3)
    api.close()
    assert all(count <= there[value] for value, count in crowd.settled.items())
    assert all(there[value] > 1 for value in crowd.late)


def test_a_redrive_that_is_killed_neither_loses_a_letter_nor_sends_it_twice(
    server: ServerProcess,
) -> None:
    chance = random.Random(7)
    api = HttpApi(server.http_port)
    count = 300
    api.post("/topics", {"name": TOPIC, "num_partitions": 2})
    api.post("/topics", {"name": "again", "num_partitions": 2})
    member = join(api, assignment="shared")
    api.publish(TOPIC, *(str(number) for number in range(count)))
    left = count
    while left:
        handles = [each["receipt_handle"] for each in poll(api, member, "limit=1000")]
        left -= len(handles)
        api.post("/messages/reject/batch", {"receipt_handles": handles, "reason": "no"})
    deadline = time.monotonic() + 120
    while api.get(f"/topics/{TOPIC}/dlq")["total"] < count:
        assert time.monotonic() < deadline
    wish = {"to": "again", "rate": 10}  # half a minute, if it were left to end
    for _ in range(4):
        answer = api.ask("POST", f"/topics/{TOPIC}/dlq/redrive", wish)
        assert answer.status == 202
        while not api.get(f"/redrives/{answer.json['id']}")["done"]:
            assert time.monotonic() < deadline
        time.sleep(chance.uniform(0.02, 0.2))
        api = killed(server, api)
    redrive = api.ask("POST", f"/topics/{TOPIC}/dlq/redrive", {"to": "again"}).json
    assert redrive["id"] == 1, "the redrives of the last process are forgotten"
    while not (ended := api.get("/redrives/1"))["ended_at"]:
        assert time.monotonic() < deadline
    assert ended["state"] == "done"
    assert 0 < ended["done"] < count, "none was under way when the server was killed"
    assert stored(api, "again", 2) == {str(number): 1 for number in range(count)}
    assert api.get(f"/topics/{TOPIC}/dlq")["total"] == 0
    api.close()
