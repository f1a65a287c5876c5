"""Which messages fit which version, judged on Spark against the registry of a real broker."""

from __future__ import annotations

import io
import json
from collections import Counter

import fastavro
import pytest

from goqueue.records import Record
from goqueue.schemas.model import Schema, SchemaType
from goqueue.spark.errors import ValueFormatError
from goqueue.spark.http_client import Http
from goqueue.spark.jobs.reports.audit import schema_audit
from goqueue.spark.jobs.reports.fitting import Judge
from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry
from support.http_api import HttpApi
from support.topic_writer import TopicWriter

AVRO = [
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]},
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "never", "type": ["null", "string"], "default": None},
        ],
    },
]
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
JSON = [
    {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "total": {"type": "number"}, "old": {}},
        "required": ["id", "total"],
    },
]


def version(number, kind, document):
    text = document if isinstance(document, str) else json.dumps(document)
    return RegisteredSchema(Schema(SchemaType(kind), text), (), number, 100 + number)


def framed(schema_id, payload):
    return b"\0" + schema_id.to_bytes(4) + payload


def avro(document, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(document), row)
    return out.getvalue()


# --- Judging --------------------------------------------------------------------------------------


def test_a_message_that_names_its_schema_is_held_against_that_one_alone():
    judge = Judge([version(1, "AVRO", AVRO[0]), version(2, "AVRO", AVRO[1])])
    row = avro(AVRO[1], {"id": 7, "note": "x", "never": None})
    found = judge.verdict(framed(102, row))
    assert (found.kind, found.version, list(found.present)) == ("named", 2, ["id", "note"])
    found = judge.verdict(framed(101, row))
    assert (found.kind, found.version) == ("misfit", 1)
    assert judge.verdict(framed(9, row)).kind == "foreign"
    assert judge.verdict(avro(AVRO[0], {"id": 7}), (("schema-id", b"101"),)).kind == "named"
    assert judge.verdict(b"", (("schema-id", b"x"),)).kind == "foreign"
    assert judge.verdict(None).kind == "tombstone"


def test_a_message_that_names_none_counts_for_the_newest_that_it_fits():
    judge = Judge([version(1, "JSON", JSON[0]), version(2, "JSON", JSON[1])])
    found = judge.verdict(b'{"id": 1, "total": 2}')
    assert (found.kind, found.version, list(found.fits)) == ("fits", 2, [2, 1])
    assert list(judge.verdict(b'{"id": 1, "total": null, "old": null}').present) == ["id"]
    found = judge.verdict(b'{"total": 1}')
    assert (found.kind, found.version) == ("none", None)
    assert "id" in found.reason
    assert judge.verdict(b"no JSON").kind == "none"
    assert judge.field_names(2) == ("id", "total", "old")


def test_protobuf_messages_say_which_type_of_the_file_they_are():
    judge = Judge([version(1, "PROTOBUF", PROTO)])
    found = judge.verdict(framed(101, b"\0" + b"\x08\x07"))
    assert (found.kind, list(found.present)) == ("named", ["id"])
    assert judge.verdict(framed(101, b"\x02\x08" + b"\x08\x07")).kind == "misfit"
    assert judge.verdict(b"\x08\x07\x12\x01x").fits == [1]
    assert judge.field_names(1) == ("id", "note")


# --- On Spark -------------------------------------------------------------------------------------


@pytest.fixture
def registered(broker):
    api = HttpApi(int(broker.http_url.rpartition(":")[2]))

    def register(subject, kind, *documents):
        api.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        for each in documents:
            body = {"schemaType": kind, "schema": json.dumps(each)}
            api.ask("POST", f"/subjects/{subject}/versions", body)
        return SchemaRegistry(Http(broker.http_url)).versions(subject)

    yield register
    api.close()


def test_an_audit_counts_what_a_dumb_judge_does(spark, broker, registered):
    topic = broker.create_topic("audited", partitions=2, settings={"retention.ms": -1})
    versions = registered(f"{topic}-value", "AVRO", *AVRO)
    first, second = (each.schema_id for each in versions)
    values = [framed(first, avro(AVRO[0], {"id": n})) for n in range(20)]
    values += [framed(second, avro(AVRO[1], {"id": n, "note": "x"})) for n in range(30)]
    values += [framed(second, b"\x02"), framed(first, b""), framed(999, b"x"), None]
    values += [avro(AVRO[0], {"id": 5}), b"\x80", b"\x80\x80"]
    with TopicWriter(broker.kafka_address) as writer:
        for at, value in enumerate(values):
            writer.append(topic, at % 2, [Record(0, 1000 + at, b"k", value)])
    report = schema_audit(spark, broker.kafka_address, topic, Http(broker.http_url))
    judge = Judge(versions)
    verdicts = [judge.verdict(each) for each in values]
    kinds = Counter(each.kind for each in verdicts)
    found = report.as_dict()
    assert {kind: found[kind] for kind in ("misfit", "none", "foreign", "tombstone")} == {
        "misfit": 2,
        "none": 2,
        "foreign": 1,
        "tombstone": 1,
    }
    assert found["fit"] == kinds["named"] + kinds["fits"] == 51
    assert found["messages"] == len(values)
    one, two = found["versions"]
    assert (one["version"], one["named_it"], one["fit_it"], one["misfits"]) == (1, 20, 21, 1)
    assert (two["version"], two["named_it"], two["fit_it"], two["misfits"]) == (2, 30, 30, 1)
    assert (one["first"], two["first"], two["last"]) == ("0/0", "0/10", "1/24")
    assert found["silent_fields"] == [{"version": 2, "field": "never"}]
    assert sum(each["messages"] for each in found["misfits"]) == 5
    assert {each["kind"] for each in found["misfits"]} == {"misfit", "none", "foreign"}
    assert all(each["cause"] and each["sample"] for each in found["misfits"])


def test_a_subject_that_is_not_there_is_named(broker):
    with pytest.raises(ValueFormatError, match="no subject 'nothing-value'"):
        schema_audit(None, broker.kafka_address, "nothing", Http(broker.http_url))
