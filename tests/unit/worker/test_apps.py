"""Declaring tasks, and what sending one publishes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goqueue import App
from goqueue.client.producing.deliveries import BlockingDelivery, Fate, Stored
from goqueue.client.settings import DEFAULT_ADDRESS
from goqueue.client.types import Receipt
from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    BatchTooLargeError,
    PriorityError,
    TopicExistsError,
    UnknownTopicError,
)


def stored(number: int) -> Receipt:
    return Receipt("t", 0, number, 0)


class FakeClient:
    """Remembers what was published; its topics exist when they are created."""

    made: list[FakeClient]

    def __init__(self, address: str, settings: Any) -> None:
        self.address = address
        self.known = {"images"}
        self.sent: list[tuple[str, bytes, dict[str, Any]]] = []
        self.is_closed = False
        self.topics = self
        self.made.append(self)

    def publish(self, topic: str, value: bytes, **options: Any) -> BlockingDelivery:
        fate = Fate("t", 0)
        if topic not in self.known:
            fate.settle(error=UnknownTopicError(f"there is no topic {topic!r}"))
        elif len(value) > 1000:
            fate.settle(error=BatchTooLargeError("too large"))
        else:
            self.sent.append((topic, value, options))
            fate.settle(Stored(len(self.sent) - 1))
        return BlockingDelivery(fate, 0, 0)

    def create(self, topic: str) -> None:
        if topic in self.known:
            raise TopicExistsError(topic)
        self.known.add(topic)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.client.sync.client.Client", FakeClient)
    monkeypatch.setattr("atexit.register", lambda function: None)
    FakeClient.made = []


def test_a_task_is_called_as_if_it_were_not_one() -> None:
    app = App("images")

    @app.task
    def resize(name: str, width: int = 100) -> str:
        """Make it smaller."""
        return f"{name} {width}"

    @app.task(name="images.fetch", topic="slow", time_limit=timedelta(minutes=1))
    async def fetch(url: str) -> str:
        return url

    assert resize("1.png", width=5) == "1.png 5"
    assert asyncio.run(fetch("u")) == "u"
    assert resize.__doc__ == "Make it smaller."
    assert (resize.is_async, fetch.is_async) == (False, True)
    assert (resize.time_limit_s, fetch.time_limit_s) == (None, 60)
    assert app.tasks == {"resize": resize, "images.fetch": fetch}
    assert app.topics == ("images", "slow")
    assert repr(fetch) == "<Task images.fetch of topic slow>"


def test_sending_publishes_a_call_under_the_name_of_the_task() -> None:
    app = App("images", address="somewhere:1")

    @app.task
    def resize(name: str, width: int = 100) -> None: ...

    assert resize.send("1.png", width=2) == stored(0)
    assert resize.delay("2.png") == stored(1)
    assert asyncio.run(resize.send_async("3.png")) == stored(2)
    assert resize.send_many([("4.png",), ("5.png", 7)]) == [stored(3), stored(4)]
    (made,) = FakeClient.made
    assert made.address == "somewhere:1"
    headers = {"headers": (("goqueue-task", "resize"),)}
    assert made.sent[0] == ("images", b'{"args":["1.png"],"kwargs":{"width":2}}', headers)
    assert [value for _, value, _ in made.sent[3:]] == [
        b'{"args":["4.png"],"kwargs":{}}',
        b'{"args":["5.png",7],"kwargs":{}}',
    ]


def test_options_are_those_of_the_message() -> None:
    app = App("images")

    @app.task(priority="low")
    def resize(name: str) -> None: ...

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    resize.send("a")
    resize.options(delay=60, key="k", ttl=9, priority="high", headers={"a": "b"}).send("b")
    resize.options(deliver_at=moment, headers=[("a", None)]).delay("c")
    sent = [options for _, _, options in FakeClient.made[0].sent]
    name = ("goqueue-task", "resize")
    assert sent == [
        {"headers": (name,), "priority": Priority.LOW},
        {
            "headers": (name, ("a", "b")),
            "delay": 60,
            "key": "k",
            "ttl": 9,
            "priority": "high",
        },
        {"headers": (name, ("a", None)), "priority": Priority.LOW, "deliver_at": moment},
    ]


def test_a_topic_is_created_by_the_first_message_to_it() -> None:
    app = App("letters")

    @app.task
    def post(number: int) -> None: ...

    post.send(1)
    assert post.send_many([(2,), (3,)]) == [stored(1), stored(2)]
    app.task(topic="more", name="more")(post.function).send(4)
    asyncio.run(app.task(topic="most", name="most")(post.function).send_async(5))
    (made,) = FakeClient.made
    assert [topic for topic, _, _ in made.sent] == ["letters"] * 3 + ["more", "most"]


def test_a_message_that_is_refused_is_an_error_of_the_sender() -> None:
    app = App("images")

    @app.task
    def resize(name: str) -> None: ...

    with pytest.raises(BatchTooLargeError):
        resize.send("x" * 2000)
    with pytest.raises(BatchTooLargeError):
        asyncio.run(resize.send_async("x" * 2000))
    with pytest.raises(TypeError):
        resize.send_many([("a",), ()])
    assert FakeClient.made[0].sent == []


def test_a_forked_process_connects_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("images")

    @app.task
    def resize(name: str) -> None: ...

    resize.send("a")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    resize.send("b")
    resize.send("c")
    before, after = FakeClient.made
    assert (len(before.sent), len(after.sent)) == (1, 2)
    app.close()
    assert (before.is_closed, after.is_closed) == (False, True)
    resize.send("d")
    assert len(FakeClient.made) == 3


def test_the_address_is_the_apps_or_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOQUEUE_ADDRESS", raising=False)
    assert App("a").address == DEFAULT_ADDRESS
    monkeypatch.setenv("GOQUEUE_ADDRESS", "there:1")
    assert App("a").address == "there:1"
    assert App("a", address="here:1").address == "here:1"
    app = App("a")
    app.connect_to("elsewhere:1")
    assert app.address == "elsewhere:1"


def test_two_tasks_cannot_have_one_name() -> None:
    app = App("images")
    app.task(len)
    with pytest.raises(ValueError, match="has a task 'len' already"):
        app.task(len)
    app.task(name="other")(len)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": -1}, "time_limit"),
        ({"retry_backoff": -1}, "retry_backoff"),
        ({"retry_backoff_max": -1}, "retry_backoff_max"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 3}, "pass max_deliveries=4 to App"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_are_written(options, text) -> None:
    with pytest.raises(ValueError, match=text):
        App("images").task(**options)


def test_a_priority_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PriorityError):
        App("images").task(priority="urgent")


def test_more_retries_need_more_deliveries() -> None:
    task = App("images", max_deliveries=11).task(max_retries=10)(len)
    assert task.retry_rule.max_retries == 10


def test_an_app_has_a_visibility_timeout() -> None:
    assert App("a", visibility=timedelta(minutes=5)).visibility_s == 300
    with pytest.raises(ValueError, match="visibility"):
        App("a", visibility=0)


def test_declaring_tasks_imports_no_client() -> None:
    code = """
import sys, goqueue
app = goqueue.App("images")
@app.task
def resize(name): ...
print(sorted({"grpc", "google", "goqueue.client.async_client"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
