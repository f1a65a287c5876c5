"""How long messages take, from the files that a real broker's tracing writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from goqueue.spark.errors import OptionsError, SparkSourceError
from goqueue.spark.jobs.reports.stages import OUTCOMES, STAGES, TOTAL, Happened, found_in
from goqueue.spark.jobs.reports.traces import trace_report
from goqueue.tracing.context import derived_id
from goqueue.tracing.events import Event

MS = 1_000_000
BEGAN = 1_800_000_000_000 * MS
PLACE = "0123456789abcdef"


def stages(*events, topic="t"):
    """What is found in events of (milliseconds, event, group)."""
    happened = [Happened(BEGAN + at * MS, event, topic, *more) for at, event, *more in events]
    return [(each.what, each.group, each.took_ns // MS) for each in found_in(happened)]


def test_the_life_of_a_message_is_cut_into_stages():
    assert stages(
        (0, "publish.received"),
        (2, "publish.persisted"),
        (10, "consume.fetched", "g"),
        (40, "consume.nacked", "g"),
        (100, "consume.fetched", "g"),
        (105, "consume.acked", "g"),
        (50, "consume.fetched", "h"),
        (90, "visibility.timeout", "h"),
    ) == [
        ("publish", "", 2),
        ("wait", "g", 8),
        ("failed attempt", "g", 30),
        ("wait", "h", 48),
        ("failed attempt", "h", 40),
        ("redelivery", "g", 60),
        ("work", "g", 5),
        ("end to end", "g", 105),
        (TOTAL, "", 105),
        ("seen", "", 0),
        ("acked", "", 0),
        ("retried", "", 0),
    ]


def test_a_delay_is_no_waiting_and_lateness_counts_from_when_it_was_due():
    due_ms = BEGAN // MS + 500
    found = stages(
        (0, "publish.received"),
        (1, "delay.scheduled", "", 0, due_ms),
        (2, "publish.persisted"),
        (507, "delay.ready"),
        (510, "consume.fetched", "g"),
    )
    assert found[:4] == [
        ("publish", "", 2),
        ("delay", "", 506),
        ("lateness", "", 7),
        ("wait", "g", 3),
    ]


def test_a_redriven_message_has_a_second_life_in_the_same_trace():
    found = stages(
        (0, "publish.received"),
        (1, "consume.fetched", "g"),
        (4, "consume.rejected", "g"),
        (6, "dlq.routed", "g"),
        (1000, "publish.received"),
        (1003, "publish.persisted"),
        (1010, "consume.fetched", "g"),
        (1011, "consume.acked", "g"),
    )
    assert ("to dead letters", "g", 6) in found
    assert ("wait", "g", 7) in found
    assert ("end to end", "g", 11) in found
    assert [each[0] for each in found[-3:]] == ["seen", "acked", "dead"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000),
            st.sampled_from([str(each) for each in Event]),
            st.sampled_from("gh"),
        ),
        max_size=30,
    )
)
def test_whatever_happened_no_stage_is_negative_or_unknown(events):
    for what, _, took_ms in stages(*events):
        assert what in {*STAGES, *OUTCOMES, TOTAL}
        assert took_ms >= 0


# --- On Spark -------------------------------------------------------------------------------------


def entry(event, at_ms, offset=-1, **fields):
    said = {"event": event, "at_ns": BEGAN + at_ms * MS, "topic": "orders", "partition": 0}
    placed = {} if "trace" in fields else {"place": PLACE}
    return json.dumps({**said, "offset": offset, **placed, **fields})


@pytest.fixture
def folder(tmp_path):
    """Ten neighbours, published together, the last of which dies; two files, one of them torn."""
    first = [
        entry("publish.received", 0, 0, count=10),
        entry("publish.persisted", 2, 0, count=10, duration_ns=2 * MS),
        *(entry("consume.fetched", 10 + n, n, group="g") for n in range(10)),
        "this is no line of ours",
        '{"event": "consume.acked", "at_ns": 1}',  # without a place
    ]
    second = [
        *(entry("consume.acked", 10 + n + 5 * (n + 1), n, group="g") for n in range(9)),
        entry("consume.rejected", 1000, 9, group="g"),
        # A dead letter names the trace that its message had without a name.
        entry("dlq.routed", 2000, 9, group="g", trace=derived_id(PLACE, 9)),
        # Before it had a place.
        entry("of another version", -1, trace=derived_id(PLACE, 9), partition=-1),
        '{"event": "consume.ack',
    ]
    (tmp_path / "traces-2027-01-15-000001.json").write_text("\n".join(first))
    (tmp_path / "traces-2027-01-15-000002.json").write_text("\n".join(second))
    return tmp_path


def test_a_report_tells_stages_outcomes_the_slowest_and_what_is_damaged(spark, folder):
    report = trace_report(spark, str(folder), slowest=2)
    found = report.as_dict()
    by_stage = {each["stage"]: each for each in found["stages"]}
    assert {name: each["messages"] for name, each in by_stage.items()} == {
        "publish": 10,
        "wait": 10,
        "work": 9,
        "failed attempt": 1,
        "to dead letters": 1,
        "end to end": 9,
    }
    work = by_stage["work"]
    assert (work["topic"], work["group"], work["max_ms"]) == ("orders", "g", 45)
    assert work["p50_ms"] == pytest.approx(25, rel=0.011)
    assert work["p90_ms"] == pytest.approx(45, rel=0.011)
    assert by_stage["publish"]["p99_ms"] == pytest.approx(2, rel=0.011)
    (outcome,) = found["outcomes"]
    assert (outcome["messages"], outcome["acked"], outcome["dead"]) == (10, 0.9, 0.1)
    assert [(each["trace"], each["message"], each["took_ms"]) for each in found["slowest"]] == [
        (derived_id(PLACE, 9), "orders/0/9", 2001),
        (derived_id(PLACE, 8), "orders/0/8", 63),
    ]
    assert [each["lines"] for each in found["damaged"]] == [2, 1]
    assert "3 lines" in report.warnings[0]


def test_what_is_not_there_and_what_makes_no_sense_is_said(spark, tmp_path):
    with pytest.raises(SparkSourceError, match="no traces at"):
        trace_report(spark, str(tmp_path / "nowhere.json"))
    with pytest.raises(OptionsError):
        trace_report(spark, str(tmp_path), sample=0)
