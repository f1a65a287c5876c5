"""Searching by JSON, and messages as files, over HTTP."""

from __future__ import annotations

import base64
import csv
import io
import json
import struct
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from support.http_api import HttpApi

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}


@pytest.fixture
def orders(api: HttpApi, topic: str) -> str:
    """A topic with JSON, text, a tombstone, and Avro as Confluent's serializers frame it."""
    schema = {"schema": json.dumps(AVRO)}
    schema_id = api.post(f"/subjects/{topic}-value/versions", schema)["id"]
    avro = b"\0" + struct.pack(">I", schema_id) + b"\x0e" + b"\x08Bonn"  # id 7, city Bonn
    messages = [
        {"value": '{"id": 1, "city": "Rome", "tags": ["new"]}', "key": "a", "partition": 0},
        {"value": '{"id": 8, "city": "Bonn"}', "headers": {"h": "v"}, "partition": 0},
        {"value": "no, JSON", "key": "=1+1", "partition": 0},
        {"value": None, "key": "k", "partition": 0},
        {"value": base64.b64encode(avro).decode(), "encoding": "base64", "partition": 0},
    ]
    api.post(f"/topics/{topic}/messages", {"messages": messages})
    return topic


@pytest.mark.parametrize(
    ("condition", "offsets"),
    [
        ('$.city == "Bonn"', [1, 4]),
        ("$.id >= 7", [1, 4]),
        ("$.id < 8 && $.city != 'Rome'", [4]),
        ('$.tags[*] == "new"', [0]),
        ("$.nothing", []),
    ],
)
def test_a_json_filter_is_asked_of_json_and_of_what_a_schema_decodes(
    api: HttpApi, orders: str, condition: str, offsets: list[int]
) -> None:
    path = f"/topics/{orders}/search?direction=oldest&json={quote(condition)}"
    answer = api.get(path)
    assert answer["complete"]
    assert [each["offset"] for each in answer["messages"]] == offsets
    assert answer["scanned"] >= 5


def test_what_is_no_condition_is_refused_with_its_place(api: HttpApi, orders: str) -> None:
    refused = api.ask("GET", f"/topics/{orders}/search?json={quote('$.id >')}")
    assert (refused.status, refused.json["field"]) == (400, "json")
    assert "at character" in refused.json["detail"]


def test_an_export_has_what_the_search_finds(api: HttpApi, orders: str) -> None:
    answer = api.ask("GET", f"/topics/{orders}/export?direction=oldest")
    assert answer.headers["x-goqueue-messages"] == "5"
    assert answer.headers["x-goqueue-complete"] == "true"
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [each["offset"] for each in lines] == [0, 1, 2, 3, 4]
    assert json.loads(lines[4]["decoded"]["json"]) == {"id": 7, "city": "Bonn"}
    assert (lines[3]["value"], lines[2]["value"]) == (None, "no, JSON")
    some = api.ask("GET", f"/topics/{orders}/export?format=csv&direction=oldest&limit=3")
    assert some.headers["x-goqueue-complete"] == "false"
    head, *rows = csv.reader(io.StringIO(some.body.decode()))
    assert head == ["partition", "offset", "time", "key", "value", "headers"]
    assert [row[1] for row in rows] == ["0", "1", "2"]
    assert rows[2][4] == "no, JSON"
    assert json.loads(rows[1][5]) == [{"name": "h", "value": "v"}]


def test_a_parquet_export_holds_the_bytes_and_the_decoded_values(api: HttpApi, orders: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = f"/topics/{orders}/export?format=parquet&direction=oldest&json={quote('$.id > 1')}"
    answer = api.ask("GET", path)
    assert answer.status == 200, answer
    table = parquet.read_table(io.BytesIO(answer.body))
    assert table["offset"].to_pylist() == [1, 4]
    assert table["value"].to_pylist()[0] == b'{"id": 8, "city": "Bonn"}'
    assert json.loads(table["decoded"].to_pylist()[1]) == {"id": 7, "city": "Bonn"}
    assert table["headers"].to_pylist()[0] == [{"name": "h", "value": b"v"}]
