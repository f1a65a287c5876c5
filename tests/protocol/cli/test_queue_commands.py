"""Queue groups, dead letters and delayed messages from the command line, in all three forms."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from support.commands import parsed

if TYPE_CHECKING:
    from goqueue.testing import Broker
    from support.commands import Run

COMMANDS = [
    ("queue list", lambda a: [each["group"] for each in a], "{group}"),
    ("queue describe {group}", lambda a: a["queue"]["in_flight"], 1),
    (
        "queue configure {group} --visibility 5s --weights 9,1,1,1,1",
        lambda a: a["group"],
        "{group}",
    ),
    ("queue stats", lambda a: a["groups"], "{group}"),
    ("queue lanes --group {group}", lambda a: a["groups"]["{group}"]["lanes"], "critical"),
    ("queue dlq list {topic}", lambda a: a["letters"][0]["error"], "no use"),
    ("queue dlq errors {topic}", lambda a: (a["errors"][0]["error"], a["letters"]), ("no use", 1)),
    ("queue dlq show {topic} 0 0", lambda a: a["value"], "first"),
    ("queue dlq redrive {topic} --dry-run", lambda a: (a["total"], a["done"]), (1, 0)),
    ("queue dlq redrive {topic} -f --rate 1000", lambda a: (a["total"], a["done"]), (1, 1)),
    ("queue dlq redrive {topic} -f --reason NOT_THAT", lambda a: a["done"], 0),
    ("queue dlq redrive {topic} -f --letter 0:0", lambda a: a["done"], 1),
    ("queue dlq redrive {topic} -f --letter 0:0 --set-value new", lambda a: a["done"], 1),
    ("queue dlq delete {topic} -f --letter 0:0", lambda a: a["deleted"], 1),
    ("queue dlq delete {topic} -f --error other", lambda a: a["deleted"], 0),
    ("queue dlq purge {topic} -f", lambda a: a["purged"], 1),
    ("delayed list {topic}", lambda a: a["messages"][0]["value"], "later"),
    ("delayed show {topic} {delayed}", lambda a: a["priority"], "low"),
    ("delayed cancel {topic} {delayed} -f", lambda a: a["state"], "cancelled"),
    ("delayed stats", lambda a: a["topics"], "{topic}"),
    ("produce {topic} -m x -d 1h", lambda a: "id" in a["results"][0], True),
]


CHANGING = (
    "queue dlq redrive {topic} -f --rate",
    "queue dlq redrive {topic} -f --letter 0",
    "queue dlq delete {topic} -f",
    "queue dlq purge",
    "delayed cancel {topic} {delayed}",
)


def ask(broker: Broker, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{broker.http_url}{path}", data) as answer:
        return json.load(answer)


def has_letters(broker: Broker, topic: str) -> bool:
    """Whether there are dead letters; no while a cluster elects who leads their partition."""
    try:
        return bool(ask(broker, f"/topics/{topic}/dlq")["letters"])
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return False


def make_queue(broker: Broker) -> dict[str, str]:
    """A queue with one message in flight and one dead, and one that is due later."""
    topic = broker.create_topic(broker.unique_name("queued"), partitions=1)
    group = broker.unique_name("workers")
    messages = [{"value": "first"}, {"value": "second"}]
    later = {"value": "later", "delay": "1h", "priority": "low"}
    sent = ask(broker, f"/topics/{topic}/messages", {"messages": [*messages, later]})
    body = {"topics": [topic], "assignment": "shared"}
    member = ask(broker, f"/groups/{group}/join", body)["member_id"]
    taken = ask(broker, f"/groups/{group}/poll?member_id={member}&timeout=60s&visibility=1h")
    receipt = taken["messages"][0]["receipt_handle"]
    ask(broker, "/messages/reject", {"receipt_handle": receipt, "reason": "no use"})
    deadline = time.monotonic() + 90
    while not has_letters(broker, topic):
        assert time.monotonic() < deadline
    return {"topic": topic, "group": group, "delayed": str(sent["results"][2]["id"])}


@pytest.fixture(scope="module")
def untouched(goqueue_broker: Broker) -> dict[str, str]:
    """One queue for all commands that only look."""
    return make_queue(goqueue_broker)


@pytest.fixture
def queued(
    goqueue_broker: Broker, untouched: dict[str, str], request: pytest.FixtureRequest
) -> dict[str, str]:
    """A queue; one of its own for a command that changes it."""
    said = request.node.callspec.params["said"]
    return make_queue(goqueue_broker) if said.startswith(CHANGING) else untouched


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
@pytest.mark.parametrize(("said", "look", "expected"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_queue_command_prints_for_people_and_for_programs(
    run: Run, queued: dict[str, str], *, said: str, look, expected: object, form: str
) -> None:
    result = run(*said.format(**queued).split(), "-o", form)
    if isinstance(expected, str):
        expected = expected.format(**queued)
    if form == "table":
        assert result.stdout.strip()
        assert "{" not in result.stdout
    else:
        answer = parsed(result.stdout, form)
        if "lanes --group" in said:
            answer["groups"]["{group}"] = answer["groups"][queued["group"]]
        found = look(answer)
        is_inside = isinstance(found, list | dict) and isinstance(expected, str)
        assert expected in found if is_inside else found == expected
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("produce {topic} -m x -d 1h --deliver-at 2030-01-01T00:00:00Z", "not both"),
        ("produce {topic} -m x --deliver-at 15m", "use --delay"),
        ("produce {topic} -m x -d 2w5x", "delay"),
        ("produce {topic} -m x -d 400d", "goqueue.delay.max.ms"),
        ("produce {topic} -m x --priority urgent", "critical, high, normal, low, background"),
        ("queue describe nobody", "nobody"),
        ("queue dlq show {topic} 0 99", "99"),
        ("queue dlq redrive {topic} -f --letter zero", "PARTITION:OFFSET"),
        ("queue dlq redrive {topic} -f --to nowhere", "nowhere"),
        ("queue configure {group} --weights 1,2", "weights"),
        ("queue configure {group} --weights a,b", "50,25,15,7,3"),
        ("delayed cancel {topic} 99999 -f", "99999"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(
    run: Run, queued: dict[str, str], said: str, complaint: str
) -> None:
    usage = ("not both", "use --delay", "PARTITION:OFFSET", "50,25,15,7,3")
    result = run(*said.format(**queued).split(), code=2 if complaint in usage else 1)
    assert complaint in result.output
    assert "Traceback" not in result.output
