"""The demonstration: what it makes, and that all of it comes out at the other end."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import pytest
from hypothesis import given, strategies as st

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.spark.demo import _dead_letters
from goqueue.records import Record
from goqueue.spark.demo.orders import COUNTRIES, customers_csv, orders
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
        found = _dead_letters(api)
        api.close()
    assert (found["topic"], found["total"]) == ("orders.dlq", 1100)
    (reason,) = found["reasons"]
    assert (reason["why"], reason["letters"]) == ("rule a: expected b", 1100)


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
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "--force makes it anew" in again.stderr
