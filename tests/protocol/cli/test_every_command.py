"""Every command against a live server, in all three forms."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from support.commands import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

# What is said, with {topic} and {group} filled in; where to look in the answer; what must be there.
COMMANDS = [
    ("topic list", lambda a: [each["name"] for each in a], "{topic}"),
    ("topic create {topic}-new -p 2 -r 7d", lambda a: a["settings"]["retention.ms"], "604800000"),
    ("topic create {topic} --if-not-exists", lambda a: a["num_partitions"], 3),
    ("topic describe {topic}", lambda a: a["total_messages"], 4),
    ("topic configure {topic} --set retention.ms=60000", lambda a: a["settings"], "retention.ms"),
    ("topic configure {topic} --unset retention.ms", lambda a: a["settings"], {}),
    ("topic grow {topic} -p 4", lambda a: len(a["partitions"]), 4),
    ("topic purge {topic} -p 0 --before 1 -f", lambda a: a["partitions"][0]["partition"], 0),
    ("topic delete {topic} -f", lambda a: a["deleted"], "{topic}"),
    ("produce {topic} -m one -m two -k k -H a=1", lambda a: a["published"], 2),
    ("consume {topic} -n 1", lambda a: a["topic"], "{topic}"),
    ("consume {topic} -n 1 --group {group}-2", lambda a: a["headers"][0]["name"], "h"),
    ("group list", lambda a: [each["group"] for each in a], "{group}"),
    ("group describe {group}", lambda a: a["total_lag"], 2),
    ("group offsets {group}", lambda a: a["offsets"], "{topic}"),
    (
        "group reset-offsets {group} --topic {topic} --to-earliest",
        lambda a: [each["after"] for each in a["changes"]],
        [0, 0, 0],
    ),
    ("group delete {group} -f", lambda a: a["deleted"], "{group}"),
    ("schema list", lambda a: [each["subject"] for each in a], "{topic}-value"),
    ("schema get {topic}-value", lambda a: a["version"], 1),
    ("schema versions {topic}-value", lambda a: [each["version"] for each in a], [1]),
    ("schema register {topic}-new {schema}", lambda a: a["version"], 1),
    ("schema check {topic}-value {schema}", lambda a: a["compatible"], True),
    ("schema config {topic}-value --set full", lambda a: a["compatibility"], "FULL"),
    ("schema mode", lambda a: a["mode"], "READWRITE"),
    ("schema stats", lambda a: a["by_type"], "JSON"),
    ("schema delete {topic}-value -f", lambda a: a["deleted"], [1]),
    ("transaction list --state Ongoing", lambda a: [e["transactional_id"] for e in a], "{tx}"),
    ("transaction describe {tx}", lambda a: a["partitions"], "{topic}"),
    ("transaction abort {tx} -f", lambda a: a["state"], "CompleteAbort"),
    ("cluster info", lambda a: a["node_id"] in {1, 2, 3}, True),
    ("cluster health", lambda a: a["healthy"], True),
    ("health", lambda a: a["status"], "ok"),
    ("health --ready", lambda a: a["storage"], "ok"),
    ("config view", lambda a: a["current-context"], "local"),
    ("config get-contexts", lambda a: a[0]["name"], "local"),
    ("config set-context x --server http://x", lambda a: a["server"], "http://x"),
    ("config use-context local", lambda a: a["current"], "local"),
    ("config effective", lambda a: a[0]["setting"], "broker.data_dir"),
    ("role list", lambda a: [each["name"] for each in a], "producer"),
    ("role set {topic} --permission metrics:read", lambda a: a["permissions"], "metrics:read"),
    ("user roles {group} -r producer", lambda a: a["roles"], "producer"),
    ("user list", lambda a: [each for each in a if each["name"] == "{group}"], []),
    ("key create ci -r consumer --expires-in 1h", lambda a: a["roles"], "consumer"),
    ("key list", lambda a: [each for each in a if each["name"] == "{group}"], []),
    ("acl create -p User:a --operation read --topic {topic}", lambda a: a[0]["effect"], "allow"),
    ("acl list --topic {topic}-x", lambda a: a, []),
    ("version", lambda a: a["server"]["record_codec"], "native"),
    ("top --once --interval 10ms", lambda a: [each["topic"] for each in a["topics"]], "{topic}"),
]


@pytest.fixture
def filled(goqueue_broker: Broker, goqueue_topic: str, run: Run, tmp_path: Path) -> dict[str, str]:
    """A topic with three partitions and four messages, two of which a group has read."""
    topic = goqueue_broker.create_topic(goqueue_broker.unique_name("filled"), partitions=3)
    for number in range(4):
        goqueue_broker.publish(topic, f"{number}", key=f"{number}", headers={"h": "1"}, partition=0)
    group = goqueue_broker.unique_name("group")
    run("group", "reset-offsets", group, "--topic", topic, "-p", "0", "--to-offset", "2")
    schema = tmp_path / "order.json"
    schema.write_text("true")
    run("schema", "register", f"{topic}-value", str(schema))
    tx = goqueue_broker.unique_name("tx")
    who = _post(goqueue_broker, "/producers/init", transactional_id=tx)
    place = {"producer_id": who["producer_id"], "epoch": 0, "topic": topic, "partition": 0}
    _post(goqueue_broker, "/transactions/add-partition", **place)
    return {"topic": topic, "group": group, "schema": str(schema), "tx": tx}


def _post(broker: Broker, path: str, **body: Any) -> Any:
    data = json.dumps(body).encode()
    with urllib.request.urlopen(f"{broker.http_url}{path}", data, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
@pytest.mark.parametrize(("said", "look", "expected"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_command_prints_for_people_and_for_programs(
    run: Run, filled: dict[str, str], *, said: str, look, expected: object, form: str
) -> None:
    result = run(*said.format(**filled).split(), "-o", form)
    if isinstance(expected, str):
        expected = expected.format(**filled)
    if form == "table":
        assert result.stdout.strip() or expected == []
        assert "{" not in result.stdout
        assert "[" not in result.stdout
    else:
        found = look(parsed(result.stdout, form))
        is_inside = isinstance(found, list | dict) and isinstance(expected, str)
        assert expected in found if is_inside else found == expected
    assert "Traceback" not in result.output
