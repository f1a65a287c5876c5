"""Whole pipelines on a real Spark, against a real broker; an oracle reads what came out."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from urllib.request import urlopen

import pyarrow.dataset
import pyarrow.parquet
import pytest

from goqueue.spark.pipelines.execution.running import run_pipeline
from goqueue.spark.pipelines.model import (
    JoinStep,
    Otherwise,
    Pipeline,
    PythonStep,
    Rule,
    RulesStep,
    SqlStep,
    TableFormat,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
    Trigger,
    Watermark,
    WindowStep,
)
from support.committed import committed

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCHEMA = "id bigint, customer string, amount double, at string"
names = (f"orders-{number}" for number in count())


@pytest.fixture
def orders(broker):
    return broker.create_topic(next(names), partitions=2, settings={"retention.ms": -1})


@pytest.fixture
def described(broker, orders, tmp_path):
    """`described(*steps, sinks=…)`: a pipeline over the topic of orders."""

    def describe(*steps, more_sources=(), **given):
        source = TopicSource(
            name="orders",
            topics=(orders,),
            value_format="json",
            value_schema=SCHEMA,
            watermark=Watermark("at", "1 minute"),
        )
        usual = {
            "name": f"shop-{orders}",
            "servers": broker.kafka_address,
            "http": broker.http_url,
            "checkpoints": str(tmp_path / "checkpoints"),
            "connection": {"kafka.default.api.timeout.ms": "60000"},
            "conf": {"spark.sql.shuffle.partitions": "1"},
            "sources": (source, *more_sources),
            "steps": steps,
        }
        return Pipeline(**usual | given)

    return describe


def order(number, amount=1.0, minute=0):
    at = START + timedelta(minutes=minute)
    body = {"id": number, "customer": f"c{number % 3}", "amount": amount, "at": at.isoformat()}
    return json.dumps(body)


def publish(broker, topic, values):
    for number, value in enumerate(values):
        broker.publish(topic, value, key=f"k{number}", partition=number % 2)


def rows_of(broker, topic):
    return [json.loads(each.value) for each in committed(broker, topic)]


def fetched(broker, path):
    with urlopen(f"{broker.http_url}{path}", timeout=60) as answer:
        return json.load(answer)


# --- A whole pipeline ----------------------------------------------------------------------------


RULES = RulesStep(
    name="checked",
    input="orders",
    rules=(
        Rule(name="positive", expect="amount > 0"),
        Rule(name="big_enough", expect="amount >= 1", otherwise=Otherwise.DROP),
        Rule(name="has_id", expect="id IS NOT NULL", otherwise=Otherwise.FAIL),
    ),
)


@pytest.fixture
def whole(described, orders, tmp_path):
    """Rules, SQL, a window and a table to join with; two kinds of tables and a topic to write."""
    customers = tmp_path / "customers.csv"
    customers.write_text("customer,country\nc0,DE\nc1,FR\nc2,IT\n")
    return described(
        WindowStep(
            name="revenue",
            input="located",
            on="at",
            size="10 minutes",
            by=("country",),
            select={"orders": "count(*)", "revenue": "sum(amount)"},
        ),
        RULES,
        JoinStep(name="located", left="priced", right="customers", on="customer", how="left"),
        SqlStep(name="priced", sql="SELECT *, amount * 1.19 AS gross FROM checked -- not orders"),
        more_sources=(TableSource(name="customers", format=TableFormat.CSV, path=str(customers)),),
        sinks=(
            TopicSink(name="revenue", input="revenue", topic=f"{orders}-revenue", create=1),
            TopicSink(
                name="clean", input="checked", topic=f"{orders}-clean", key="customer", create=3
            ),
            TableSink(
                name="lake",
                input="located",
                format=TableFormat.PARQUET,
                path=str(tmp_path / "located"),
                partition_by=("country",),
            ),
            TableSink(
                name="delta", input="priced", format=TableFormat.DELTA, path=str(tmp_path / "delta")
            ),
        ),
    )


def without_copies(whole):
    """The topics alone, whose sinks have the state and the letters."""
    sinks = tuple(each for each in whole.sinks if isinstance(each, TopicSink))
    return replace(whole, sinks=sinks)


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(400)  # eight or ten queries, each with processes of its own
@pytest.mark.parametrize(
    "has_all_again", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["topics", "all"]
)
def test_a_whole_pipeline_and_its_restart(broker, orders, whole, tmp_path, has_all_again):
    seen = []
    publish(broker, orders, [order(number, minute=number) for number in range(30)])
    publish(broker, orders, [order(90, amount=-5.0), "no json", order(91, amount=0.5)])
    report = run_pipeline(whole, progress=seen.append, available_now=True)
    assert report.state == "finished", report.last.error
    judge_topic(broker, orders, range(30))
    judge_tables(tmp_path, range(30))
    judge_letters(broker, orders)
    judge_report(broker, orders, whole, seen, report)

    publish(broker, orders, [order(number, minute=number) for number in range(30, 60)])
    again = whole if has_all_again else without_copies(whole)
    assert run_pipeline(again, available_now=True).state == "finished"
    judge_topic(broker, orders, range(60))
    judge_tables(tmp_path, range(60 if has_all_again else 30))
    assert len(committed(broker, f"{orders}.dlq")) == 2
    # The watermark is at 12:58 and has closed all windows up to 12:50, each once.
    found = {(r["window_start"], r["country"]): r for r in rows_of(broker, f"{orders}-revenue")}
    assert len(found) == len(rows_of(broker, f"{orders}-revenue")) == 5 * 3
    first = found["2026-03-01T12:00:00.000Z", "DE"]
    assert (first["orders"], first["revenue"]) == (4, 4.0)
    assert first["window_end"] == "2026-03-01T12:10:00.000Z"
    assert sum(each["orders"] for each in found.values()) == 50


def judge_topic(broker, orders, numbers):
    """Every good order is in the topic once."""
    clean = committed(broker, f"{orders}-clean")
    assert Counter(json.loads(each.value)["id"] for each in clean) == Counter(numbers)
    assert all(each.key.decode() == json.loads(each.value)["customer"] for each in clean)
    assert set(json.loads(clean[0].value)) == {"id", "customer", "amount", "at"}


def judge_tables(tmp_path, numbers):
    """Every good order is in the table and in the Delta table once."""
    import deltalake  # noqa: PLC0415 - the other tests do without

    once = Counter(numbers)
    located = pyarrow.dataset.dataset(
        [str(path) for path in (tmp_path / "located").rglob("*.parquet")],
        partition_base_dir=str(tmp_path / "located"),
        partitioning="hive",
    ).to_table()
    assert Counter(located["id"].to_pylist()) == once
    assert set(located["country"].to_pylist()) == {"DE", "FR", "IT"}
    delta = deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()
    assert Counter(delta["id"].to_pylist()) == once
    assert set(delta["gross"].to_pylist()) == {1.19}


def judge_letters(broker, orders):
    """The bad ones are among the dead letters, for the broker's own tools to read."""
    letters = fetched(broker, f"/topics/{orders}/dlq")["letters"]
    found = {each["preview"]: each for each in letters}
    assert found.keys() == {order(90, amount=-5.0), "no json"}
    negative, broken = found[order(90, amount=-5.0)], found["no json"]
    assert (negative["reason"], broken["reason"]) == ("REJECTED", "POISON_MESSAGE")
    assert negative["error"].startswith("rule positive: expected amount > 0; rule big_enough")
    assert broken["error"] == "rule parses: the value could not be parsed"
    assert (negative["source_topic"], negative["source_offset"]) == (orders, 15)
    assert negative["source_partition"] == negative["partition"] == 0
    assert negative["key"] == "k0"
    assert negative["group"] == f"spark-shop-{orders}-checked-dead-letters"
    (letter,) = [each for each in committed(broker, f"{orders}.dlq") if each.value == b"no json"]
    headers = dict(letter.headers)
    assert headers["goqueue-dlq-pipeline"] == f"shop-{orders}".encode()
    assert (headers["goqueue-dlq-step"], headers["goqueue-dlq-rule"]) == (b"checked", b"parses")


def judge_report(broker, orders, whole, seen, report):
    """What the run says of itself, to its caller and to the broker."""
    assert [seen[0].state, seen[-1].state] == ["starting", "finished"]
    queries = {each.name: each for each in report.last.queries}
    assert queries.keys() == {"revenue", "clean", "lake", "delta", "checked-dead-letters"}
    clean = queries["clean"]
    assert (clean.rows, clean.lag, clean.sources) == (33, 0, (orders,))
    assert clean.sink == f"topic {orders}-clean"
    assert queries["revenue"].state_rows
    assert queries["revenue"].watermark == 1772368080000  # 12:28
    told = fetched(broker, f"/pipelines/{whole.name}")
    assert told["state"] == "finished"
    assert {each["name"]: each["rows"] for each in told["queries"]} == {
        each.name: each.rows for each in report.last.queries
    }
    letters = {each["name"]: each["dead_letters"] for each in told["queries"]}
    assert letters.pop("checked-dead-letters") == f"{orders}.dlq"
    assert set(letters.values()) == {None}
    offsets = fetched(broker, f"/groups/{clean.group}/offsets")
    assert (sum(offsets["offsets"][orders].values()), offsets["total_lag"]) == (33, 0)


# --- Running and stopping ------------------------------------------------------------------------


def test_a_rule_that_fails_stops_everything_and_says_where(spark, broker, orders, described):
    sink = TopicSink(name="clean", input="checked", topic=f"{orders}-clean", create=1)
    publish(broker, orders, [order(0), order(1), json.dumps({"amount": 7.0})])
    report = run_pipeline(described(RULES, sinks=(sink,)), timeout_s=250)
    assert report.state == "failed"
    assert report.last.error == (
        f"clean (topic {orders}-clean) failed: rule has_id of checked is broken (expected id IS "
        f'NOT NULL) by {orders}-0 at offset 1: {{"id":null,"customer":null,"amount":7.0,"at":null}}'
    )
    states = {each.name: each.state for each in report.last.queries}
    assert states == {"clean": "failed", "checked-dead-letters": "stopped"}
    assert committed(broker, f"{orders}-clean") == []


def test_a_running_pipeline_stops_when_told_to(spark, broker, orders, described, tmp_path):
    """Two streams joined in time, and a function from a file, on a trigger of its own."""
    (tmp_path / "shop.py").write_text(
        "from pyspark.sql import functions as F\n"
        "def loud(name): return name.upper()\n"
        "def shouted(frame):\n"
        "    return frame.withColumn('customer', F.udf(loud, useArrow=False)('customer'))\n"
    )
    payments = broker.create_topic(f"{orders}-payments")
    source = TopicSource(
        name="payments",
        topics=(payments,),
        value_format="json",
        value_schema="id bigint, paid string",
        columns=("key", "offset"),
        watermark=Watermark("paid", "1 minute"),
    )
    steps = (
        PythonStep(name="loud", inputs=("orders",), function="shop.py:shouted"),
        JoinStep(
            name="settled",
            left="loud",
            right="payments",
            on="id",
            within="5 minutes",
            select={"id": "left.id", "who": "left.customer", "by": "CAST(right.key AS STRING)"},
        ),
    )
    sink = TopicSink(
        name="settled",
        input="settled",
        topic=f"{orders}-settled",
        create=1,
        value="concat_ws(' ', id, who, by)",
        trigger=Trigger(interval="100 milliseconds"),
    )
    pipeline = described(
        *steps, more_sources=(source,), sinks=(sink,), file=str(tmp_path / "pipeline.yaml")
    )
    publish(broker, orders, [order(number, minute=number) for number in range(4)])
    for number, late in ((0, 1), (1, 4), (2, 30), (7, 0)):
        paid = START + timedelta(minutes=number + late)
        broker.publish(payments, json.dumps({"id": number, "paid": paid.isoformat()}), key="visa")
    stop = threading.Event()

    def watch(progress):
        if sum(each.rows for each in progress.queries) >= 8:
            stop.set()

    started = time.monotonic()
    report = run_pipeline(pipeline, progress=watch, stop=stop, timeout_s=250)
    assert report.state == "stopped", report.last.error
    assert time.monotonic() - started < 200
    found = sorted(each.value for each in committed(broker, sink.topic))
    assert found == [b"0 C0 visa", b"1 C1 visa"]
