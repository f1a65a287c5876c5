"""A server that starts loads what a first message needs; everything else waits for who needs it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {
    "argparse",
    "dataclasses",  # of which each costs a start five times what a msgspec.Struct does
    "email",
    "fastavro",
    "google",
    "grpc",
    "hypothesis",
    "importlib.metadata",
    "jsonschema_rs",
    "kio",
    "numpy",
    "opentelemetry",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "re2",
    "rich",
    "typer",
    "unittest",
    "yaml",
    "goqueue.cli.root",
    "goqueue.client",
    "goqueue.protocols.grpc",
    "goqueue.protocols.http.routes",
    "goqueue.schemas.avro",
    "goqueue.schemas.json",
    "goqueue.schemas.protobuf",
    "goqueue.server.security.self_signed",
    "goqueue.spark",
    "goqueue.testing",
}

LATE = {
    "goqueue.administration",
    "goqueue.broker.broker",
    "goqueue.delays",
    "goqueue.groups.service",
    "goqueue.insight",
    "goqueue.pipelines",
    "goqueue.protocols.http",
    "goqueue.protocols.kafka.families",
    "goqueue.queues",
    "goqueue.reading",
    "goqueue.schemas",
    "goqueue.state",
    "goqueue.transactions.service",
}
"""What no message needs that is published to a topic."""

FIRST_SCRIPT = """
import sys
from goqueue.cli import main
from goqueue.server.node import Node

async def tell(node, logs):
    assert node.kafka.port
    print(*sys.modules)
    raise SystemExit

Node._start_services = tell
main()
"""

SCRIPT = """
import sys, typing
from goqueue.cli import main
from goqueue.server.node import Node

def uses_typing(name, module):
    return name.startswith("goqueue.") and vars(module).get("NamedTuple") is typing.NamedTuple

async def tell(node, certificates):
    assert node.kafka.port and node.http.port
    print(*sys.modules)
    print(*(name for name, each in sys.modules.items() if uses_typing(name, each)))
    raise SystemExit

Node._start_grpc = tell
main()
"""


def said_by(script: str, folder: Path) -> str:
    flags = ["--data-dir", str(folder), "--kafka-port=0", "--http-port=0", "--grpc-port=0"]
    done = subprocess.run(
        [sys.executable, "-c", script, "server", *flags],
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


def test_kafka_is_served_before_what_no_published_message_needs(tmp_path: Path) -> None:
    loaded = set(said_by(FIRST_SCRIPT, tmp_path).split())
    assert "goqueue.protocols.kafka.connection.listener" in loaded
    assert LATE & loaded == set()


def test_kafka_and_http_are_served_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    modules, with_slow_tuples = said_by(SCRIPT, tmp_path).splitlines()
    loaded = set(modules.split())
    assert "goqueue.protocols.http.server.listener" in loaded
    assert HEAVY & loaded == set()
    assert with_slow_tuples == "", "goqueue.model.tuples has a NamedTuple that costs a start less"
