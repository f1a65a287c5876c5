"""`goqueue consume` with a format, a filter, offsets from the end, and values of the registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

AVRO = {"type": "record", "name": "User", "fields": [{"name": "age", "type": "int"}]}


@pytest.fixture(scope="module")
def people(goqueue_broker: Broker) -> str:
    """Four people in three partitions."""
    name = goqueue_broker.unique_name("people")
    topic = goqueue_broker.create_topic(name, partitions=3, settings={"retention.ms": -1})
    for number, (person, age) in enumerate([("ada", 36), ("bob", 17), ("eve", 29), ("kim", 61)]):
        goqueue_broker.publish(
            topic,
            json.dumps({"user": {"name": person, "age": age}}),
            key=person,
            headers={"n": f"{number}", "h": None},
            partition=number % 3,
        )
    goqueue_broker.publish(topic, b"\xffno json", partition=1)
    goqueue_broker.publish(topic, None, key="ada", partition=2)
    return topic


def names(run: Run, topic: str, *options: str) -> list[str]:
    result = run("consume", topic, *options, "--format", r"%k\n")
    return result.stdout.split("\n")[:-1]


# --- Formats -------------------------------------------------------------------------------------


def test_a_format_prints_every_field_and_nothing_else(run: Run, people: str) -> None:
    form = r"%t|%p|%o|%k|%h|%S|%%|\x41\t%v\0"
    result = run("consume", people, "-p", "0", "-n", "1", "--format", form)
    value = '{"user": {"name": "ada", "age": 36}}'
    assert result.stdout == f"{people}|0|0|ada|n=0,h=|{len(value)}|%|A\t{value}\0"
    stamp = run("consume", people, "-p", "0", "-n", "1", "--format", "%T").stdout
    (message,) = map(
        json.loads, run("consume", people, "-p", "0", "-n", "1", "-o", "json").stdout.splitlines()
    )
    assert int(stamp) == message["timestamp"]


def test_bytes_and_tombstones_are_printed_as_they_are(run: Run, people: str) -> None:
    result = run("consume", people, "-p", "1", "--offset", "1", "--format", r"%v")
    assert result.stdout_bytes == b"\xffno json"
    result = run("consume", people, "-p", "2", "--offset", "1", "--format", r"[%v] %S")
    assert result.stdout == "[] -1"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%q", "'%q' is unknown; there are: %t topic, %p partition, %o offset"),
        ("%", "'%' is unknown"),
        (r"\y", r"'\y' is unknown; there are: \n \t"),
        ("\\", "is unknown"),
    ],
)
def test_an_unknown_field_is_refused_with_those_there_are(run: Run, form: str, said: str) -> None:
    assert said in run("consume", "no-topic", "--format", form, code=2).stderr


def test_two_forms_exclude_each_other(run: Run) -> None:
    result = run("consume", "no-topic", "--format", "%k", "-o", "json", code=2)
    assert "--format and -o json exclude each other" in result.stderr


# --- Where it starts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--offset", "-1"], ["kim", "", "ada"]),
        (["--offset", "-1", "-p", "0"], ["kim"]),
        (["--offset=-2", "-p", "1"], ["bob", ""]),
        (["--offset", "-100", "-n", "2"], ["ada", "bob"]),
        (["--offset", "-1", "--follow", "-n", "3"], ["", "ada", "kim"]),
        (["--offset", "earliest", "-n", "1"], ["ada"]),
        (["--offset", "@1h", "-n", "1"], ["ada"]),
        (["--offset", "@2100-01-01T00:00:00Z"], []),
    ],
    ids=str,
)
def test_an_offset_can_count_from_the_end_or_be_a_name_or_a_time(
    run: Run, people: str, options: list[str], expected: list[str]
) -> None:
    found = names(run, people, *options)
    assert (sorted(found) if "--follow" in options else found) == expected


@pytest.mark.parametrize("offset", ["ten", "+5", "@whenever", "--5", ""])
def test_an_offset_that_is_none_is_refused(run: Run, offset: str) -> None:
    assert "--offset" in run("consume", "no-topic", "--offset", offset, code=2).stderr


def test_a_partition_that_is_not_there_is_refused(run: Run, people: str) -> None:
    run("consume", people, "--offset", "-1", "-p", "7", code=1)


# --- Filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("$.user.age > 30", ["ada", "kim"]),
        ("$.user.age > 30 && $.user.name != 'ada'", ["kim"]),
        ("$.user.name =~ '^[be]'", ["bob", "eve"]),
        ("$.nothing", []),
    ],
)
def test_only_messages_that_fit_are_printed(
    run: Run, people: str, condition: str, expected: list[str]
) -> None:
    assert names(run, people, "--filter", condition) == expected


def test_messages_that_do_not_fit_do_not_count(run: Run, people: str) -> None:
    assert names(run, people, "--filter", "$.user.age > 50", "-n", "1") == ["kim"]


def test_a_member_commits_what_does_not_fit(run: Run, people: str, goqueue_broker: Broker) -> None:
    group = goqueue_broker.unique_name("group")
    assert names(run, people, "--group", group, "--filter", "$.user.age > 50") == ["kim"]
    described = json.loads(run("group", "describe", group, "-o", "json").stdout)
    assert described["total_lag"] == 0


def test_a_filter_that_is_none_says_where(run: Run) -> None:
    result = run("consume", "no-topic", "--filter", "age > 30", code=2)
    assert "--filter: at character 1: expected a condition such as $.user.age > 30" in result.stderr


# --- Values of the registry ----------------------------------------------------------------------


@pytest.fixture
def encoded(run: Run, goqueue_broker: Broker, goqueue_topic: str, tmp_path: Path) -> str:
    """An Avro value with Confluent's prefix, one with a header, and one that is cut off."""
    schema = tmp_path / "user.avsc"
    schema.write_text(json.dumps(AVRO))
    said = run("schema", "register", f"{goqueue_topic}-value", str(schema), "-o", "json").stdout
    number: int = json.loads(said)["id"]
    prefix = b"\0" + number.to_bytes(4)
    goqueue_broker.publish(goqueue_topic, prefix + b"\x48")  # 36, as Avro writes it
    goqueue_broker.publish(goqueue_topic, b"\x20", headers={"schema-id": f"{number}"})
    goqueue_broker.publish(goqueue_topic, prefix)
    return goqueue_topic


def read(run: Run, topic: str, *options: str) -> list[dict[str, Any]]:
    out = run("consume", topic, *options, "-o", "json").stdout
    return [json.loads(line) for line in out.splitlines()]


def test_values_of_the_registry_are_shown_and_filtered_as_json(run: Run, encoded: str) -> None:
    first, second, broken = read(run, encoded)
    assert json.loads(first["decoded"]["json"]) == {"age": 36}
    assert (first["decoded"]["format"], first["encoding"]) == ("AVRO", "text")
    assert json.loads(second["decoded"]["json"]) == {"age": 16}
    assert "decoded" not in broken
    assert broken["decode_error"]
    found = run("consume", encoded, "--filter", "$.age > 30", "--format", r"%o %v\n").stdout
    assert found == '0 {"age": 36}\n'
    assert '{"age": 36}' in run("consume", encoded, "-n", "1").stdout


def test_a_member_of_a_group_gets_them_decoded_too(
    run: Run, encoded: str, goqueue_broker: Broker
) -> None:
    group = goqueue_broker.unique_name("group")
    first, *_ = read(run, encoded, "--group", group)
    assert json.loads(first["decoded"]["json"]) == {"age": 36}


def test_values_that_cannot_be_decoded_are_counted_and_printed_as_stored(
    run: Run, encoded: str
) -> None:
    result = run("consume", encoded, "--format", "%S ")
    assert "1 value was not decoded and printed as stored (0:2: " in result.stderr
    assert result.stdout == "6 1 5 "


def test_without_decoding_values_are_as_they_are_stored(run: Run, encoded: str) -> None:
    first, *_ = read(run, encoded, "--decode", "none")
    assert "decoded" not in first
    raw = run("consume", encoded, "-n", "1", "--decode", "none", "--format", "%v").stdout_bytes
    assert raw[:1] == b"\0"
    assert raw[-1:] == b"\x48"
