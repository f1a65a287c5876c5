"""Schemas and messages that are made to keep a broker busy: they are refused, and nobody waits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from protocol.raw_kafka import RawKafka, make_batch
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

LEVELS = 40
"""Each level asks for the next one twice: a message costs 2 to this power steps."""
DOUBLING = {
    "definitions": {
        **{f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}] * 2} for at in range(LEVELS)},
        f"d{LEVELS}": {"type": "integer"},
    },
    "$ref": "#/definitions/d0",
}
BACKTRACKING = {"type": "string", "pattern": r"^(?=(\w+\s?)*$)(?!x)(\w+\s?)*$"}
HOLDS_ITSELF = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}


@pytest.fixture
def other(broker: ServerProcess, name: Callable[[str], str]) -> Iterator[Callable[[], None]]:
    """What another client does meanwhile, over HTTP and Kafka; fails if it is not answered."""
    api = HttpApi(broker.http_port)
    topic = name("others")
    with RawKafka(broker.kafka_port) as raw:
        raw.create(topic)

        def requests() -> None:
            assert api.ask("GET", "/subjects").status == 200
            assert raw.produce(topic, make_batch(b"x")).error_code == 0

        yield requests
    api.close()


@pytest.fixture
def make(api: HttpApi, name: Callable[[str], str]) -> Callable[..., str]:
    """Makes topics that hold messages against a schema."""

    def topic(schema: Any, kind: str = "JSON") -> str:
        made = name("hostile")
        settings = {"goqueue.schema.validation": "latest"}
        api.post("/topics", {"name": made, "num_partitions": 1, "settings": settings})
        body = {"schema": json.dumps(schema), "schemaType": kind}
        api.post(f"/subjects/{made}-value/versions", body)
        return made

    return topic


def meanwhile(hostile: Callable[[], Any], other: Callable[[], None]) -> Any:
    """What comes of something hostile; the other client is answered all the time."""
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(hostile)
        while not under_way.done():
            other()
        return under_way.result()


def test_a_message_that_takes_endless_steps_is_refused_over_http(
    api: HttpApi, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make(DOUBLING)
    (result,) = meanwhile(lambda: api.publish(topic, "1"), other)
    assert result["status"] == 400
    assert "more than 2 s of processor time" in result["error"]


def test_a_message_that_takes_endless_steps_is_refused_over_kafka(
    broker: ServerProcess, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make({**DOUBLING, "title": "kafka"})
    with RawKafka(broker.kafka_port) as raw:
        answer = meanwhile(lambda: raw.produce(topic, make_batch(b"1", b"2")), other)
    assert ErrorCode(answer.error_code) is ErrorCode.invalid_record
    assert "more than 2 s of processor time" in answer.error_message


def test_a_schema_that_reached_a_limit_is_refused_at_once_for_a_while(
    api: HttpApi, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make({**DOUBLING, "title": "again"})
    meanwhile(lambda: api.publish(topic, "1"), other)
    results = meanwhile(lambda: api.publish(topic, *["1"] * 1000), other)
    assert {each["status"] for each in results} == {400}
    assert "tried again" in results[-1]["error"]


def test_patterns_with_look_around_are_matched_with_a_bound_of_steps(
    api: HttpApi, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make(BACKTRACKING)
    text = json.dumps("a" * 5000 + "!")
    results = meanwhile(lambda: api.publish(topic, *[text] * 1000, '"a b"'), other)
    assert [each["status"] for each in results] == [400] * 1000 + [200]


def test_a_message_that_crashes_a_library_is_refused(
    api: HttpApi, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make(HOLDS_ITSELF, "AVRO")
    (result,) = meanwhile(lambda: api.publish(topic, ""), other)
    assert result["status"] == 400
    assert "crashed" in result["error"]
    other()


def test_a_message_with_endless_errors_is_refused_within_bounds(
    api: HttpApi, make: Callable[..., str], other: Callable[[], None]
) -> None:
    topic = make({"anyOf": [{"type": "string"}] * 1000})
    text = json.dumps(["a" * 100] * 5000)
    (result,) = meanwhile(lambda: api.publish(topic, text), other)
    assert result["status"] == 400


COMPARED = {
    "a pattern that backtracks over a name": (
        {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"type": "object", "properties": {"a" * 40 + "!": {}}, "additionalProperties": False},
    ),
    "what must not be, twice on each level": (
        {
            "definitions": {
                **{
                    f"d{at}": {"not": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}] * 2}}
                    for at in range(60)
                },
                "d60": {"type": kind},
            },
            "$ref": "#/definitions/d0",
        }
        for kind in ("string", "integer")
    ),
    "a thousand alternatives with a thousand others": (
        {"anyOf": [{"type": "object", "required": [f"{kind}{at}"]} for at in range(1000)]}
        for kind in "ab"
    ),
}


@pytest.mark.parametrize("pair", [list(pair) for pair in COMPARED.values()], ids=list(COMPARED))
def test_comparing_hostile_schemas_holds_up_nobody(
    api: HttpApi, name: Callable[[str], str], other: Callable[[], None], pair: list[Any]
) -> None:
    subject = name("hostile")
    before, after = ({"schema": json.dumps(each), "schemaType": "JSON"} for each in pair)
    api.post(f"/subjects/{subject}/versions", before)
    answer = meanwhile(lambda: api.ask("POST", f"/subjects/{subject}/versions", after), other)
    assert answer.status in {200, 409, 422}, answer


def test_understanding_a_hostile_schema_holds_up_nobody(
    api: HttpApi, name: Callable[[str], str], other: Callable[[], None]
) -> None:
    chain = {f"d{at}": {"$ref": f"#/definitions/d{at + 1}"} for at in range(22_000)}
    schema = {"definitions": {**chain, "d22000": {}}, "$ref": "#/definitions/d0"}
    body = {"schema": json.dumps(schema), "schemaType": "JSON"}
    path = f"/subjects/{name('hostile')}/versions"
    answer = meanwhile(lambda: api.ask("POST", path, body), other)
    assert answer.status in {200, 422}, answer
