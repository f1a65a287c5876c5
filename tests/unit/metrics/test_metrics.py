"""What is recorded comes out of `/metrics`, under the names that the one file lists."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from goqueue.metrics import names
from goqueue.metrics.exposition import exposition
from goqueue.metrics.kinds import (
    LATENCY_BUCKETS_S,
    CounterName,
    Definition,
    GaugeName,
    HistogramName,
)
from goqueue.metrics.reference import reference
from goqueue.metrics.registry import OVERFLOW, Histogram, Metrics
from goqueue.model.errors import DiskError
from goqueue.model.limits import MAX_METRIC_SERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from goqueue.metrics.registry import Reading, Samples

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scrape(metrics: Metrics, accept: str = "") -> dict[str, Metric]:
    """The families that a Prometheus server would understand."""
    _, body = exposition(metrics.read(), accept)
    parse = parse_openmetrics if accept else parse_text
    return {family.name: family for family in parse(body.decode())}


def series(metrics: Metrics, name: Definition, accept: str = "") -> dict[tuple[str, ...], float]:
    """The plain samples of one metric, by their labels but for `node_id`."""
    families = scrape(metrics, accept)
    family = families.get(f"goqueue_{name.name}")
    family = family or families[f"goqueue_{name.name}".removesuffix("_total")]
    return {
        tuple(value for label, value in sample.labels.items() if label != "node_id"): sample.value
        for sample in family.samples
    }


# --- the names


SUBSYSTEMS = {
    "broker",
    "storage",
    "consumer",
    "process",
    "cluster",
    "audit",
    "webhook",
    "tls",
    "metrics",
}


def test_every_name_is_there_once_and_follows_the_pattern() -> None:
    listed = [name.name for name in names.ALL]
    assert len(set(listed)) == len(listed) > 50
    for name in names.ALL:
        assert re.fullmatch(rf"({'|'.join(SUBSYSTEMS)})_[a-z_]+", name.name)
        assert name.help.endswith(".")
        assert "node_id" not in name.labels
        if isinstance(name, CounterName):
            assert name.name.endswith("_total")
        if isinstance(name, HistogramName) and name.buckets == LATENCY_BUCKETS_S:
            assert name.name.endswith(("_latency_seconds", "_lag_seconds", "_pause_seconds"))
        if isinstance(name, GaugeName):
            assert name.per_partition == ("partition" in name.labels)


def test_the_buckets_of_latencies_are_the_documented_ones() -> None:
    documented = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5]
    assert list(LATENCY_BUCKETS_S) == documented


@pytest.mark.parametrize("accept", ["", OPENMETRICS], ids=["text", "openmetrics"])
def test_every_metric_can_be_scraped_with_its_labels_and_the_nodes_id(accept: str) -> None:
    metrics = Metrics("node-7", partition_label=True)
    for name in names.ALL:
        labels = [f"some {label}" for label in name.labels]
        if isinstance(name, CounterName):
            metrics.counter(name, *labels).add(2)
        elif isinstance(name, HistogramName):
            metrics.histogram(name, *labels).observe(0.003)

    def gauges(samples: Samples) -> None:
        for name in names.ALL:
            if isinstance(name, GaugeName):
                samples.put(name, 2, *(f"some {label}" for label in name.labels))

    metrics.add_source(gauges)
    families = scrape(metrics, accept)
    for name in names.ALL:
        full = f"goqueue_{name.name}"
        family = families.get(full) or families[full.removesuffix("_total")]
        assert family.documentation == name.help
        for sample in family.samples:
            expected = {label: f"some {label}" for label in name.labels} | {"node_id": "node-7"}
            assert {k: v for k, v in sample.labels.items() if k != "le"} == expected


def test_the_process_and_the_runtime_are_there_too() -> None:
    families = scrape(Metrics("node-1"))
    assert families["process_resident_memory_bytes"].samples[0].value > 1_000_000
    assert "python_info" in families
    assert "python_gc_collections" in families


@pytest.mark.parametrize(
    ("accept", "content_type", "ending"),
    [
        ("", "text/plain", b"\n"),
        ("text/html, */*", "text/plain", b"\n"),
        (OPENMETRICS, "application/openmetrics-text", b"# EOF\n"),
    ],
)
def test_the_accept_header_chooses_the_format(
    accept: str, content_type: str, ending: bytes
) -> None:
    found, body = exposition(Metrics("node-1").read(), accept)
    assert found.startswith(content_type)
    assert body.endswith(ending)
    assert (b"# EOF" in body) == (ending == b"# EOF\n")


# --- recording


def test_published_messages_are_counted_by_topic() -> None:
    metrics = Metrics("node-1")
    metrics.counter(names.MESSAGES_PUBLISHED, "orders").add(3)
    metrics.counter(names.MESSAGES_PUBLISHED, "orders").add()
    metrics.counter(names.MESSAGES_PUBLISHED, "payments").add(5)
    assert series(metrics, names.MESSAGES_PUBLISHED) == {("orders",): 4, ("payments",): 5}


def test_a_counter_without_labels_is_zero_before_anything_happened() -> None:
    assert series(Metrics("node-1"), names.FSYNC_ERRORS) == {(): 0}


@given(st.lists(st.floats(0, 10) | st.sampled_from(LATENCY_BUCKETS_S), max_size=50))
def test_a_bucket_counts_every_measurement_up_to_its_bound(measured: list[float]) -> None:
    metrics = Metrics("node-1")
    handle = metrics.histogram(names.FSYNC_LATENCY)
    for value in measured:
        handle.observe(value)
    samples = scrape(metrics)["goqueue_storage_fsync_latency_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    for bound in LATENCY_BUCKETS_S:
        assert buckets[str(bound)] == sum(value <= bound for value in measured)
    assert buckets["+Inf"] == len(measured)
    (total,) = [s.value for s in samples if s.name.endswith("_sum")]
    assert total == pytest.approx(sum(measured))


def test_a_handle_is_the_same_for_the_same_labels() -> None:
    metrics = Metrics("node-1")
    first = metrics.histogram(names.PUBLISH_LATENCY, "orders")
    assert metrics.histogram(names.PUBLISH_LATENCY, "orders") is first
    assert isinstance(first, Histogram)


@pytest.mark.parametrize("labels", [(), ("orders", "0")])
def test_the_wrong_number_of_labels_is_a_mistake_found_at_once(labels: tuple[str, ...]) -> None:
    metrics = Metrics("node-1")
    with pytest.raises(ValueError, match="has the labels"):
        metrics.counter(names.MESSAGES_PUBLISHED, *labels)
    metrics.add_source(lambda samples: samples.put(names.TOPIC_PARTITIONS, 1, *labels))
    with pytest.raises(ValueError, match="has the labels"):
        metrics.read()


def test_a_reading_does_not_change_while_recording_goes_on() -> None:
    metrics = Metrics("node-1")
    counter = metrics.counter(names.FSYNCS)
    histogram = metrics.histogram(names.FSYNC_LATENCY)
    reading = metrics.read()
    counter.add()
    histogram.observe(1)
    assert reading.values[names.FSYNCS][()] == 0
    assert sum(reading.distributions[names.FSYNC_LATENCY][()].counts) == 0


# --- bounds


def test_label_sets_beyond_the_bound_share_one_series() -> None:
    metrics = Metrics("node-1", max_series=3)
    for number in range(10):
        metrics.counter(names.MESSAGES_FAILED, f"topic-{number}", "error").add()
        metrics.histogram(names.PUBLISH_LATENCY, f"topic-{number}").observe(0.1)
    assert metrics.read().values[names.MESSAGES_FAILED] == {
        ("topic-0", "error"): 1,
        ("topic-1", "error"): 1,
        ("topic-2", "error"): 1,
        (OVERFLOW, OVERFLOW): 7,
    }
    overflow = metrics.read().distributions[names.PUBLISH_LATENCY][(OVERFLOW,)]
    assert sum(overflow.counts) == 7


def test_sampled_values_beyond_the_bound_are_added_up() -> None:
    metrics = Metrics("node-1", max_series=2)

    def sizes(samples: Samples) -> None:
        for number in range(5):
            samples.put(names.TOPIC_PARTITIONS, 10, f"topic-{number}")

    metrics.add_source(sizes)
    found = series(metrics, names.TOPIC_PARTITIONS)
    assert found == {("topic-0",): 10, ("topic-1",): 10, (OVERFLOW,): 30}


def test_the_default_bound_is_the_named_one() -> None:
    metrics = Metrics("node-1")
    for number in range(MAX_METRIC_SERIES + 5):
        metrics.counter(names.BYTES_READ, str(number))
    assert len(metrics.read().values[names.BYTES_READ]) == MAX_METRIC_SERIES + 1


def test_a_deleted_topic_leaves_no_series_and_makes_room() -> None:
    metrics = Metrics("node-1", max_series=2)
    for topic in ["orders", "payments"]:
        metrics.counter(names.MESSAGES_CONSUMED, topic, "billing").add()
        metrics.histogram(names.PUBLISH_LATENCY, topic).observe(1)
    metrics.forget("topic", "orders")
    metrics.counter(names.MESSAGES_CONSUMED, "returns", "billing").add()
    reading = metrics.read()
    assert set(reading.values[names.MESSAGES_CONSUMED]) == {
        ("payments", "billing"),
        ("returns", "billing"),
    }
    assert set(reading.distributions[names.PUBLISH_LATENCY]) == {("payments",)}


# --- sources


@pytest.mark.parametrize("partition_label", [False, True])
def test_partitions_are_told_apart_only_when_asked_for(partition_label: bool) -> None:
    metrics = Metrics("node-1", partition_label=partition_label)

    def ends(samples: Samples) -> None:
        samples.put(names.LOG_END_OFFSET, 100, "orders", "0")
        samples.put(names.LOG_END_OFFSET, 50, "orders", "1")
        samples.put(names.COMPACTION_DIRTY_RATIO, 0.5, "orders", "0")
        samples.put(names.COMPACTION_DIRTY_RATIO, 0.2, "orders", "1")

    metrics.add_source(ends)
    values = metrics.read().values
    if partition_label:
        assert values[names.LOG_END_OFFSET] == {("orders", "0"): 100, ("orders", "1"): 50}
    else:
        assert values[names.LOG_END_OFFSET] == {("orders",): 150}
        assert values[names.COMPACTION_DIRTY_RATIO] == {("orders",): 0.5}


def test_group_members_follow_what_the_source_says_now() -> None:
    members = {"billing": 2}
    metrics = Metrics("node-1")

    def groups(samples: Samples) -> None:
        for group, count in members.items():
            samples.put(names.GROUP_MEMBERS, count, group)

    metrics.add_source(groups)
    assert series(metrics, names.GROUP_MEMBERS) == {("billing",): 2}
    members["billing"] = 1
    members["audit"] = 4
    assert series(metrics, names.GROUP_MEMBERS) == {("billing",): 1, ("audit",): 4}
    members.clear()
    assert series(metrics, names.GROUP_MEMBERS) == {}


def test_counts_that_a_source_keeps_are_shown_with_those_recorded_here() -> None:
    metrics = Metrics("node-1")
    metrics.counter(names.GROUP_JOINS, "billing").add(1)
    metrics.add_source(lambda samples: samples.put(names.GROUP_JOINS, 4, "billing"))
    assert series(metrics, names.GROUP_JOINS) == {("billing",): 5}
    assert series(metrics, names.GROUP_JOINS) == {("billing",): 5}


def test_a_source_that_fails_costs_its_own_series_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics("node-1")

    def broken(samples: Samples) -> None:
        raise DiskError("measuring /data failed")

    metrics.add_source(broken)
    metrics.add_source(lambda samples: samples.put(names.TOPIC_COUNT, 3))
    assert series(metrics, names.TOPIC_COUNT) == {(): 3}
    assert "measuring /data failed" in caplog.text


def test_label_values_with_quotes_and_newlines_survive_the_text() -> None:
    metrics = Metrics("node-1")
    metrics.counter(names.GROUP_JOINS, 'a "group"\nof\\two lines').add()
    assert series(metrics, names.GROUP_JOINS) == {('a "group"\nof\\two lines',): 1}


def test_a_reading_in_turns_lets_others_run_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.metrics.registry.SLICE_S", 0.0)
    metrics = Metrics("node-1")
    turns = 0

    def source(samples: Samples) -> Iterator[None]:
        for number in range(5):
            samples.put(names.TOPIC_PARTITIONS, number, str(number))
            yield

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> Reading:
        task = asyncio.create_task(other())
        reading = await metrics.read_in_turns()
        task.cancel()
        return reading

    metrics.add_source(source)
    reading = asyncio.run(scenario())
    assert turns >= 5
    assert reading.values == metrics.read().values


def test_what_found_no_room_is_counted() -> None:
    metrics = Metrics("node-1", max_series=2)
    for number in range(5):
        metrics.counter(names.BYTES_READ, f"topic-{number}").add()

    def sizes(samples: Samples) -> None:
        for number in range(4):
            samples.put(names.TOPIC_PARTITIONS, 1, f"topic-{number}")

    metrics.add_source(sizes)
    found = series(metrics, names.METRICS_OVERFLOWS)
    assert found == {
        (names.BYTES_READ.name,): 3,
        (names.TOPIC_PARTITIONS.name,): 2,
    }


def test_values_without_an_end_and_whole_numbers_are_shown_as_they_are() -> None:
    metrics = Metrics("node-1")

    def drains(samples: Samples) -> None:
        samples.put(names.TIME_TO_DRAIN, float("inf"), "t", "never")
        samples.put(names.TIME_TO_DRAIN, 1.5, "t", "soon")

    metrics.add_source(drains)
    for accept in ("", OPENMETRICS):
        assert series(metrics, names.TIME_TO_DRAIN, accept) == {
            ("t", "never"): float("inf"),
            ("t", "soon"): 1.5,
        }


# --- the reference page


def test_the_page_of_all_metrics_is_current() -> None:
    hint = "run: .venv/bin/python -m goqueue.metrics.reference > docs/reference/metrics.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), hint
