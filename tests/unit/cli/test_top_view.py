"""Two readings of the metrics make one picture; none of it needs a server or a clock."""

from __future__ import annotations

import pytest

from goqueue.cli.top_view import frame, merged, parse_sample
from goqueue.protocols.http.operations.cluster_shapes import ClusterNode
from goqueue.protocols.http.operations.operation_shapes import Readiness, Summary

READY = Readiness("ready", {"storage": "ok"}, Summary(1, "c", 5.0, 1, 2, 1024, []))


def metrics(published: int, consumed: int = 0, lag: int = 0) -> str:
    return f"""\
# HELP goqueue_broker_messages_published_total Messages.
goqueue_broker_messages_published_total{{node_id="n",topic="orders"}} {published}.0
goqueue_broker_messages_fetched_total{{node_id="n",topic="orders"}} {consumed}.0
goqueue_broker_topic_partitions{{node_id="n",topic="orders"}} 2.0
goqueue_broker_topic_partitions{{node_id="n",topic="__consumer_offsets"}} 4.0
goqueue_broker_topic_messages{{node_id="n",topic="orders"}} 90.0
goqueue_storage_log_size_bytes{{node_id="n",topic="orders"}} 1024.0
goqueue_consumer_group_members{{consumer_group="a \\"b\\"",node_id="n"}} 1.0
goqueue_consumer_group_state{{consumer_group="a \\"b\\"",node_id="n",state="Stable"}} 1.0
goqueue_consumer_lag{{consumer_group="a \\"b\\"",node_id="n",topic="orders"}} {lag}.0
"""


def test_rates_are_what_happened_between_two_readings() -> None:
    before = parse_sample(metrics(100, consumed=50), 10.0)
    now = parse_sample(metrics(300, consumed=60, lag=7), 12.0)
    picture = frame(before, now, READY, "http://x")
    (topic,) = picture["topics"]
    assert topic == {
        "topic": "orders",
        "partitions": 2,
        "messages": 90,
        "size_bytes": 1024,
        "in_per_s": 100.0,
        "in_bytes_per_s": 0.0,
        "out_per_s": 5.0,
        "out_bytes_per_s": 0.0,
    }
    assert picture["groups"] == [
        {
            "group": 'a "b"',
            "state": "Stable",
            "members": 1,
            "lag": 7,
            "oldest_s": None,
            "drain_s": None,
            "catches_up": None,
        }
    ]
    assert (picture["in_per_s"], picture["out_per_s"], picture["lag"]) == (100.0, 5.0, 7)
    assert picture["trouble"] == {}


def test_a_counter_that_began_anew_has_no_negative_rate() -> None:
    before, now = parse_sample(metrics(1000), 0.0), parse_sample(metrics(30), 1.0)
    assert frame(before, now, READY, "x")["in_per_s"] == 30.0


def test_trouble_is_told() -> None:
    sample = parse_sample(metrics(0), 0.0)
    readiness = Readiness("not ready", {"node": "ok", "storage": "full"})
    picture = frame(sample, sample, readiness, "x")
    assert (picture["status"], picture["trouble"]) == ("not ready", {"storage": "full"})


@pytest.mark.parametrize(
    ("drains", "drain_s", "catches_up"),
    [(("3.0", "8.5"), 8.5, True), (("3.0", "+Inf"), None, False)],
)
def test_of_the_topics_of_a_group_the_worst_counts(
    drains: tuple[str, str], drain_s: float | None, catches_up: bool
) -> None:
    lines = [metrics(0)]
    for topic, age, drain in zip("ab", (40, 20), drains, strict=True):
        labels = f'{{node_id="n",topic="{topic}",consumer_group="a \\"b\\""}}'
        lines += [f"goqueue_consumer_oldest_unacked_age_seconds{labels} {age}.0\n"]
        lines += [f"goqueue_consumer_time_to_drain_seconds{labels} {drain}\n"]
    sample = parse_sample("".join(lines), 0.0)
    (group,) = frame(sample, sample, READY, "x")["groups"]
    assert (group["oldest_s"], group["drain_s"], group["catches_up"]) == (40.0, drain_s, catches_up)


# --- The nodes of a cluster -----------------------------------------------------------------------

NODES = [
    ClusterNode(1, "node-1", "active", True, 4, 9, 9, {}, None, None, "1"),
    ClusterNode(2, "node-2", "active", False, 5, 9, 8, {}, None, None, "1"),
    ClusterNode(3, "node-3", "away", False, 0, 9, 0, {}, None, None, ""),
]
LAGS = 'goqueue_cluster_replication_lag{node_id="n",target_node_id="2",topic="orders"} 3.0\n'


def elsewhere(published: int) -> str:
    """What a node says that coordinates another group."""
    text = metrics(published).replace('a \\"b\\"', "other")
    return text.replace('topic="orders"} 90', 'topic="orders"} 88')


def test_the_nodes_of_a_cluster_are_counted_together_and_each_topic_once() -> None:
    before = merged({1: parse_sample(metrics(100), 10.0), 2: parse_sample(elsewhere(1000), 10.0)})
    now = merged(
        {
            1: parse_sample(metrics(300, lag=7) + LAGS, 12.0),
            2: parse_sample(elsewhere(1100), 12.0),
        }
    )
    picture = frame(before, now, READY, "x", NODES)
    (topic,) = picture["topics"]
    assert (topic["messages"], topic["partitions"], topic["in_per_s"]) == (90, 2, 150.0)
    assert {each["group"]: each["lag"] for each in picture["groups"]} == {'a "b"': 7, "other": 0}
    assert [(each["node"], each["state"], each["lag"]) for each in picture["nodes"]] == [
        (1, "active", 0),
        (2, "active", 3),
        (3, "away", 0),
    ]
    assert picture["trouble"] == {"node 3": "it is away"}


def test_a_node_that_does_not_answer_is_named_and_makes_no_rates() -> None:
    before = merged({1: parse_sample(metrics(100), 10.0)})
    now = merged({1: parse_sample(metrics(100), 11.0), 2: parse_sample(elsewhere(5000), 11.0)})
    assert frame(before, now, READY, "x", NODES)["in_per_s"] == 0.0
    gone = frame(now, before, READY, "x", NODES)
    assert gone["in_per_s"] == 0.0
    assert "did not answer" in gone["trouble"]["node 2"]
