"""Dead letters on Spark: sorted by cause, and redriven once."""

from __future__ import annotations

import json
import shlex
import urllib.request
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import typer
from hypothesis import example, given, strategies as st

from goqueue.cli.root import app
from goqueue.cli.times import moment_ms
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark.errors import OptionsError
from goqueue.spark.http_client import Http
from goqueue.spark.jobs.dead_letters.redriven_index import (
    is_in,
    look_up,
    merged,
    receipts_topic,
)
from goqueue.spark.jobs.dead_letters.redriving import dlq_redrive, windows
from goqueue.spark.jobs.dead_letters.selection import Selection
from goqueue.spark.jobs.dead_letters.triage import dlq_triage, redrive_command
from goqueue.spark.jobs.error_text import normalised
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import sample_of, size
from support.topic_writer import TopicWriter

names = (f"dying-{number}" for number in count())
HOUR = 3_600_000
BEGAN = 1_700_000_000_000 // HOUR * HOUR


# --- Errors --------------------------------------------------------------------------------------

pieces = st.sampled_from(
    ["'", '"', "`", "12", "a", "0xff", " ", "<n>", "deadbeef1", "HTTP 404", "-"]
)


@given(st.one_of(st.text(max_size=400), st.lists(pieces, max_size=200).map("".join)))
def test_an_error_that_is_normalised_stays_as_it_is(text):
    once = normalised(text)
    assert normalised(once) == once


@given(
    st.integers(0, 10**12),
    st.uuids(),
    st.text(st.characters(codec="ascii", exclude_characters="'\n"), max_size=9),
)
def test_errors_that_differ_in_what_they_are_about_have_one_cause(number, an_id, name):
    text = f"order {number} of '{name}' ({an_id}) is not at 0x{number:x}: HTTP 404"
    assert normalised(text) == "order <n> of <text> (<id>) is not at <hex>: HTTP 404"


def test_what_tells_causes_apart_is_kept():
    assert normalised("can't reach user's bank") == "can't reach user's bank"
    assert normalised("status=500") != normalised("status=404")
    assert normalised(None) == ""


# --- Ranges --------------------------------------------------------------------------------------

offsets = st.sets(st.integers(0, 60))


@given(offsets, st.integers(-1, 61))
def test_ranges_hold_the_offsets_that_they_were_made_of(wanted, offset):
    spans = merged((each, each + 1) for each in wanted)
    assert is_in(spans, offset) == (offset in wanted)
    assert merged(spans) == spans


ranges = st.dictionaries(
    st.tuples(st.just("t"), st.integers(0, 5)),
    st.tuples(st.integers(0, 50), st.integers(1, 90)).map(lambda pair: (pair[0], sum(pair))),
)


def places(pieces):
    return [
        (place, at) for piece in pieces for place, (a, b) in piece.items() for at in range(a, b)
    ]


@given(ranges, st.integers(1, 40))
def test_windows_hold_every_offset_once_and_no_more_than_they_may(found, most):
    made = list(windows(found, most))
    assert sorted(places(made)) == sorted(places([found]))
    assert all(0 < size(each) <= most for each in made)


@example({("t", 0): (0, 51)}, 0.984375)
@given(ranges, st.floats(0.01, 1))
def test_a_sample_is_as_large_as_it_says_and_has_no_offset_twice(found, share):
    sample = sample_of(found, share)
    read = places(sample.pieces)
    assert len(read) == len(set(read)) == sample.sampled <= sample.offsets == size(found)
    assert set(read) <= set(places([found]))
    assert sample.sampled >= share * sample.offsets - len(found) / 2  # each is rounded once
    assert bool(sample.warnings()) == (sample.sampled < sample.offsets)


# --- On Spark ------------------------------------------------------------------------------------


@pytest.fixture
def topic(broker):
    name = broker.create_topic(next(names), partitions=2)
    broker.create_topic(f"{name}.dlq", partitions=2, settings={"retention.ms": -1})
    return name


def letter(at, topic, error, *, reason="REJECTED", group="billing", died_ms=BEGAN, source=None):
    said = {
        "topic": source or topic,
        "partition": at % 2,
        "offset": at,
        "group": group,
        "reason": reason,
        "error": error,
        "attempts": 3,
        "time": died_ms,
    }
    headers = [("trace", b"abc"), *((f"goqueue-dlq-{k}", str(v).encode()) for k, v in said.items())]
    return Record(0, died_ms, b"k%d" % (at % 3), b"value %d" % at, tuple(headers))


@pytest.fixture
def letters(broker, topic):
    """Twelve dead letters of three causes, and a message that says nothing of its death."""
    rows = [letter(n, topic, f"no such customer '{n}'", died_ms=BEGAN + n) for n in range(6)]
    rows += [letter(n, topic, f"HTTP 503 after {n} ms", died_ms=BEGAN + HOUR) for n in range(6, 10)]
    rows += [
        letter(n, topic, "", reason="MAX_RETRIES_EXCEEDED", group="audit") for n in range(10, 12)
    ]
    rows.append(Record(0, BEGAN, b"k0", b"value 12", ()))
    with TopicWriter(broker.kafka_address) as writer:
        for at, record in enumerate(rows):
            writer.append(f"{topic}.dlq", at % 2, [record])
    return rows


def values(broker, topic):
    return sorted(each.value.decode() for each in broker.messages(topic))


def test_dead_letters_are_sorted_by_cause_with_a_command_for_each(spark, broker, topic, letters):
    report = dlq_triage(spark, broker.kafka_address, [topic], http=Http(broker.http_url), top=3)
    causes = report.as_dict()["causes"]
    assert [(each["letters"], each["reason"], each["group"], each["error"]) for each in causes] == [
        (6, "REJECTED", "billing", "no such customer <text>"),
        (4, "REJECTED", "billing", "HTTP 503 after <n> ms"),
        (2, "MAX_RETRIES_EXCEEDED", "audit", None),
    ]
    assert (report.summary["cause_count"], report.summary["in_other_causes"]) == (4, 1)
    keys = Counter(f"k{n % 3}" for n in range(6))
    assert causes[0]["top_keys"] == ", ".join(f"{key} ({keys[key]})" for key in sorted(keys))
    assert (causes[0]["topic"], causes[0]["sample"]) == (topic, f"{topic}.dlq/1/2")
    assert causes[0]["sample_error"] == "no such customer '5'"
    words = shlex.split(causes[1]["redrive"])
    assert words[3:5] == ["dlq-redrive", f"{topic}.dlq"]
    assert words[words.index("--error") + 1] == "HTTP 503 after <n> ms"
    assert [each["letters"] for each in report.as_dict()["hours"]] == [1, 2, 6, 4]
    assert (report.summary["letters"], report.warnings) == (13, [])
    assert not report.summary.keys() & {each.title for each in report.tables}


def test_letters_go_back_once_whoever_sends_them(spark, broker, topic, letters):
    address, http = broker.kafka_address, Http(broker.http_url)
    wanted = Selection(error="no such customer 'anybody'")
    narrow = replace(
        wanted,
        reason="REJECTED",
        group="billing",
        source=topic,
        error_like="customer '[0-4]'",
        key=b"k0",
        since_ms=BEGAN + 1,
        until_ms=BEGAN + 6,
    )
    dry = dlq_redrive(spark, address, topic, selection=narrow, dry_run=True, http=http)
    assert (dry.summary["would_go"], values(broker, topic)) == (1, [])  # number 3 alone

    def killed(stage, done, total=None):
        if stage == "sending letters" and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # the first portion has gone
        dlq_redrive(spark, address, topic, selection=wanted, portion=9, progress=killed, http=http)
    assert values(broker, topic) == sorted(f"value {n}" for n in (0, 2, 4, 1, 3))
    sent = []

    def overtaken(stage, done, total=None):
        if not sent:
            sent.append(None)
            sent.append(dlq_redrive(spark, address, topic, selection=wanted, http=http))

    late = dlq_redrive(spark, address, topic, selection=wanted, http=http, progress=overtaken)
    assert (sent[1].summary["sent"], late.summary["sent"]) == (1, 0)
    once = [f"value {n}" for n in range(6)]
    assert values(broker, topic) == once
    first = broker.messages(topic)[0]
    assert dict(first.headers) == {"trace": b"abc", "goqueue-redriven": b"1"}
    assert {each.partition for each in broker.messages(topic)} == {0, 1}
    # The broker knows what the job has sent, and the job what the broker has.
    body = json.dumps({"filter": {"reason": "REJECTED"}, "limit": 1}).encode()
    ask = urllib.request.Request(f"{broker.http_url}/topics/{topic}/dlq/redrive", body)
    with urllib.request.urlopen(ask) as answer:
        number = json.load(answer)["id"]
    while not json.load(urllib.request.urlopen(f"{broker.http_url}/redrives/{number}"))["ended_at"]:
        pass
    by_broker = [each for each in values(broker, topic) if each not in once]
    assert by_broker == ["value 6"]
    # All the rest, over several requests; what says nothing goes where its name says.
    rest = dlq_redrive(spark, address, f"{topic}.dlq", portion=9, http=http)
    assert rest.summary["sent"] == 6
    assert values(broker, topic) == sorted(f"value {n}" for n in range(13))
    assert dlq_triage(spark, address, [topic], http=http).summary["letters"] == 0


def test_what_jobs_of_earlier_versions_recorded_is_not_redriven(spark, broker, topic, letters):
    address, http = broker.kafka_address, Http(broker.http_url)
    holder = f"{topic}.dlq"
    with Link(address).cluster() as cluster:
        topic_id = cluster.topics([holder])[holder].topic_id
    said = {"topic": holder, "id": topic_id, "partition": 1, "number": 0, "run": "r", "to": ""}
    broker.create_topic(receipts_topic(holder), partitions=1)
    broker.publish(receipts_topic(holder), json.dumps(said | {"ranges": [[0, 2]]}).encode())
    broker.publish(
        receipts_topic(holder), json.dumps(said | {"id": "x", "ranges": [[2, 3]]}).encode()
    )
    assert dlq_triage(spark, address, [topic], http=http).summary["letters"] == 11
    assert dlq_redrive(spark, address, topic, http=http).summary["sent"] == 11
    assert values(broker, topic) == sorted(f"value {n}" for n in range(13) if n not in {1, 3})
    known = look_up(Link(address), [holder], http)
    assert known.spans == {(holder, 0): [(0, 7)], (holder, 1): [(0, 6)]}


def test_letters_in_a_topic_of_any_name_go_to_the_topics_that_they_name(spark, broker, topic):
    address, http = broker.kafka_address, Http(broker.http_url)
    rejects = broker.create_topic(next(names), partitions=1)
    with TopicWriter(address) as writer:
        writer.append(rejects, 0, [letter(0, topic, "odd")])
        writer.append(rejects, 0, [Record(0, BEGAN, b"k", b"nobody's", ())])
    report = dlq_redrive(spark, address, rejects, http=http)
    assert (report.summary["sent"], report.summary["stayed"]) == (1, 1)
    assert report.as_dict()["targets"] == [{"topic": topic, "sent": 1}]
    assert values(broker, topic) == ["value 0"]
    assert dlq_triage(spark, address, [rejects], http=http).summary["letters"] == 1
    assert dlq_redrive(spark, address, rejects, http=http, to=topic).summary["sent"] == 1
    assert values(broker, topic) == ["nobody's", "value 0"]
    with pytest.raises(OptionsError, match="HTTP address is needed"):
        dlq_redrive(spark, address, rejects)


def test_a_letter_that_its_topic_refuses_stays_and_the_others_go(spark, broker):
    name = broker.create_topic(next(names), partitions=2, settings={"max.message.bytes": 1000})
    broker.create_topic(f"{name}.dlq", partitions=2, settings={"retention.ms": -1})
    rows = [letter(at, name, "odd") for at in range(8)]
    rows[5] = rows[5]._replace(value=b"x" * 2000)
    rows.append(letter(8, name, "odd", source="gone"))
    with TopicWriter(broker.kafka_address) as writer:
        for at, record in enumerate(rows):
            writer.append(f"{name}.dlq", at % 2, [record])
    address, http = broker.kafka_address, Http(broker.http_url)

    some = dlq_redrive(spark, address, name, http=http, portion=3, limit=2).summary
    assert (some["sent"], some["refused"], some["looked_at"]) == (2, 0, 3)
    report = dlq_redrive(spark, address, name, http=http)
    found = report.as_dict()
    assert (found["sent"], found["refused"], found["stayed"]) == (5, 1, 1)
    assert not report.summary.keys() & {each.title for each in report.tables}
    (refused,) = found["refused_letters"]
    assert (refused["letter"], refused["topic"]) == (f"{name}.dlq/1/2", name)
    assert "max.message.bytes" in refused["error"]
    wanted = [f"value {at}" for at in range(8) if at != 5]
    assert values(broker, name) == wanted
    assert [text.split(":")[0] for text in report.warnings] == [
        "1 letters stay",
        "1 letters stay",
    ]
    known = look_up(Link(address), [f"{name}.dlq"], http)
    gone = [offset for offset in range(4) if known.has(TopicPartition(f"{name}.dlq", 1), offset)]
    assert gone == [0, 1, 3]  # the next run tries the other one again
    with pytest.raises(OptionsError, match="cannot go to the topic that they are in"):
        dlq_redrive(spark, address, name, http=http, to=f"{name}.dlq")


def test_the_suggested_command_is_one_that_the_command_line_takes():
    group = {
        "letters_in": "orders.dlq",
        "reason": "REJECTED",
        "source_topic": "orders",
        "group": "-",
        "cause": "it's <n>; rm -rf `x`",
    }
    words = shlex.split(redrive_command(group, BEGAN, BEGAN + 1))
    command: Any = typer.main.get_command(app)
    for word in words[1:4]:
        command = command.commands[word]
    given = command.make_context("redrive", words[4:]).params
    wanted = {
        "topic": "orders.dlq",
        "reason": "REJECTED",
        "source": "orders",
        "group": "",
        "error": "it's <n>; rm -rf `x`",
    }
    assert {name: given[name] for name in wanted} == wanted
    assert moment_ms(given["since"], "--since") == BEGAN
    assert moment_ms(given["until"], "--until") == BEGAN + 1
