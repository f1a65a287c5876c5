from __future__ import annotations

import pytest

from goqueue.client.consuming.log_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OptionsError
from goqueue.spark.options.bounds import Bound
from goqueue.spark.options.read_options import parse_read_options

LEAST = {"bootstrap.servers": "here:9092", "subscribe": "orders"}


def parse(mode="batch", /, **options):
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_read_options(LEAST | named, mode)


def problems(mode="batch", /, given=None, **options):
    named = {name.replace("__", "."): value for name, value in options.items()}
    with pytest.raises(OptionsError) as caught:
        parse_read_options((LEAST if given is None else given) | named, mode)
    return caught.value.problems


def test_the_least_that_can_be_said_reads_everything():
    options = parse()
    assert options.link.servers == (("here", 9092),)
    assert options.subscription.topics == ("orders",)
    assert (options.start, options.end) == (Bound(everywhere=EARLIEST), Bound(everywhere=LATEST))
    assert options.isolation == READ_COMMITTED
    assert options.fail_on_data_loss
    assert not options.include_headers


def test_a_stream_starts_with_what_is_new():
    assert parse("stream").start == Bound(everywhere=LATEST)


def test_names_are_taken_in_any_case_since_spark_hands_them_over_in_lower_case():
    options = parse(startingoffsets="earliest", MINPARTITIONS="7", includeHeaders="TRUE")
    assert options.min_partitions == 7
    assert options.include_headers


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    assert problems(startingOffset="earliest") == (
        "unknown option startingoffset; did you mean startingOffsets?",
    )
    assert problems(zzz="red") == ("unknown option zzz",)


def test_options_of_sparks_kafka_connector_that_mean_nothing_here_are_taken():
    assert parse(**{"kafkaConsumer.pollTimeoutMs": "1", "groupIdPrefix": "x"}) == parse()
    assert parse(kafka__max__poll__records="500", kafka__fetch__min__bytes="1") == parse()
    assert parse(**{"kafka.max.poll.records": "500", "kafka.fetch.min.bytes": "1"}) == parse()


def test_every_problem_is_reported_at_once():
    found = problems(
        given={"subscribe": "a", "assign": '{"a": [0]}'},
        minPartitions="0",
        failOnDataLoss="maybe",
        endingOffsets="earliest",
        colour="red",
        kafka__security__protocol="sasl_ssl",
    )
    text = "\n".join(found)
    for part in (
        "colour",
        "bootstrap.servers is missing",
        "subscribe and assign",
        "minPartitions",
        "failOnDataLoss",
        "endingOffsets cannot be earliest",
        "kafka.sasl.username",
    ):
        assert part in text
    assert len(found) == 7


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", Bound(everywhere=EARLIEST)),
        (
            '{"a": {"0": 23, "1": -2}}',
            Bound(offsets={TopicPartition("a", 0): 23, TopicPartition("a", 1): -2}),
        ),
    ],
)
def test_starting_offsets_are_a_word_or_an_offset_a_partition(text, bound):
    assert parse(startingOffsets=text).start == bound


@pytest.mark.parametrize(
    "text",
    ["soon", "{", "[]", "{}", '{"a": 3}', '{"a": {}}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}',
     '{"a": {"0": -3}}', '{"a": {"0": true}}'],
)  # fmt: skip
def test_starting_offsets_of_another_shape_are_refused(text):
    assert problems(startingOffsets=text)[0].startswith("startingOffsets: ")


def test_a_moment_is_milliseconds_or_a_time_with_its_zone():
    assert parse(startingTimestamp="1700000000000").start.moment_ms == 1_700_000_000_000
    assert parse(endingTimestamp="2023-11-14T22:13:20Z").end.moment_ms == 1_700_000_000_000
    assert parse(endingTimestamp="2023-11-14T23:13:20+01:00").end.moment_ms == 1_700_000_000_000
    assert "with its zone" in problems(startingTimestamp="2023-11-14T22:13:20")[0]
    assert "no moment" in problems(startingTimestamp="yesterday")[0]
    assert "0 and up, not" in problems(startingTimestamp=str(2**63))[0]
    assert "0 and up, not -1" in problems(startingOffsetsByTimestamp='{"a": {"0": -1}}')[0]
    assert parse(endingTimestamp="2023-11-14T22:13:20.0001Z").end.moment_ms == 1_700_000_000_001
    # -1 and -2 are no moments but the ends of the log.
    assert "before 1970" in problems(startingTimestamp="1969-12-31T23:59:59.999Z")[0]


def test_times_go_before_offsets():
    by_partition = '{"a": {"0": 5}}'
    options = parse(startingOffsets="earliest", startingOffsetsByTimestamp=by_partition)
    assert options.start == Bound(moments={TopicPartition("a", 0): 5})
    options = parse(startingTimestamp="9", startingOffsetsByTimestamp=by_partition)
    assert options.start == Bound(moment_ms=9)


def test_what_is_for_one_kind_of_query_is_refused_in_the_other():
    assert "batch queries" in problems("stream", endingOffsets="latest")[0]
    assert "streaming queries" in problems("batch", maxOffsetsPerTrigger="5")[0]
    assert "would be empty" in problems("batch", startingOffsets="latest")[0]
    parse("stream", startingOffsets="latest")
    parse_read_options(LEAST | {"endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}, "either")


def test_a_subscription_is_names_a_pattern_or_partitions():
    server = {"bootstrap.servers": "x"}
    names = parse_read_options(server | {"subscribe": " a, b ,a"}, "batch").subscription
    assert names.topics == ("a", "b")
    pattern = parse_read_options(server | {"subscribePattern": "a.*"}, "batch").subscription
    assert (pattern.pattern, pattern.names) == ("a.*", None)
    assigned = parse_read_options(server | {"assign": '{"b": [1], "a": [0, 2]}'}, "batch")
    assert assigned.subscription.places == {("a", 0), ("a", 2), ("b", 1)}
    assert assigned.subscription.names == ("a", "b")
    assert "given: none" in problems(given=server)[0]
    assert "regular expression" in problems(given=server, subscribePattern="(")[0]
    for text in ('{"a": 1}', '{"a": []}', '{"a": ["0"]}', "a"):
        assert problems(given=server, assign=text)[0].startswith("assign: ")


def test_limits_of_a_trigger():
    limits = parse(
        "stream", maxOffsetsPerTrigger="5", maxBytesPerTrigger="64m", minOffsetsPerTrigger="2",
        maxTriggerDelay="10s",
    ).limits  # fmt: skip
    assert (limits.max_offsets, limits.max_bytes) == (5, 64 << 20)
    assert (limits.min_offsets, limits.max_delay_s) == (2, 10.0)
    assert "64m" in problems("stream", maxBytesPerTrigger="much")[0]
    assert "15m" in problems("stream", maxTriggerDelay="long")[0]


def test_the_rest():
    options = parse(
        startingOffsetsByTimestampStrategy="latest",
        maxRecordsPerPartition="9",
        columns="offset, value",
        groupId="billing",
        idlePoll="250ms",
        chunkBytes="1m",
        kafka__isolation__level="read_uncommitted",
        failOnDataLoss="false",
    )
    assert options.start_without_match == "latest"
    assert options.max_records_per_partition == 9
    assert options.columns == ("offset", "value")
    assert options.group_id == "billing"
    assert options.idle_poll_s == 0.25
    assert options.chunk_bytes == 1 << 20
    assert options.isolation == READ_UNCOMMITTED
    assert not options.fail_on_data_loss
    assert parse(kafka__group__id="mine").group_id == "mine"
    assert "chunkBytes" in problems(chunkBytes="1")[0]


# --- Where the broker is -----------------------------------------------------------------------


def test_addresses():
    link = parse_read_options(
        {"kafka.bootstrap.servers": "a:1, b, [::1]:3", "subscribe": "t"}, "batch"
    ).link
    assert link.servers == (("a", 1), ("b", 9092), ("::1", 3))
    for text in ("", "a:b", "a:0", "a:70000", ":9092"):
        assert (
            "bootstrap.servers: " in problems(given={"subscribe": "t"}, bootstrap__servers=text)[0]
        )
    both = {"kafka.bootstrap.servers": "b:1"}
    assert "different brokers" in problems(**both)[0]


def test_who_we_are_as_java_clients_say_it_and_as_others_do():
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="al\\"ice" password="p=w";'
    )
    java = parse(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="SCRAM-SHA-512",
        kafka__sasl__jaas__config=jaas,
        kafka__ssl__truststore__location="/ca.pem",
        kafka__ssl__truststore__type="PEM",
        kafka__ssl__endpoint__identification__algorithm="",
    ).link.client
    assert (java.is_tls, java.sasl_mechanism) == (True, "SCRAM-SHA-512")
    assert (java.username, java.password) == ('al"ice', "p=w")
    assert (java.ca_file, java.check_host_name) == ("/ca.pem", False)
    assert "p=w" not in repr(java)
    other = parse(
        kafka__security__protocol="sasl_plaintext",
        kafka__sasl__username="bob",
        kafka__sasl__password="secret",
    ).link.client
    assert (other.is_tls, other.sasl_mechanism, other.username) == (False, "PLAIN", "bob")
    assert "only PEM" in problems(kafka__ssl__truststore__location="/x.jks")[0]


def test_how_long_to_wait_for_the_broker():
    link = parse(
        kafka__default__api__timeout__ms="5000",
        kafka__request__timeout__ms="2s",
        kafka__retry__backoff__ms="10",
    ).link
    client = link.client
    assert (link.patience_s, client.call_timeout_ms, client.backoff_ms) == (5.0, 2000, 10)
    for name in ("request.timeout.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms"):
        assert problems(**{f"kafka.{name}": "0"}) == (f"kafka.{name}: expected 1 ms to 24 days",)
    assert problems("stream", idlePoll="1000h") == ("idlePoll: expected 0 ms to 24 days",)


def test_values_need_a_schema_from_somewhere():
    assert "valueSchema" in problems(valueFormat="json")[0]
    assert "binary or json" in problems(valueFormat="xml")[0]
    assert problems(valueSchema="a int", valueMode="failfast") == (
        "valueSchema needs a valueFormat: json, avro, protobuf, confluent",
        "valueMode needs a valueFormat: json, avro, protobuf, confluent",
    )
    assert "expected http://" in problems(valueFormat="avro", schema__registry__url="here:80")[0]
    value = parse(valueFormat="json", valueSchema="a int", valueMode="failfast").value
    assert (value.format, value.schema, value.fails) == ("json", "a int", True)
