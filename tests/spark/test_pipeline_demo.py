"""The demonstration: what it makes, and that all of it comes out at the other end."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, strategies as st

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.spark.demo_results import dead_letters
from goqueue.records import Record
from goqueue.spark.demo.orders import COUNTRIES, customers_csv, orders
from goqueue.spark.demo.report import DemoFacts, Moment, page
from goqueue.spark.pipelines.files.loading import load_file
from goqueue.testing import Broker
from support.topic_writer import TopicWriter

START = 1_767_225_600_000


def test_the_pipeline_of_the_demonstration_has_no_fault():
    with resources.as_file(resources.files("goqueue.spark.demo") / "orders.yaml") as file:
        loaded = load_file(str(file))
    assert loaded.pipeline is not None
    assert not loaded.problems


@given(st.integers(1, 400))
def test_bad_orders_are_those_that_a_rule_refuses(count):
    made = list(orders(count, START))
    assert len(made) == count
    known = dict(line.split(",") for line in customers_csv().splitlines()[1:])
    assert set(known.values()) == set(COUNTRIES)
    for order in made:
        assert order.key in known
        try:
            found = json.loads(order.value)
        except ValueError:
            assert not order.is_good
        else:
            assert order.is_good == (found["amount"] > 0 and found["customer"] is not None)


def test_all_dead_letters_are_told_however_many_there_are():
    headers = (("goqueue-dlq-topic", b"orders"), ("goqueue-dlq-error", b"rule a: expected b"))
    with Broker() as broker:
        broker.create_topic("orders", partitions=1)
        broker.create_topic("orders.dlq", partitions=1)
        with TopicWriter(broker.kafka_address) as writer:
            records = [Record(at, START, None, b"%d" % at, headers) for at in range(1100)]
            writer.append("orders.dlq", 0, records)
        api = Api(Target(broker.http_url, "test"))
        found = dead_letters(api)
        api.close()
    assert (found["topic"], found["total"]) == ("orders.dlq", 1100)
    (reason,) = found["reasons"]
    assert (reason["why"], reason["letters"]) == ("rule a: expected b", 1100)


# --- The report ----------------------------------------------------------------------------------

FACTS = DemoFacts(
    orders=1000,
    invalid=3,
    took_s=41.0,
    moments=[Moment(0.0, 0, 1000), Moment(3.0, 600, 400), Moment(6.0, 1000, 0)],
    revenue=[
        {
            "window_start": f"2026-01-01T00:0{minute}:00Z",
            "country": "Japan",
            "orders": 7,
            "revenue": 2.5,
        }
        for minute in range(5)
    ],
    letters=3,
    reasons=[
        {"why": "rule <amount>: expected amount > 0", "letters": 3, "for example": "<script>"}
    ],
    archived=997,
    countries=[{"country": "Japan", "orders": 997, "revenue": 12.5}],
    rows=[{"id": 1, "customer": "a & b"}],
    pipeline="name: <orders>",
)


class Page(HTMLParser):
    """What is in a page: its tags, its texts, and what it would load."""

    VOID = frozenset({"meta"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.loads = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in {"src", "href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_report_shows_rates_lag_windows_dead_letters_and_the_table_and_loads_nothing():
    found = Page(page(FACTS))
    texts = " ".join(found.texts)
    for title in (
        *("Rows a second, all queries", "Lag, all queries", "Revenue by the minute"),
        *("Dead letters by rule", "Revenue by country", "<script>", "a & b"),
    ):
        assert title in texts, title
    assert found.tags.count("svg") == 4
    assert found.tags.count("polyline") == 2
    assert found.loads == []
    assert "script" not in found.tags


def test_the_time_in_which_spark_starts_is_no_part_of_the_plots():
    idle = [Moment(float(second), 0, 0) for second in range(300)]
    late = replace(FACTS, moments=[*idle, Moment(303.0, 600, 400), Moment(306.0, 1000, 0)])
    texts = Page(page(late)).texts
    assert {"303 s", "306 s"} <= set(texts)
    assert not {"150 s", "299 s"} & set(texts)


def test_a_run_too_short_to_be_seen_has_a_report_all_the_same():
    some = replace(FACTS, moments=[], revenue=[], reasons=[], countries=[], rows=[])
    assert Page(page(some)).tags.count("svg") == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_order_is_summed_up_and_archived_or_kept_with_its_reason(tmp_path):
    command = [sys.executable, "-m", "goqueue.cli", "pipeline", "demo", str(tmp_path / "demo")]
    done = subprocess.run(
        [*command, "--orders", "3000", "-o", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    made = list(orders(3000, START))
    good = sum(order.is_good for order in made)
    assert found["archive"]["rows"] == good
    assert sum(row["orders"] for row in found["revenue"]) == good
    total = sum(json.loads(order.value)["amount"] for order in made if order.is_good)
    assert sum(row["revenue"] for row in found["revenue"]) == pytest.approx(total, abs=2)
    assert found["dead_letters"]["total"] == 3000 - good
    assert len(found["dead_letters"]["reasons"]) == 3
    report = Page(Path(unquote(urlsplit(found["report"]).path)).read_text())
    assert f"{good:,}" in report.texts
    assert report.tags.count("polyline") == 2
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "--force replaces it" in again.stderr
