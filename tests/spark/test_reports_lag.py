"""How far groups are behind, asked over Kafka's protocol. No Spark is needed."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from itertools import count

import pytest
from typer.testing import CliRunner

from goqueue.cli.root import app
from goqueue.client.link.addresses import parse_addresses
from goqueue.records import Record
from goqueue.spark.errors import OptionsError
from goqueue.spark.http_client import Http
from goqueue.spark.jobs.reports.lag import lag_report
from goqueue.spark.jobs.reports.lag_history import course_of, history_rows
from goqueue.spark.jobs.showing import show_span
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.kafka.settings import LinkSettings
from support.http_api import HttpApi
from support.server import free_port
from support.topic_writer import TopicWriter

HOUR = 3_600_000
names = (f"behind-{number}" for number in count())


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(names), partitions=2, settings={"retention.ms": -1})


@pytest.fixture
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


@pytest.fixture
def commit(broker):
    cluster = Cluster(LinkSettings(parse_addresses(broker.kafka_address)))
    yield cluster.commit
    cluster.close()


def rows(report, table, **wanted):
    found = report.as_dict()[table]
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def test_lag_is_told_in_messages_and_in_time_for_each_group_and_topic(
    broker, topic, writer, commit
):
    now = time.time_ns() // 1_000_000
    # A message every ten minutes for ten hours; the second partition has one alone.
    writer.append(topic, 0, [Record(n, now - (60 - n) * HOUR // 6, b"k", b"v") for n in range(60)])
    writer.append(topic, 1, [Record(0, now - 5 * HOUR, b"k", b"v")])
    writer.append(topic, 1, [Record(0, now, b"k", b"x" * 100_000)])  # longer than what is looked at
    commit("slow", {(topic, 0): 12, (topic, 1): 1})
    commit("done", {(topic, 0): 60, (topic, 1): 2})
    report = lag_report(
        broker.kafka_address, groups="[sd]*", topics=topic, hours=24, partitions=True
    )
    assert not report.summary.keys() & {each.title for each in report.tables}
    (slow,) = rows(report, "groups", group="slow")
    assert (slow["topic"], slow["partitions"], slow["lag"]) == (topic, 2, 49)
    assert (slow["worst_partition"], slow["lost"]) == (48, 0)
    assert slow["oldest_unread"].startswith("8h")  # and what the machine has taken since
    assert slow["written_per_s"] == pytest.approx(7 / 3600, abs=2 / 3600)
    (done,) = rows(report, "groups", group="done")
    assert (done["lag"], done["oldest_unread"], done["done_in"]) == (0, None, "0s")
    assert sum(each["unread"] for each in rows(report, "unread")) == 49
    assert max(each["unread"] for each in rows(report, "unread")) <= 7
    ages = {
        each["partition"]: each["oldest_unread"]
        for each in rows(report, "partitions", group="slow")
    }
    assert ages[0].startswith("8h")
    assert "h" not in ages[1]
    assert {each["group"] for each in rows(report, "idle_groups")} >= {"slow", "done"}


def test_messages_that_were_removed_unread_are_lost_not_lag(broker, topic, writer, commit):
    writer.numbers(topic, 0, 0, 50, at_ms=1000)
    commit("late", {(topic, 0): 10, (topic, 1): 0})
    writer.delete_records(topic, 0, 30)
    report = lag_report(broker.kafka_address, groups="late", topics=topic, hours=0)
    (late,) = rows(report, "groups")
    assert (late["lag"], late["lost"]) == (20, 20)
    assert "late" in report.warnings[0]


def test_a_group_of_a_queue_is_behind_by_what_it_is_not_done_with(broker, topic, writer):
    api = HttpApi(int(broker.http_url.rpartition(":")[2]))
    for kind in ("shared", "exclusive"):
        group = f"queue-{kind}"
        joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": kind})
        if kind == "shared":
            writer.numbers(topic, 0, 0, 5, at_ms=1000)
        member = joined["member_id"]
        taken = api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s&limit=2")["messages"]
        api.post(
            "/messages/ack/batch", {"receipt_handles": [each["receipt_handle"] for each in taken]}
        )
    report = lag_report(broker.kafka_address, groups="queue-*", topics=topic)
    assert [(each["group"], each["lag"]) for each in rows(report, "groups")] == [
        ("queue-exclusive", 3),
        ("queue-shared", 3),
    ]
    api.close()


def test_looking_twice_tells_how_fast_a_group_reads(broker, topic, writer, commit):
    writer.numbers(topic, 0, 0, 1000)
    commit("running", {(topic, 0): 0})

    def read_on(stage, done, total=None):
        if stage == "measuring" and not done:
            commit("running", {(topic, 0): 400})

    report = lag_report(
        broker.kafka_address, groups="running", topics=topic, measure_s=0.5, progress=read_on
    )
    (row,) = rows(report, "groups")
    assert row["lag"] == 600
    assert 0 < row["read_per_s"] <= 800
    assert row["done_in"].endswith(("ms", "s"))


def test_a_partition_that_is_read_for_the_first_time_is_no_speed(broker, topic, writer, commit):
    writer.numbers(topic, 0, 0, 1000)
    writer.numbers(topic, 1, 0, 1000)
    commit("joining", {(topic, 0): 10})

    def read_on(stage, done, total=None):
        if stage == "measuring" and not done:
            commit("joining", {(topic, 1): 900})

    report = lag_report(
        broker.kafka_address, groups="joining", topics=topic, measure_s=0.1, progress=read_on
    )
    (row,) = rows(report, "groups")
    assert (row["read_per_s"], row["done_in"]) == (0, "never")


@pytest.mark.parametrize(
    ("points", "trend", "course"),
    [
        ([0, 0, 0, 0], "steady", "▁▁▁▁"),
        ([100, 101, 99], "steady", "███"),
        ([0, 10, 20, 40], "growing", "▁▃▅█"),
        ([40, None, 20, 0], "shrinking", "█▅▁"),
        ([*range(60)], "growing", None),
    ],
)
def test_the_course_of_a_lag_is_told_in_a_row(points, trend, course):
    row = course_of("g", {"lag": points, "step_ms": 5000})
    known = [each for each in points if each is not None]
    assert (row["least"], row["most"], row["now"]) == (min(known), max(known), known[-1])
    assert row["trend"] == trend
    assert course is None or row["course"] == course
    assert len(str(row["course"])) == min(len(known), 30)
    assert row["over"] == show_span((len(points) - 1) * 5000)


def test_what_the_broker_remembers_of_groups_is_shown_and_nothing_else_is_said(
    broker, topic, writer, commit
):
    writer.numbers(topic, 0, 0, 100)
    inside = broker.embedded.node.broker

    async def look():
        await inside.backlogs.look()
        await inside.history.sample()

    for offset in (0, 0, 60):
        commit("known", {(topic, 0): offset})
        broker._do(look())
    report = lag_report(
        broker.kafka_address, groups="known", topics=topic, http=Http(broker.http_url)
    )
    (row,) = rows(report, "history")
    assert (row["most"], row["least"], row["now"], row["trend"]) == (100, 40, 40, "shrinking")
    closed = Http(f"http://127.0.0.1:{free_port()}")
    for elsewhere in (None, closed, Http(f"http://{broker.kafka_address}")):
        quiet = lag_report(broker.kafka_address, groups="known", topics=topic, http=elsewhere)
        assert "history" not in quiet.as_dict()
        assert quiet.warnings == []


class Counted(socketserver.TCPServer):
    calls = 0


class Counting(socketserver.BaseRequestHandler):
    """Hangs up on whoever calls, and counts."""

    server: Counted

    def handle(self):
        self.server.calls += 1


def test_whoever_does_not_answer_is_asked_once():
    with Counted(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        nobody = Http("http://{}:{}".format(*server.server_address))
        groups = [f"g{number}" for number in range(20)]
        assert history_rows(nobody, groups) == []
        server.shutdown()
        thread.join()
    assert server.calls == 1


def test_arguments_that_make_no_sense_are_refused(broker):
    with pytest.raises(OptionsError):
        lag_report(broker.kafka_address, hours=-1)


def test_the_command_prints_the_report_and_starts_no_spark(broker, topic, writer, commit):
    writer.numbers(topic, 0, 0, 7)
    commit("printed", {(topic, 0): 3})
    line = ["pipeline", "job", "lag-report", "--group", "printed", "-o", "json"]
    line += ["-b", broker.kafka_address, "-s", broker.http_url]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["job"], found["lag"], found["groups"][0]["group"]) == ("lag-report", 4, "printed")


def test_a_kafka_address_that_nobody_named_is_named_when_it_does_not_answer():
    line = ["job", "lag-report", "-s", "http://127.77.0.1:1"]
    line += ["--option", "kafka.default.api.timeout.ms=1000"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 1
    assert "127.77.0.1:9092 was assumed from --server" in done.output
    assert "name another with --bootstrap-servers" in done.output
    named = CliRunner().invoke(app, [*line, "-b", "127.77.0.1:9"])
    assert named.exit_code == 1
    assert "assumed" not in named.output
