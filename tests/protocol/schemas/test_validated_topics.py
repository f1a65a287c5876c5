"""Topics that hold messages against schemas, whichever way they come in."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from kio.schema.errors import ErrorCode

import goqueue
from goqueue.model.errors import GoQueueError
from goqueue.records import Compression
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import PublishServiceStub
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import make_batch, produce_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.raw_kafka import RawKafka
    from support.http_api import HttpApi
    from support.server import ServerProcess

SCHEMA = json.dumps(
    {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
)
GOOD, BAD = b'{"id": 1}', b'{"id": "x"}'
REASON = """at /id: "x" is not of type "integer\""""


@pytest.fixture
def make(api: HttpApi, name: Callable[[str], str]) -> Callable[..., str]:
    """Makes topics with a subject, unless told otherwise."""

    def topic(validation: str = "latest", *, suffix: str | None = "-value") -> str:
        made = name("validated")
        settings = {"goqueue.schema.validation": validation}
        api.post("/topics", {"name": made, "num_partitions": 1, "settings": settings})
        if suffix is not None:
            body = {"schema": SCHEMA, "schemaType": "JSON"}
            api.post(f"/subjects/{made}{suffix}/versions", body)
        return made

    return topic


def schema_id(api: HttpApi, topic: str) -> int:
    found: int = api.get(f"/subjects/{topic}-value/versions/latest")["id"]
    return found


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + payload


def values(api: HttpApi, topic: str) -> list[str]:
    found = api.get(f"/topics/{topic}/partitions/0/messages?offset=0&limit=100")["messages"]
    return [each["value"] for each in found]


def test_over_http_good_messages_are_stored_and_bad_ones_are_told_why(
    api: HttpApi, make: Callable[..., str]
) -> None:
    topic = make()
    sent = [GOOD.decode(), BAD.decode(), "{}", GOOD.decode(), "not json"]
    results = api.publish(topic, *sent)
    assert [each["status"] for each in results] == [200, 400, 400, 200, 400]
    assert [each.get("offset") for each in results] == [0, None, None, 1, None]
    assert {each["code"] for each in results if each["status"] == 400} == {
        "schema_validation_failed"
    }
    assert REASON in results[1]["error"]
    assert results[1]["field"] == "messages[1].value"
    assert 'at /: "id" is a required property' in results[2]["error"]
    assert "not JSON" in results[4]["error"]
    assert values(api, topic) == [GOOD.decode()] * 2


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_kafka_batch_is_refused_as_a_whole_with_the_bad_records(
    api: HttpApi, raw: RawKafka, make: Callable[..., str], codec: Compression
) -> None:
    topic = make()
    answer = raw.produce(topic, make_batch(GOOD, BAD, GOOD, b"{", compression=codec))
    assert ErrorCode(answer.error_code) is ErrorCode.invalid_record
    assert answer.base_offset == -1
    told = [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors]
    assert [number for number, _ in told] == [1, 3]
    assert REASON in told[0][1]
    assert "(and 1 more do not fit)" in answer.error_message
    assert values(api, topic) == []
    assert raw.produce(topic, make_batch(GOOD, GOOD, compression=codec)).base_offset == 0


def test_over_grpc_good_messages_are_stored_and_bad_ones_are_told_why(
    api: HttpApi, broker: ServerProcess, make: Callable[..., str]
) -> None:
    topic = make()
    sent = [pb.NewMessage(value=each) for each in (GOOD, BAD, GOOD)]
    with grpc.insecure_channel(broker.grpc_address) as channel:
        request = pb.PublishRequest(topic=topic, messages=sent)
        results = PublishServiceStub(channel).Publish(request).results
    assert [each.error.name for each in results] == ["", "SchemaValidationError", ""]
    assert REASON in results[1].error.message
    assert values(api, topic) == [GOOD.decode()] * 2


def test_the_python_client_loses_no_neighbour_of_a_bad_message(
    api: HttpApi, broker: ServerProcess, make: Callable[..., str]
) -> None:
    topic = make()
    sent = [GOOD] * 20
    sent[7] = sent[13] = BAD
    with goqueue.Client(broker.kafka_address) as client:
        deliveries = [client.publish(topic, each) for each in sent]
        with pytest.raises(GoQueueError, match="is not of type"):
            client.flush()
        outcomes = [each.exception(30) is None for each in deliveries]
    assert outcomes == [each is GOOD for each in sent]
    assert values(api, topic) == [GOOD.decode()] * 18


def test_a_tombstone_fits_every_schema(raw: RawKafka, make: Callable[..., str]) -> None:
    for validation in ("latest", "id"):
        assert raw.produce(make(validation), make_batch(None)).base_offset == 0


def test_without_a_version_there_is_nothing_to_fit(raw: RawKafka, make: Callable[..., str]) -> None:
    assert raw.produce(make(suffix=None), make_batch(b"anything")).base_offset == 0
    answer = raw.produce(make("id", suffix=None), make_batch(b"anything"))
    assert "names no schema" in answer.error_message


def test_the_topic_s_own_name_is_a_subject_too(raw: RawKafka, make: Callable[..., str]) -> None:
    topic = make(suffix="")
    assert raw.produce(topic, make_batch(GOOD)).base_offset == 0
    assert f"of subject {topic!r}" in raw.produce(topic, make_batch(BAD)).error_message


def test_a_schema_that_is_named_is_the_one_that_counts(
    api: HttpApi, raw: RawKafka, make: Callable[..., str]
) -> None:
    topic = make()
    old = schema_id(api, topic)
    api.ask("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
    newer = {"schema": '{"type":"string"}', "schemaType": "JSON"}
    api.post(f"/subjects/{topic}-value/versions", newer)
    new = schema_id(api, topic)
    taken = [framed(old, GOOD), framed(new, b'"text"'), b'"text"']
    for value in taken:
        assert raw.produce(topic, make_batch(value)).error_code == 0, value
    for value in (framed(new, GOOD), GOOD, framed(99_999, GOOD), framed(old, b'"text"')):
        answer = raw.produce(topic, make_batch(value))
        assert ErrorCode(answer.error_code) is ErrorCode.invalid_record, value
    for headers, status in (({"schema-id": str(old)}, 200), ({"schema-id": str(new)}, 400)):
        (result,) = api.publish(topic, GOOD.decode(), headers=headers)
        assert result["status"] == status


def test_a_message_must_name_a_schema_of_its_own_topic_where_the_topic_says_so(
    api: HttpApi, raw: RawKafka, make: Callable[..., str]
) -> None:
    topic, other = make("id"), make("id")
    body = {"schema": '{"type":"object"}', "schemaType": "JSON"}
    api.post(f"/subjects/{other}-elsewhere/versions", body)
    foreign = api.get(f"/subjects/{other}-elsewhere/versions/1")["id"]
    own = schema_id(api, topic)
    assert raw.produce(topic, make_batch(framed(own, GOOD))).error_code == 0
    for value, said in (
        (GOOD, "names no schema"),
        (framed(foreign, GOOD), "is not one of subject"),
        (framed(own, BAD), REASON),
    ):
        assert said in raw.produce(topic, make_batch(value)).error_message


def test_a_deleted_version_is_not_written_any_more(
    api: HttpApi, raw: RawKafka, make: Callable[..., str]
) -> None:
    topic = make("id")
    own = schema_id(api, topic)
    assert raw.produce(topic, make_batch(framed(own, GOOD))).error_code == 0
    api.ask("DELETE", f"/subjects/{topic}-value/versions/1")
    answer = raw.produce(topic, make_batch(framed(own, GOOD)))
    assert "is not one of subject" in answer.error_message


def test_avro_without_a_frame_may_begin_like_one(
    api: HttpApi, raw: RawKafka, make: Callable[..., str]
) -> None:
    topic = make(suffix=None)
    schema = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "b", "type": "bytes"}] * 1}
    )
    api.post(f"/subjects/{topic}-value/versions", {"schema": schema})
    assert raw.produce(topic, make_batch(b"\0")).error_code == 0
    assert raw.produce(topic, make_batch(b"\x0aabcde")).error_code == 0
    answer = raw.produce(topic, make_batch(b"\0\x7f\x7f\x7f\x7f"))
    assert "4 bytes follow the end of the value" in answer.error_message


def test_confluent_s_name_of_the_setting_works_too(
    api: HttpApi, raw: RawKafka, name: Callable[[str], str]
) -> None:
    topic = name("confluent")
    settings = {"confluent.value.schema.validation": "true"}
    api.post("/topics", {"name": topic, "num_partitions": 1, "settings": settings})
    assert "names no schema" in raw.produce(topic, make_batch(b"x")).error_message
    answer = api.ask(
        "PATCH", f"/topics/{topic}", {"settings": {"goqueue.schema.validation": "sometimes"}}
    )
    assert answer.code == "invalid_settings"


def test_what_is_checked_is_counted(api: HttpApi, raw: RawKafka, make: Callable[..., str]) -> None:
    topic = make()
    assert raw.produce(topic, make_batch(GOOD, BAD, GOOD)).error_code
    counted: Counter[str] = Counter()
    for line in api.metrics().splitlines():
        if line.startswith("goqueue_broker_schema_validations_total{") and f'"{topic}"' in line:
            labels, _, value = line.rpartition(" ")
            counted[labels.partition('result="')[2].partition('"')[0]] += int(float(value))
    assert counted == {"valid": 2, "invalid": 1}


def test_schemas_and_what_they_demand_outlive_a_killed_broker(
    api: HttpApi, broker: ServerProcess, make: Callable[..., str]
) -> None:
    topic = make()
    api.ask("PUT", "/config", {"compatibility": "FULL"})
    api.ask("PUT", f"/mode/{topic}-value", {"mode": "READONLY"})
    before = everything(api)
    broker.kill()
    api.close()
    broker.start()
    assert everything(api) == before
    assert [each["status"] for each in api.publish(topic, GOOD.decode(), BAD.decode())] == [
        200,
        400,
    ]
    body = {"schema": '{"type":"null"}', "schemaType": "JSON"}
    answer = api.ask("POST", f"/subjects/{topic}-value/versions", body)
    assert answer.json["error_code"] == 42205
    api.close()
    broker.restart()
    assert everything(api) == before


def everything(api: HttpApi) -> Any:
    subjects = api.get("/subjects?deleted=true")
    return {
        "schemas": api.get("/schemas?deleted=true"),
        "stats": api.get("/schemas/stats"),
        "levels": [api.get(f"/config/{each}?defaultToGlobal=true") for each in subjects],
        "modes": [api.get(f"/mode/{each}?defaultToGlobal=true") for each in subjects],
        "global": [api.get("/config"), api.get("/mode")],
    }


# --- Keys -----------------------------------------------------------------------------------------


@pytest.fixture
def keyed(api: HttpApi, name: Callable[[str], str]) -> Callable[..., str]:
    """Makes topics with a subject for keys."""

    def topic(**settings: str) -> str:
        made = name("keyed")
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        api.post("/topics", {"name": made, "num_partitions": 1, "settings": dotted})
        body = {"schema": '{"type": "integer"}', "schemaType": "JSON"}
        api.post(f"/subjects/{made}-key/versions", body)
        return made

    return topic


def test_keys_are_held_against_the_subject_of_keys(
    api: HttpApi, raw: RawKafka, broker: ServerProcess, keyed: Callable[..., str]
) -> None:
    topic = keyed(goqueue_key_schema_validation="latest")
    sent = [{"value": "anything", "key": key} for key in ("1", "x", None)]
    results = api.post(f"/topics/{topic}/messages", {"messages": sent})["results"]
    assert [each["status"] for each in results] == [200, 400, 200]
    assert f"the key does not fit schema {key_id(api, topic)}" in results[1]["error"]
    answer = raw.produce(topic, make_batch(b"anything", key=b"x"))
    assert ErrorCode(answer.error_code) is ErrorCode.invalid_record
    assert raw.produce(topic, make_batch(b"anything", key=b"2")).error_code == 0
    with grpc.insecure_channel(broker.grpc_address) as channel:
        sent_rows = [pb.NewMessage(value=b"x", key=each) for each in (b"3", b"x")]
        request = pb.PublishRequest(topic=topic, messages=sent_rows)
        rows = PublishServiceStub(channel).Publish(request).results
    assert [each.error.name for each in rows] == ["", "SchemaValidationError"]


def test_keys_and_values_are_both_held_against_their_subjects(
    api: HttpApi, keyed: Callable[..., str]
) -> None:
    topic = keyed(goqueue_key_schema_validation="latest", goqueue_schema_validation="latest")
    api.post(f"/subjects/{topic}-value/versions", {"schema": SCHEMA, "schemaType": "JSON"})
    sent = [(b"1", GOOD), (b"1", BAD), (b"x", GOOD)]
    messages = [{"key": key.decode(), "value": value.decode()} for key, value in sent]
    results = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    assert [each["status"] for each in results] == [200, 400, 400]


def test_confluents_setting_for_keys_asks_for_an_id(
    api: HttpApi, raw: RawKafka, keyed: Callable[..., str]
) -> None:
    topic = keyed(confluent_key_schema_validation="true")
    answer = raw.produce(topic, make_batch(b"anything", key=b"1"))
    assert "the key names no schema" in answer.error_message
    named = framed(key_id(api, topic), b"1")
    assert raw.produce(topic, make_batch(b"anything", key=named)).error_code == 0


def key_id(api: HttpApi, topic: str) -> int:
    found: int = api.get(f"/subjects/{topic}-key/versions/latest")["id"]
    return found


# --- Order ----------------------------------------------------------------------------------------


def test_requests_of_a_connection_are_stored_in_their_order(
    api: HttpApi, raw: RawKafka, make: Callable[..., str]
) -> None:
    topic = make()
    count = 20
    for number in range(count):
        many = 2000 if number % 2 == 0 else 1  # some take long to be checked, some do not
        batch = make_batch(*[b'{"id": %d}' % number] * many)
        raw.send(ApiKey.PRODUCE, 9, **produce_fields(topic, batch))
    for _ in range(count):
        raw.next_sender().answer_bytes()
    found: list[int] = []
    offset = 0
    while len(found) < count // 2 * 2001:
        page = api.get(f"/topics/{topic}/partitions/0/messages?offset={offset}&limit=1000")
        found += [json.loads(each["value"])["id"] for each in page["messages"]]
        offset = page["messages"][-1]["offset"] + 1
    assert found == sorted(found)
