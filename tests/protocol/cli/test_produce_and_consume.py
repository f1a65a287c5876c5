"""Messages in and out of the command line: files, pipes, bad lines, groups, waiting."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cli.messages import group_member
from support.cluster_broker import own_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

GOQUEUE = [sys.executable, "-m", "goqueue.cli"]


def consumed(run: Run, *arguments: str) -> list[dict[str, Any]]:
    result = run("consume", *arguments, "-o", "json")
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- Publishing ----------------------------------------------------------------------------------


def test_a_file_with_bad_lines_is_published_but_for_them(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text(
        "# orders of today\n"
        '{"key": "a", "value": "one", "headers": {"h": "1"}}\n'
        "this is no JSON\n"
        '{"value": {"id": 2}, "timestamp": "2025-01-31T12:00:00Z"}\n'
        '{"value": "three", "partition": 99}\n'
        '{"value": "not base64", "encoding": "base64"}\n'
        "\n"
        '{"value": "/w==", "encoding": "base64"}\n'
        '{"value": 5, "partition": "x"}\n'
    )
    result = run("produce", goqueue_topic, "-f", str(file), "-o", "json", code=1)
    summary = json.loads(result.stdout)
    assert (summary["published"], summary["failed"]) == (3, 4)
    assert sorted(each["line"] for each in summary["errors"]) == [3, 5, 6, 9]
    for number in (3, 5, 6, 9):
        assert f"line {number}: " in result.stderr
    assert "4 of 7 messages were not published" in result.stderr
    stored = goqueue_broker.messages(goqueue_topic)
    assert [each.value for each in stored] == [b"one", b'{"id":2}', b"\xff"]
    assert stored[0].headers == {"h": b"1"}
    assert stored[1].timestamp_ms == 1738324800000


@pytest.mark.parametrize("batch", ["1", "7", "10000"])
def test_any_batch_size_keeps_order_and_loses_nothing(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, batch: str
) -> None:
    lines = "".join(f"{number}\n" for number in range(50))
    result = run("produce", goqueue_topic, "--batch", batch, input=lines)
    assert result.stdout.split() == ["published", "50", "failed", "0"]
    values = [each.value for each in goqueue_broker.messages(goqueue_topic)]
    assert values == [str(number).encode() for number in range(50)]


def test_lines_of_standard_input_are_values_byte_for_byte(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    run(
        "produce",
        goqueue_topic,
        "-k",
        "all",
        input=b'{"value": 1}\n# no comment\n\n\xff\xfe\r\nlast',
    )
    stored = goqueue_broker.messages(goqueue_topic)
    values = [each.value for each in stored]
    assert values == [b'{"value": 1}', b"# no comment", b"", b"\xff\xfe", b"last"]
    assert {each.key for each in stored} == {b"all"}


def test_json_lines_can_be_piped(run: Run, goqueue_broker: Broker, goqueue_topic: str) -> None:
    run(
        "produce",
        goqueue_topic,
        "-f",
        "-",
        "-k",
        "all",
        input='{"value": "a", "key": "own"}\n{"value": null}',
    )
    found = [(each.key, each.value) for each in goqueue_broker.messages(goqueue_topic)]
    assert found == [(b"own", b"a"), (b"all", None)]


def test_nothing_to_publish_is_no_error(run: Run, goqueue_topic: str) -> None:
    assert run("produce", goqueue_topic, input="").stdout.split() == [
        "published",
        "0",
        "failed",
        "0",
    ]


def test_a_message_that_is_too_large_is_refused_alone(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    lines = b"small\n" + b"x" * (2 << 20) + b"\nsmall too\n"
    result = run("produce", goqueue_topic, "--batch", "1", input=lines, code=1)
    assert "line 2: " in result.stderr
    assert [each.value for each in goqueue_broker.messages(goqueue_topic)] == [
        b"small",
        b"small too",
    ]


def produce_from_a_pipe(broker: Broker, topic: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GOQUEUE, "produce", topic, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GOQUEUE_SERVER": broker.http_url},
    )


def wait_for_messages(broker: Broker, topic: str, count: int) -> None:
    deadline = time.monotonic() + 90
    while len(broker.messages(topic)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_line_is_published_when_no_other_follows_it(
    goqueue_broker: Broker, goqueue_topic: str
) -> None:
    with produce_from_a_pipe(goqueue_broker, goqueue_topic) as process:
        assert process.stdin is not None
        for number in range(3):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            wait_for_messages(goqueue_broker, goqueue_topic, number + 1)
        out, err = process.communicate(timeout=90)
    assert (out.split(), err) == (["published", "3", "failed", "0"], "")


def test_a_server_that_goes_away_leaves_no_doubt_about_what_was_published(
    run: Run, tmp_path: Path
) -> None:
    with own_broker(tmp_path) as broker:
        topic = broker.create_topic()
        with produce_from_a_pipe(broker, topic) as process:
            assert process.stdin is not None
            process.stdin.write("before\n")
            process.stdin.flush()
            wait_for_messages(broker, topic, 1)
            broker.restart()  # the connection ends with it, and another one is made
            process.stdin.write("after\n")
            process.stdin.flush()
            wait_for_messages(broker, topic, 2)
            broker.stop()
            _, err = process.communicate("never\n", timeout=90)
        broker.start()
        assert process.returncode == 1
        assert "2 messages were published before that" in err
        assert "may have been published too" in err
        assert [each.value for each in broker.messages(topic)] == [b"before", b"after"]


# --- Consuming -----------------------------------------------------------------------------------


@pytest.fixture
def hours(goqueue_broker: Broker, run: Run) -> str:
    """A topic with three partitions and a message an hour, in turn, from 1 to 6 o'clock."""
    for_ever = {"retention.ms": -1}  # or the messages, which are old, go when the broker tidies up
    name = goqueue_broker.unique_name("hours")
    topic = goqueue_broker.create_topic(name, partitions=3, settings=for_ever)
    lines = [
        json.dumps(
            {"value": f"{hour}", "partition": hour % 3, "timestamp": f"2025-01-31T0{hour}:00:00Z"}
        )
        for hour in range(1, 7)
    ]
    run("produce", topic, "-f", "-", input="\n".join(lines))
    return topic


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "123456"),
        ("-n 2", "12"),
        ("--from-beginning -n 3", "123"),
        ("-p 1", "14"),
        ("-p 2 --offset 1", "5"),
        ("-p 2 --offset 2", ""),
        ("--from-time 2025-01-31T03:00:00Z", "3456"),
        ("--from-time 2025-01-31T02:30:00Z --to-time 2025-01-31T05:00:00Z", "34"),
        ("--to-time 2025-01-31T02:00:00Z", "1"),
        ("-p 0 --offset 0 --to-time 2025-01-31T06:00:00Z", "3"),
        ("--from-time 1h", ""),
        ("--from-beginning -n 6 --follow", "123456"),
    ],
)
def test_what_is_read_begins_and_ends_where_it_is_told_to(
    run: Run, hours: str, options: str, expected: str
) -> None:
    found = [each["value"] for each in consumed(run, hours, *options.split())]
    if "--follow" in options:
        found.sort()  # in order within a partition only
    assert "".join(found) == expected


def test_an_offset_needs_a_partition_where_there_are_several(run: Run, hours: str) -> None:
    assert "choose one with -p" in run("consume", hours, "--offset", "0", code=2).stderr


def test_people_see_place_time_key_headers_and_value_on_one_harmless_line(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    goqueue_broker.publish(goqueue_topic, "two\nlines \x1b[2J", key=b"\xff", headers={"h": None})
    goqueue_broker.publish(goqueue_topic, None)
    first, second = run("consume", goqueue_topic).stdout.splitlines()
    assert first.startswith("0:0 ")
    assert "key=base64:/w==  h=(null)  two\\nlines \\x1b[2J" in first
    assert second.endswith("(tombstone)")


def test_bytes_come_out_as_they_went_in(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    goqueue_broker.publish(goqueue_topic, b"\xff\x00", key="text")
    (message,) = consumed(run, goqueue_topic)
    assert (message["encoding"], message["key_encoding"]) == ("base64", "text")
    assert base64.b64decode(message["value"]) == b"\xff\x00"
    assert run("consume", goqueue_topic, "--value-only").stdout_bytes == b"\xff\x00\n"


def test_what_was_consumed_can_be_produced_again(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    goqueue_broker.publish(goqueue_topic, b"\xff", key="k", headers={"h": b"\xfe", "n": None})
    copy = goqueue_broker.create_topic()
    lines = [
        {name: value for name, value in each.items() if name not in {"topic", "offset"}}
        for each in consumed(run, goqueue_topic)
    ]
    run("produce", copy, "-f", "-", input="\n".join(map(json.dumps, lines)))
    (before,), (after,) = goqueue_broker.messages(goqueue_topic), goqueue_broker.messages(copy)
    assert (after.key, after.value, after.headers, after.timestamp_ms) == (
        before.key,
        before.value,
        before.headers,
        before.timestamp_ms,
    )


def test_a_group_reads_on_where_it_has_committed(
    run: Run, goqueue_broker: Broker, hours: str
) -> None:
    group = goqueue_broker.unique_name("group")
    first = consumed(run, hours, "--group", group, "-n", "4")
    unread = consumed(run, hours, "--group", group, "--no-commit")
    again = consumed(run, hours, "--group", group)
    assert len(first) == 4
    assert len(unread) == 2
    assert unread == again
    assert sorted(each["value"] for each in first + again) == list("123456")
    described = json.loads(run("group", "describe", group, "-o", "json").stdout)
    assert (described["total_lag"], described["members"]) == (0, [])


def test_a_member_without_a_partition_does_not_wait_for_ever(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_member, "_IDLE_MS", 50)
    group = goqueue_broker.unique_name("group")
    with follow(goqueue_broker, goqueue_topic, "--group", group) as other:
        described: dict[str, Any] = {"members": []}
        while not described["members"]:
            listed = json.loads(run("group", "list", "-o", "json").stdout)
            if any(each["group"] == group for each in listed):
                described = json.loads(run("group", "describe", group, "-o", "json").stdout)
        result = run("consume", goqueue_topic, "--group", group)
        other.terminate()
    assert "all partitions are assigned to other members" in result.stderr


def follow(broker: Broker, topic: str, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "GOQUEUE_SERVER": broker.http_url}
    command = [*GOQUEUE, "consume", topic, "--value-only", "--follow", *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize("options", [[], ["-p", "0"], ["--group", "followers"]], ids=str)
def test_following_prints_what_comes_later_and_ends_with_ctrl_c(
    goqueue_broker: Broker, options: list[str], run: Run
) -> None:
    topic = goqueue_broker.create_topic(goqueue_broker.unique_name("followed"), partitions=2)
    goqueue_broker.publish(topic, "before", partition=0)
    with follow(goqueue_broker, topic, *options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "before\n"
        goqueue_broker.publish(topic, "after", partition=0)
        assert process.stdout.readline() == "after\n"
        process.send_signal(2)
        assert process.wait(90) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_only_what_is_new_is_shown_from_the_latest_on(
    goqueue_broker: Broker, goqueue_topic: str, run: Run
) -> None:
    group = goqueue_broker.unique_name("group")
    goqueue_broker.publish(goqueue_topic, "old")
    options = ("--group", group, "--from-latest", "-n", "1")
    with follow(goqueue_broker, goqueue_topic, *options) as process:
        while True:  # until it is a member, and so has a place to begin at
            listed = json.loads(run("group", "list", "-o", "json").stdout)
            if any(each["group"] == group and each["member_count"] for each in listed):
                break
        described: dict[str, Any] = {"members": [{"partitions": {}}]}
        while not described["members"][0]["partitions"]:
            described = json.loads(run("group", "describe", group, "-o", "json").stdout)
        goqueue_broker.publish(goqueue_topic, "new")
        out, err = process.communicate(timeout=90)
    assert (out, err, process.returncode) == ("new\n", "", 0)


def test_a_reader_that_has_had_enough_is_no_error(
    goqueue_broker: Broker, goqueue_topic: str
) -> None:
    for number in range(200):
        goqueue_broker.publish(goqueue_topic, f"{number}" * 1000)
    with follow(goqueue_broker, goqueue_topic) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(90) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
