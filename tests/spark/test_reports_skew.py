"""Who holds how much: counted on Spark, against a dumb count, and drawn."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import count
from xml.etree import ElementTree as ET

import mmh3
import pytest
from hypothesis import given, strategies as st

from goqueue.records import Record
from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.reports import histograms, svg
from goqueue.spark.jobs.reports.balance import gini, max_to_mean, outlooks, suggested
from goqueue.spark.jobs.reports.skew import skew_report
from goqueue.spark.jobs.reports.skew_plot import bar, text_plot
from goqueue.spark.jobs.showing import line_of
from support.topic_writer import TopicWriter

names = (f"skewed-{number}" for number in count())
HOUR = 3_600_000
BEGAN = 1_700_000_000_000 // HOUR * HOUR

# --- Histograms ----------------------------------------------------------------------------------


def class_of(value):
    """What `histograms.class_column` computes in Spark."""
    if value <= 0:
        return histograms.NOTHING
    return math.floor(math.log(value) / math.log(histograms.BASE))


numbers = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(numbers, st.floats(0, 1))
def test_a_percentile_is_the_value_at_its_place_to_the_error_that_is_told(values, share):
    counts = Counter(map(class_of, values))
    place = max(1, -int(-share * len(values) // 1))
    exact = sorted(values)[place - 1]
    found = histograms.percentile(counts, share)
    assert found == pytest.approx(exact, rel=histograms.ERROR * 1.01)


@given(numbers, st.integers(1, 30))
def test_wide_classes_hold_every_value_once(values, bins):
    counts = Counter(map(class_of, values))
    made = histograms.rebinned(counts, bins)
    assert sum(each[2] for each in made) == len(values)
    assert len(made) <= bins + 1


def test_no_values_have_no_percentile():
    assert histograms.percentile({}, 0.5) is None


# --- Balance -------------------------------------------------------------------------------------

loads = st.lists(st.integers(0, 1000), min_size=1, max_size=30)


@given(loads)
def test_gini_is_what_its_definition_says(values):
    total, size = sum(values), len(values)
    dumb = sum(abs(a - b) for a in values for b in values) / (2 * size * total) if total else 0
    assert gini(values) == pytest.approx(dumb, abs=1e-9)
    assert max_to_mean(values) >= 1 or not total


def test_a_suggestion_spreads_what_can_be_spread_and_no_more():
    even = outlooks([], 1_000_000, 4, mmh3.hash)
    assert suggested(even, 4) == 16
    hot = outlooks([(b"whale", 900_000)], 100_000, 4, lambda key: mmh3.hash(key, signed=False))
    assert suggested(hot, 4) == 4


# --- Pictures ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(max_size=30), st.floats(0, 1e12)), max_size=20), st.text())
def test_a_picture_is_well_formed_whatever_things_are_called(rows, title):
    labels = [label for label, _ in rows]
    values = [value for _, value in rows]
    panels: list[svg.Columns | svg.Rows | svg.Lines] = [
        svg.Columns(title, labels, values, mean=3.0),
        svg.Rows(title, labels, values, labels),
        svg.Lines(title, labels, values),
    ]
    root = ET.fromstring(svg.chart(title, title, panels))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{*}circle")) == len(rows)


@given(st.floats(0, 1), st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_text_plots_are_as_wide_as_they_may_be(share, values):
    assert len(bar(share)) == 40
    assert len(line_of(values)) == min(len(values), 72)


# --- On Spark ------------------------------------------------------------------------------------


def test_a_report_counts_what_a_dumb_count_does(spark, broker, tmp_path):
    topic = broker.create_topic(next(names), partitions=4, settings={"retention.ms": -1})
    dice = random.Random(7)
    rows = []
    for at in range(3000):
        key = b"whale" if at % 3 == 0 else b"k%d" % dice.randrange(200)
        rows.append((mmh3.hash(key, signed=False) % 4, key, b"x" * dice.randrange(1, 900), at))
    rows.append((0, None, None, 0))
    with TopicWriter(broker.kafka_address) as writer:
        for partition in range(4):
            mine = [each for each in rows if each[0] == partition]
            records = [
                Record(n, BEGAN + each[3] * 5000, each[1], each[2], ())
                for n, each in enumerate(mine)
            ]
            writer.append(topic, partition, records)
    picture = tmp_path / "skew.svg"
    report = skew_report(spark, broker.kafka_address, topic, top=5, plot=picture)
    found = report.as_dict()
    by_partition = Counter(each[0] for each in rows)
    assert {e["partition"]: e["messages"] for e in found["partitions"]} == dict(by_partition)
    by_key = Counter(each[1].decode() for each in rows if each[1])
    top = sorted(by_key.items(), key=lambda each: (-each[1], each[0]))[:5]
    assert [(each["key"], each["messages"]) for each in found["keys"]] == top
    assert (found["distinct_keys"], found["messages"]) == (len(by_key), 3001)
    assert not report.summary.keys() & {each.title for each in report.tables}
    sizes = sorted(len(each[1] or b"") + len(each[2] or b"") for each in rows)
    assert found["bytes"] == sum(sizes)
    at_most = {each["of_messages"]: each["at_most_bytes"] for each in found["sizes"]}
    assert at_most["0.5"] == pytest.approx(sizes[1500], rel=0.011, abs=1)
    assert at_most["all"] == sizes[-1]
    times = Counter((BEGAN + each[3] * 5000) // HOUR * HOUR for each in rows)
    assert [each["messages"] for each in found["times"]] == [times[at] for at in sorted(times)]
    assert found["max_to_mean"] == round(max_to_mean(list(by_partition.values())), 3)
    assert found["suggested_partitions"] == 4
    assert "whale" in report.warnings[0]
    assert report.files == (str(picture),)
    assert "whale" in "".join(ET.parse(picture).getroot().itertext())
    assert "whale  ████" in text_plot(report)
    # A sample says that it is one, and how sure it is.
    part = skew_report(spark, broker.kafka_address, topic, top=1, sample=0.2).as_dict()
    assert part["sampled"]
    assert part["messages"] == pytest.approx(600, abs=4)
    (whale,) = part["keys"]
    assert whale["share"] == pytest.approx(1 / 3, abs=2 * whale["share_error"])
    assert "a sample: " in part["warnings"][0]


def test_arguments_that_make_no_sense_are_told_together():
    with pytest.raises(OptionsError) as told:
        skew_report(
            None, "localhost", "t", top=0, every="year", partitioner="dice", plot="/no/such/x.svg"
        )
    assert len(told.value.problems) == 4
