"""What a pipeline cannot do through Spark Connect, said before anything is started."""

from __future__ import annotations

import textwrap

import pytest

from goqueue.spark.pipelines.execution.sessions import SessionError, connected
from goqueue.spark.pipelines.files.loaded import checked
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.model import NO_UPDATES
from support.server import free_port

FILE = """\
name: n
spark: {{master: "{master}"}}
sources:
  orders: {{topic: orders, watermark: {{column: timestamp, delay: 1 minute}}}}
steps:
  counts: {{from: orders, window: {{on: timestamp, size: 1 hour, select: {{n: count(*)}}}}}}
sinks:
  out: {{from: counts, topic: out, mode: {mode}}}
  seen: {{from: counts, console: , mode: update}}
"""


def problems(master: str, mode: str) -> list[tuple[int | None, str, str]]:
    text = textwrap.dedent(FILE.format(master=master, mode=mode)).encode()
    loaded = checked(read_yaml(text, "/f.yaml", {}))
    return [(each.line, each.path, each.message) for each in loaded.problems]


def test_updates_of_a_topic_are_refused_over_connect_and_nowhere_else() -> None:
    assert problems("sc://host:15002", "update") == [(8, "sinks.out.mode", NO_UPDATES)]
    assert problems("sc://host:15002", "complete") == []
    assert problems("spark://host:7077", "update") == []


def test_a_server_that_is_not_there_is_named_at_once() -> None:
    address = f"sc://127.0.0.1:{free_port()}/;user_id=me"
    with pytest.raises(SessionError, match="no Spark Connect server answers at sc://127"):
        connected(address, {})
    with pytest.raises(SessionError, match="no Spark Connect server answers at sc://h:port"):
        connected("sc://h:port", {})
