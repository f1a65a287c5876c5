"""The live view, and what the shell offers after Tab."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing import Broker
    from support.commands import Run

GOQUEUE = Path(sys.executable).with_name("goqueue")


def test_one_picture_shows_topics_rates_groups_and_lag(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    goqueue_broker.publish(goqueue_topic, "hello")
    group = goqueue_broker.unique_name("watched")
    run("group", "reset-offsets", group, "--topic", goqueue_topic, "--to-earliest")
    shown = run("top", "--once", "--interval", "10ms").stdout
    assert os.environ["GOQUEUE_SERVER"] in shown
    (topic_line,) = [line for line in shown.splitlines() if line.split()[:1] == [goqueue_topic]]
    assert topic_line.split()[1:3] == ["1", "1"]
    (group_line,) = [line for line in shown.splitlines() if line.split()[:1] == [group]]
    assert group_line.split() == [group, "Empty", "0", "1"]
    assert "__consumer_offsets" not in shown


def test_pictures_come_as_lines_of_json_with_rates(
    goqueue_broker: Broker, goqueue_topic: str, run: Run
) -> None:
    command = [
        str(GOQUEUE),
        "top",
        "-o",
        "json",
        "--interval",
        "200ms",
        "-s",
        goqueue_broker.http_url,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 90
        rate = 0.0
        while not rate and time.monotonic() < deadline:
            goqueue_broker.publish(goqueue_topic, "x")
            picture = json.loads(process.stdout.readline())
            (rate,) = (
                each["in_per_s"] for each in picture["topics"] if each["topic"] == goqueue_topic
            )
        process.terminate()
    assert rate > 0


def test_the_live_view_draws_on_a_terminal_until_ctrl_c(
    goqueue_broker: Broker, goqueue_topic: str
) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
    url = goqueue_broker.http_url
    command = [str(GOQUEUE), "top", "--interval", "100ms", "-s", url]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        drawn = b""
        while drawn.count(url.encode()) < 3:
            drawn += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # how a terminal says that nobody is there any more
            while data := os.read(ours, 65536):
                drawn += data
        assert process.wait(90) == 130
    os.close(ours)
    assert b"ready" in drawn
    assert b"messages" in drawn
    assert b"Traceback" not in drawn


def test_without_a_terminal_the_live_view_says_what_to_use_instead(run: Run) -> None:
    assert "use --once" in run("top", code=2).stderr


def complete(broker: Broker, words: str, home: Path) -> list[str]:
    """What bash would offer for the last of these words."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")},
        "HOME": str(home),
        "GOQUEUE_SERVER": broker.http_url,
        "_GOQUEUE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run([GOQUEUE], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def offered(broker: Broker, words: str, home: Path) -> list[str]:
    """The same, with another Tab where the server did not answer at once."""
    for _ in range(20):
        if found := complete(broker, words, home):
            return found
    return []


@pytest.mark.parametrize(
    "words",
    ["goqueue topic describe {}", "goqueue produce {}", "goqueue consume {}",
     "goqueue group reset-offsets g --topic {}"],
)  # fmt: skip
def test_the_shell_offers_the_topics_of_the_live_server(
    goqueue_broker: Broker, tmp_path: Path, words: str
) -> None:
    stem = goqueue_broker.unique_name("completed")
    names = [goqueue_broker.create_topic(f"{stem}-{end}") for end in "ab"]
    assert offered(goqueue_broker, words.format(stem), tmp_path) == names


def test_the_shell_offers_groups_contexts_commands_and_forms(
    goqueue_broker: Broker, goqueue_topic: str, run: Run, tmp_path: Path
) -> None:
    group = goqueue_broker.unique_name("completed")
    run("group", "reset-offsets", group, "--topic", goqueue_topic, "--to-earliest")
    for words, expected in [
        (f"goqueue group describe {group[:-2]}", [group]),
        ("goqueue config use-context l", ["local"]),
        ("goqueue topic gr", ["grow"]),
        ("goqueue topic list -o j", ["json"]),
    ]:
        assert offered(goqueue_broker, words, tmp_path) == expected


def test_the_server_that_is_being_typed_is_the_one_that_is_asked(
    goqueue_broker: Broker, goqueue_topic: str, tmp_path: Path
) -> None:
    words = f"goqueue topic describe -s http://127.0.0.1:1 {goqueue_topic[:-2]}"
    assert complete(goqueue_broker, words, tmp_path) == []
