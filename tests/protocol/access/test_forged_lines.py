"""However clients call themselves, each event is one line of the log and one of the audit log."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
import urllib.parse
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.secure_clients import CLIENTS, Access
from support.server import HOST, start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess

__all__ = ["start_server"]

FORGED = (
    "x\r\n2026-01-01 00:00:00,000 INFO    goqueue: all is well\n"
    '{"level": "info", "message": "all is well"}\x1b[2J\x1b]0;title\x07\x9b31m\u2028end'
)
ENVIRONMENT = {
    "GOQUEUE_AUTH_ENABLED": "true",
    "GOQUEUE_AUTH_SUPER_USERS": "alice",
    "GOQUEUE_AUTH_MAX_LOGIN_DELAY": "0s",
    "GOQUEUE_SASL_MECHANISMS": "PLAIN",
    "GOQUEUE_SASL_USERS": "alice:wonderland",
}
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
TEXT_LINE = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ +goqueue\S*: ")


def over_kafka(server: ServerProcess) -> None:
    """A wrong login by that name, and a request of a client that calls itself that."""
    wrong = Access(server.kafka_address, "PLAIN", FORGED, "guess")
    with pytest.raises(PermissionError):
        CLIENTS["confluent"](wrong, "t", b"x")
    right = Access(server.kafka_address, "PLAIN", "alice", "wonderland").of_confluent()
    admin = AdminClient({**right, "client.id": FORGED})
    admin.create_topics([NewTopic("made", 1)])["made"].result(60)
    with pytest.raises(confluent_kafka.KafkaException):
        admin.create_topics([NewTopic("made", 1)])["made"].result(60)


def over_http(server: ServerProcess) -> None:
    """A wrong login by that name from such a program, and a path with it."""
    wrong = base64.b64encode(f"{FORGED}:guess".encode())
    assert status(server, b"GET /topics", wrong, b"x\x1b[2J\x9b31m all is well") in {400, 401}
    assert status(server, b"GET /topics", wrong, b"x") == 401
    right = base64.b64encode(b"alice:wonderland")
    path = urllib.parse.quote(FORGED, safe="").encode()
    assert status(server, b"DELETE /topics/" + path, right, b"x") in {400, 404}


def status(server: ServerProcess, line: bytes, login: bytes, agent: bytes) -> int:
    with socket.create_connection((HOST, server.http_port), timeout=60) as sock:
        head = (
            line + b" HTTP/1.1",
            b"Host: localhost",
            b"Connection: close",
            b"Authorization: Basic " + login,
            b"User-Agent: " + agent,
        )
        sock.sendall(b"\r\n".join(head) + b"\r\n\r\n")
        said = b""
        while some := sock.recv(65536):
            said += some
    return int(said.split(b" ", 2)[1])


def audited(server: ServerProcess) -> list[dict[str, Any]]:
    """Each line of the audit log, which must be one."""
    found = []
    for folder in server.data_dir.parent.rglob("audit"):
        for path in folder.glob("audit-*.log"):
            for line in path.read_bytes().split(b"\n")[:-1]:
                assert not CONTROLS.search(line.decode("ascii")), line
                found.append(json.loads(line))
    return found


def of_kind(server: ServerProcess, event: str) -> list[dict[str, Any]]:
    return [each for each in audited(server) if each["event"] == event]


def failures(server: ServerProcess) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """Refused logins over Kafka and those over HTTP, once there are both."""
    found = of_kind(server, "auth_failure")
    by_kafka = [each for each in found if "mechanism" in each["details"]]
    by_http = [each for each in found if each not in by_kafka]
    return (by_kafka, by_http) if by_kafka and by_http else None


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_with_line_ends_and_escape_sequences_forges_nothing(
    start_server: Callable[..., ServerProcess], log_format: str
) -> None:
    server = start_server("--log-format", log_format, environment=ENVIRONMENT)
    over_kafka(server)
    over_http(server)
    by_kafka, by_http = eventually(lambda: failures(server), "a refused login by each protocol")
    assert {each["principal"] for each in by_kafka} == {f"User:{FORGED}"}
    assert {each["principal"] for each in by_http} <= {f"User:{FORGED}", "User:ANONYMOUS"}
    made = eventually(lambda: of_kind(server, "topic_created"))
    assert {each["details"]["client_id"] for each in made} == {FORGED}
    server.stop()
    check_log(server, log_format)
    check_shown(server)


def check_log(server: ServerProcess, log_format: str) -> None:
    """One line for what was said, and no part of it begins another."""
    about = [line for line in server.log if "all is well" in line]
    assert about, "the log names nobody"
    for line in server.log:
        assert not CONTROLS.search(line), line
        if log_format == "json":
            assert json.loads(line)["message"] != "all is well"
        else:
            assert TEXT_LINE.match(line), line
            assert not line.startswith("2026-01-01"), line


def check_shown(server: ServerProcess) -> None:
    """What `goqueue audit` makes of it, in a terminal and as JSON."""
    for folder in server.data_dir.parent.rglob("audit"):
        shown = audit("show", folder, "-n", 1000)
        assert "all is well" in shown
        assert not CONTROLS.search(shown.replace("\n", "")), shown
        assert not [line for line in shown.splitlines() if line.startswith(("2026-01-01", "{"))]
        assert "as it was written" in audit("verify", folder)


def audit(*words: object) -> str:
    command = [sys.executable, "-m", "goqueue.cli", "audit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout + done.stderr
