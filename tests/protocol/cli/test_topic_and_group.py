"""What goes wrong with topics and groups is said so that one knows what to do next."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from goqueue.runtime.disk import DiskUsage
from goqueue.testing import Broker

if TYPE_CHECKING:
    from support.commands import Run

BAD_INPUT = [
    ("topic describe {topic}x", 1, "Did you mean {topic}?"),
    ("topic delete {topic}x -f", 1, "Did you mean {topic}?"),
    ("topic create {topic}", 1, "exists already"),
    ("topic create ../x", 1, "cannot be a topic's name"),
    ("topic create x --set nonsense=1", 1, "nonsense"),
    ("topic create x --set =1", 2, "expected NAME=VALUE"),
    ("topic create x -r soon", 2, "--retention: 'soon' is no duration"),
    ("topic create x -p 0", 2, "partitions"),
    ("topic create x -p 100000", 1, "expected 1 to 10000"),
    ("topic configure {topic}", 2, "nothing to change"),
    ("topic configure {topic} --set retention.ms=x", 1, "retention.ms"),
    ("topic grow {topic} -p 1", 1, "can only be given more"),
    ("topic delete __consumer_offsets -f", 1, "is internal"),
    ("produce {topic}x -m a", 1, "Did you mean {topic}?"),
    ("produce {topic} -m a -p 99", 1, "line 1: "),
    ("produce {topic} -m a -H nothing", 2, "expected NAME=VALUE"),
    ("produce {topic} -m a -f file", 2, "not with both"),
    ("produce {topic} -f /no/such/file", 2, "No such file"),
    ("produce {topic} -m a --batch 0", 2, "batch"),
    ("consume {topic}x", 1, "Did you mean {topic}?"),
    ("consume {topic} -p 99", 1, "partition"),
    ("consume {topic} --offset 99", 1, "99"),
    ("consume {topic} --from-time soon", 2, "--from-time: 'soon' is no time"),
    ("consume {topic} --from-beginning --from-latest", 2, "two starting positions"),
    ("consume {topic} --to-time 1m -f", 2, "leave one of them out"),
    ("consume {topic} --group g -p 0", 2, "--partition cannot go with --group"),
    ("consume {topic} --group g --from-time 5m --to-time 1m", 2, "--from-time and --to-time"),
    ("consume {topic}x --group g", 1, "Did you mean {topic}?"),
    ("group describe nobody", 1, "nobody"),
    ("group offsets nobody", 1, "nobody"),
    ("group delete nobody -f", 1, "nobody"),
    ("group reset-offsets g --to-earliest", 2, "--topic"),
    ("group reset-offsets g --topic {topic}", 2, "expected exactly one of --to-earliest"),
    (
        "group reset-offsets g --topic {topic} --to-latest --to-offset 1",
        2,
        "expected exactly one of",
    ),
    ("group reset-offsets g --topic {topic}x --to-latest", 1, "Did you mean {topic}?"),
    ("group reset-offsets g --topic {topic} --to-offset 99", 1, "99"),
    ("group reset-offsets g --topic {topic} --to-timestamp x", 2, "--to-timestamp"),
    ("topic list -s http://127.0.0.1:1", 1, "Start a server with `goqueue server`"),
    ("topic list -s ftp://x", 2, "is no server"),
    ("topic list -s http://no-such-host.invalid", 1, "has an unknown host"),
    ("topic list -c nowhere", 2, "there is no context 'nowhere'"),
    ("topic list --timeout never", 2, "is no timeout"),
    ("top --interval never --once", 2, "is no timeout"),
    ("cluster health -s http://127.0.0.1:1", 1, "http://127.0.0.1:1"),
    ("health -s http://127.0.0.1:1", 1, "http://127.0.0.1:1"),
    ("health --wait 200ms -s http://127.0.0.1:1", 1, "connection refused"),
    ("health --wait soon", 2, "--wait"),
]


@pytest.mark.parametrize(("said", "code", "hint"), BAD_INPUT, ids=[each[0] for each in BAD_INPUT])
def test_bad_input_is_refused_with_a_hint_and_nothing_on_standard_output(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, *, said: str, code: int, hint: str
) -> None:
    before = goqueue_broker.topics()
    result = run(*said.format(topic=goqueue_topic).split(), code=code)
    assert hint.format(topic=goqueue_topic) in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert goqueue_broker.topics() == before
    assert goqueue_broker.messages(goqueue_topic) == []


@pytest.mark.parametrize(
    ("answer", "code", "stays"), [("yes\n", 0, False), ("no\n", 1, True), ("", 1, True)]
)
def test_a_topic_is_deleted_only_after_a_yes(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, *, answer: str, code: int, stays: bool
) -> None:
    goqueue_broker.publish(goqueue_topic, "precious")
    result = run("topic", "delete", goqueue_topic, input=answer, code=code)
    assert f"{goqueue_topic} and its 1 messages" in result.stderr
    assert (goqueue_topic in goqueue_broker.topics()) == stays


def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    run: Run, goqueue_broker: Broker, goqueue_topic: str
) -> None:
    group = goqueue_broker.unique_name("group")
    stored = [goqueue_broker.publish(goqueue_topic, str(number)) for number in range(3)]
    reset = ("group", "reset-offsets", group, "--topic", goqueue_topic)
    run(*reset, "--to-latest")
    moment = str(stored[0].timestamp_ms)
    preview = json.loads(run(*reset, "--to-timestamp", moment, "--dry-run", "-o", "json").stdout)
    (change,) = preview["changes"]
    assert (change["topic"], change["partition"]) == (goqueue_topic, 0)
    assert (change["before"], change["after"], change["again"]) == (3, 0, 3)
    offsets = json.loads(run("group", "offsets", group, "-o", "json").stdout)
    assert offsets["offsets"] == {goqueue_topic: {"0": 3}}


def test_health_ends_with_an_error_when_a_check_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker() as broker:  # one of its own: it may refuse messages for a while after this
        disk = broker.embedded.node.broker.disk
        monkeypatch.setattr(disk, "usage", lambda _: DiskUsage(1000, 0))
        shown = run("cluster", "health", "-o", "json", "-s", broker.http_url, code=1)
    health = json.loads(shown.stdout)
    assert not health["healthy"]
    assert "is 100.0 % full" in health["checks"]["storage"]


class _Foreign(BaseHTTPRequestHandler):
    """A web server that knows nothing of topics."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/stats" else 404)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>Welcome</p>")

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.mark.parametrize("said", ["topic list", "topic describe x", "cluster health", "top --once"])
def test_a_server_that_is_no_goqueue_is_not_taken_for_one(run: Run, said: str) -> None:
    with HTTPServer(("127.0.0.1", 0), _Foreign) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        result = run(*said.split(), "-s", url, code=1)
        server.shutdown()
        thread.join()
    assert url in result.stderr
    assert "is it a GoQueue server?" in result.stderr


def test_a_server_that_says_nothing_is_given_up_after_the_timeout(run: Run) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = run("topic", "list", "-s", url, "--timeout", "100ms", code=1)
    assert f"no answer from {url} within 0.1 s" in result.stderr


def test_internal_topics_are_listed_when_asked_for(run: Run) -> None:
    assert "__consumer_offsets" not in run("topic", "list").stdout
    assert "__consumer_offsets" in run("topic", "list", "--internal").stdout
