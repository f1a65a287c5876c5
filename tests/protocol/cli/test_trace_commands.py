"""`goqueue trace` against a live server, in all three forms."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from goqueue import Client
from goqueue.cli.commands.trace import timeline
from goqueue.protocols.http.operations.trace_shapes import TraceOut
from support.commands import parsed

if TYPE_CHECKING:
    from goqueue.testing import Broker
    from support.commands import Run


@pytest.fixture
def topic(run: Run) -> str:
    name = f"traced-{uuid4().hex}"
    run("topic", "create", name, "-p", "1", "--set", "goqueue.trace=1")
    run("produce", name, "-m", "one", "-m", "two")
    return name


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_traces_are_listed_found_and_shown(run: Run, topic: str, form: str) -> None:
    listed = parsed(run("trace", "list", "-n", "10", "-o", form).stdout, form)
    assert [each["topic"] for each in listed["traces"][:2]] == [topic, topic]
    found = run(
        *("trace", "search", "--topic", topic, "--partition", "0", "--status", "pending"),
        *("--start", "1h", "--max-duration", "1h", "-n", "1", "-o", form),
    )
    (one,) = parsed(found.stdout, form)["traces"]
    shown = parsed(run("trace", "get", one["trace_id"], "-o", form).stdout, form)
    assert shown["trace_id"] == one["trace_id"]
    by_message = parsed(run("trace", "get", f"{topic}/0/{one['offset']}", "-o", form).stdout, form)
    assert by_message == shown
    stats = parsed(run("trace", "stats", "-o", form).stdout, form)
    assert stats["events"] >= 3
    assert run("trace", "search", "--consumer-group", "nobody", "-o", form).exit_code == 0


def test_a_trace_is_a_timeline_for_people(run: Run, topic: str) -> None:
    lines = run("trace", "get", f"{topic}/0/1").stdout.splitlines()
    assert lines[1] == f"message  {topic}/0/1"
    assert lines[2] == "status   pending"
    steps = [line.split() for line in lines[6:]]
    assert [step[1] for step in steps] == [
        "publish.received",
        "publish.partitioned",
        "publish.persisted",
    ]
    assert steps[0][0] == "+0ms"
    assert f"at={topic}/0/1" in steps[2]
    assert f"{topic}/0/1" in run("trace", "list").stdout
    assert "files" in run("trace", "stats").stdout


def test_a_timeline_says_who_did_what(run: Run, topic: str, goqueue_broker: Broker) -> None:
    group = goqueue_broker.unique_name("workers")
    address = goqueue_broker.kafka_address
    with Client(address) as client, client.queue(group, [topic]) as queue:
        next(iter(queue)).ack()
    *_, fetched, acked = run("trace", "get", f"{topic}/0/0").stdout.splitlines()
    assert "consume.fetched" in fetched
    assert "consume.acked" in acked
    (who,) = [word for word in fetched.split() if word.startswith("consumer=")]
    assert {who, f"group={group}"} <= {*acked.split()}


def test_what_is_not_there_is_said_in_a_line(run: Run, topic: str) -> None:
    result = run("trace", "get", "0" * 32, code=1)
    assert "there is no trace" in result.stderr
    assert "TOPIC/PARTITION/OFFSET" in run("trace", "get", f"{topic}/0", code=2).stderr
    assert "is no duration" in run("trace", "search", "--min-duration", "x", code=2).stderr


def test_a_trace_is_shown_by_its_id_alone(run: Run, topic: str) -> None:
    shown = run("trace", "get", f"{topic}/0/0").stdout
    trace_id = shown.splitlines()[0].split()[1]
    assert run("trace", trace_id).stdout == shown
    assert run("trace", f"{topic}/0/0").stdout == shown
    assert parsed(run("trace", trace_id, "-o", "json").stdout, "json")["trace_id"] == trace_id
    assert "No such command 'serach'" in run("trace", "serach", code=2).stderr


def test_messages_that_failed_are_found_as_errors(
    run: Run, topic: str, goqueue_broker: Broker
) -> None:
    group, address = goqueue_broker.unique_name("workers"), goqueue_broker.kafka_address
    with Client(address) as client, client.queue(group, [topic]) as queue:
        next(iter(queue)).reject("nobody wants it")
    for status in ("error", "failed"):
        found = run("trace", "search", "--topic", topic, "--status", status, "-o", "json").stdout
        assert [each["offset"] for each in parsed(found, "json")["traces"]] == [0]


def test_nothing_found_is_said_on_standard_error(run: Run) -> None:
    result = run("trace", "search", "--topic", "nothing-there")
    assert result.stdout == ""
    assert result.stderr.startswith("no such traces: `goqueue trace stats` shows")


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0.0, "0ms"),
        (0.00001, "0ms"),
        (0.2137, "0.214ms"),
        (999.4, "999ms"),
        (999.7, "1.000s"),
        (1_454_311.0, "24m 14s"),
    ],
)
def test_how_long_it_took_is_told_without_powers_of_ten(duration_ms: float, shown: str) -> None:
    trace = TraceOut("0" * 32, None, None, None, "pending", 0, 0, duration_ms, [], 0)
    assert timeline(trace)[4] == f"took     {shown}"


def test_what_is_no_id_of_a_trace_is_named(run: Run) -> None:
    refused = run("trace", "get", "deadbeef", code=1)
    assert "'deadbeef' is no id of a trace: expected 32 hexadecimal digits" in refused.stderr
