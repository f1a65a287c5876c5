"""Browsing over HTTP: what is shown, what is cut, what is decoded, and what is hostile."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import fastavro
import pytest

if TYPE_CHECKING:
    from support.http_api import HttpApi

SCRIPT = '<script>alert("1")</script>\x00\x1b[31m\u202e\u2028'
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; }'


def search(api: HttpApi, topic: str, **query: Any) -> dict[str, Any]:
    answer = api.ask("GET", f"/topics/{topic}/search?{urlencode(query)}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def publish(api: HttpApi, topic: str, value: bytes, **fields: Any) -> dict[str, Any]:
    message = {"value": base64.b64encode(value).decode(), "encoding": "base64", **fields}
    (result,) = api.post(f"/topics/{topic}/messages", {"messages": [message]})["results"]
    found: dict[str, Any] = result
    assert found.get("error") is None, found
    return found


def values(found: dict[str, Any]) -> list[str]:
    return [each["value"] for each in found["messages"]]


def test_the_newest_come_first_and_a_cursor_leads_on(api: HttpApi, topic: str) -> None:
    for number in range(7):
        api.publish(topic, str(number), partition=number % 2)
    found = search(api, topic, limit=3)
    seen = values(found)
    assert not found["complete"]
    while found["cursor"] is not None:
        found = search(api, topic, limit=3, cursor=found["cursor"])
        seen += values(found)
    assert found["complete"]
    assert sorted(seen) == list("0123456")
    assert [each for each in seen if int(each) % 2] == ["5", "3", "1"]
    assert values(search(api, topic, direction="oldest", partition=0)) == list("0246")


def test_a_place_in_offsets_and_in_time_is_where_it_begins(api: HttpApi, topic: str) -> None:
    for number in range(10):
        api.publish(topic, str(number), partition=0, timestamp=1_000_000 + number)
    assert values(search(api, topic, partition=0, offset=4, limit=2)) == ["4", "3"]
    oldest = search(api, topic, partition=0, offset=4, limit=2, direction="oldest")
    assert values(oldest) == ["4", "5"]
    assert values(search(api, topic, start=1_000_003, end=1_000_006)) == ["5", "4", "3"]
    assert values(search(api, topic, partition=0, offset=999)) == list("9876543210")
    assert values(search(api, topic, partition=0, offset=999, direction="oldest")) == []
    assert api.ask("GET", f"/topics/{topic}/search?offset=4").code == "invalid_field"


def test_keys_values_and_headers_are_looked_through(api: HttpApi, topic: str) -> None:
    api.publish(topic, "an Apple", key="customer-1")
    api.publish(topic, "a pear", key="customer-12")
    header = {"name": "note", "value": "APPLES"}
    api.publish(topic, "nothing", key="other", headers=[header])
    assert sorted(values(search(api, topic, text="apple"))) == ["an Apple", "nothing"]
    assert sorted(values(search(api, topic, key="CUSTOMER-1"))) == ["a pear", "an Apple"]
    assert values(search(api, topic, key="customer-1", key_match="exact")) == ["an Apple"]
    assert values(search(api, topic, key="customer", text="apple")) == ["an Apple"]
    nothing = search(api, topic, text="banana")
    assert (nothing["messages"], nothing["complete"], nothing["scanned"]) == ([], True, 3)


def test_what_is_hostile_is_shown_as_it_is(api: HttpApi, topic: str) -> None:
    header = {"name": SCRIPT, "value": SCRIPT}
    api.publish(topic, SCRIPT, key=SCRIPT, headers=[header], partition=0)
    publish(api, topic, b"\xff\xfe\x00", partition=0)
    binary, script = search(api, topic, text="", partition=0)["messages"]
    assert (script["key"], script["value"]) == (SCRIPT, SCRIPT)
    assert script["headers"] == [{"name": SCRIPT, "value": SCRIPT}]
    assert (binary["encoding"], base64.b64decode(binary["value"])) == ("base64", b"\xff\xfe\x00")
    assert values(search(api, topic, text="<script>")) == [SCRIPT]
    assert values(search(api, topic, text="\x1b[31m")) == [SCRIPT]


def test_large_values_are_cut_between_characters(api: HttpApi, topic: str) -> None:
    api.publish(topic, "ü" * 450_000, partition=0, key="k" * 100_000)
    (found,) = search(api, topic, partition=0)["messages"]
    assert found["truncated"]
    assert found["encoding"] == "text"
    assert set(found["value"]) == {"ü"}
    assert 65_533 <= len(found["value"].encode()) <= 65_536
    assert len(found["key"]) == 65_536
    assert found["size_bytes"] == 1_000_000
    path = f"/topics/{topic}/partitions/0/messages?offset={found['offset']}&limit=1"
    (whole,) = api.get(path)["messages"]
    assert len(whole["value"]) == 450_000


def test_a_message_says_when_whence_and_how_urgent(api: HttpApi, topic: str) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    header = {"name": "traceparent", "value": f"00-{trace}-00f067aa0ba902b7-01"}
    api.publish(topic, "traced", headers=[header], priority="high", partition=0)
    api.publish(topic, "plain", partition=0)
    plain, traced = search(api, topic, partition=0)["messages"]
    assert (traced["trace_id"], traced["priority"]) == (trace, "high")
    assert (plain["priority"], len(plain["trace_id"])) == ("normal", 32)
    assert plain["timestamp_type"] == "create"
    assert (plain["truncated"], plain["decoded"], plain["decode_error"]) == (False, None, None)


def register(api: HttpApi, subject: str, kind: str, schema: str) -> int:
    body = {"schema": schema, "schemaType": kind}
    number: int = api.post(f"/schemas/subjects/{quote(subject)}/versions", body)["id"]
    return number


def test_values_are_decoded_with_the_schema_that_they_name(api: HttpApi, topic: str) -> None:
    subject = f"{topic}-value"
    avro = register(api, subject, "AVRO", json.dumps(AVRO))
    proto = register(api, f"{topic}-proto", "PROTOBUF", PROTO)
    plain = register(api, f"{topic}-json", "JSON", '{"type": "object"}')
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(AVRO), {"id": 42})
    frames = [
        b"\0" + avro.to_bytes(4) + encoded.getvalue(),
        b"\0" + avro.to_bytes(4) + b"\xff",
        b"\0" + proto.to_bytes(4) + b"\0" + b"\x08\x07\x12\x03\xc3\xbcb",
        b"\0" + plain.to_bytes(4) + b'{"id": 1}',
        b"\0" + (10**6).to_bytes(4) + b"?",
        b"no schema",
    ]
    for frame in frames:
        publish(api, topic, frame, partition=0)
    found = search(api, topic, partition=0, direction="oldest")["messages"]
    decoded = [each["decoded"] for each in found]
    assert decoded[0] == {
        "schema_id": avro,
        "subject": subject,
        "version": 1,
        "format": "AVRO",
        "json": '{"id": 42}',
    }
    assert decoded[1] is None
    assert found[1]["decode_error"]
    assert (decoded[2]["format"], json.loads(decoded[2]["json"])) == (
        "PROTOBUF",
        {"id": "7", "name": "üb"},
    )
    assert (decoded[3]["format"], decoded[3]["json"]) == ("JSON", '{"id": 1}')
    assert "1000000" in found[4]["decode_error"]
    assert (decoded[5], found[5]["decode_error"]) == (None, None)


@pytest.mark.parametrize(
    "query",
    [
        "cursor=nonsense",
        "cursor=n0:1",
        "cursor=o0:0-1",
        "cursor=n0:0-99999999999999999999",
        "cursor=n" + "%D9%A1:0-1",
        "limit=0",
        "limit=501",
        "direction=sideways",
        "partition=-1",
        "start=yesterday",
        "text=" + "x" * 1001,
        "unknown=1",
        "key=%ff",
    ],
)
def test_what_is_no_question_is_refused(api: HttpApi, topic: str, query: str) -> None:
    assert api.ask("GET", f"/topics/{topic}/search?{query}").code == "invalid_field"


def test_topics_and_partitions_that_are_not_there_are_not_found(api: HttpApi, topic: str) -> None:
    assert api.ask("GET", "/topics/nowhere/search").code == "unknown_topic"
    assert api.ask("GET", f"/topics/{topic}/search?partition=9").code == "unknown_partition"
    assert search(api, topic, cursor="n9:0-5")["messages"] == []
    assert search(api, topic, cursor="n0:3-99999")["messages"] == []
