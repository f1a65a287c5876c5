"""What the micro-batches of a stream read, planned against a real broker and without Spark."""

from __future__ import annotations

from itertools import count

import confluent_kafka
import pytest

from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark.errors import DataLossError, OffsetsError, TopicMissingError
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.options.bounds import Bound
from goqueue.spark.options.read_options import parse_read_options
from goqueue.spark.reading.resolving import batch_ranges, find_ends, locate
from goqueue.spark.reading.stream_offset import StreamOffset
from goqueue.spark.reading.stream_planner import StreamPlanner
from support.topic_writer import TopicWriter

topics = (f"planned-{number}" for number in count())

KEPT = {"retention.ms": -1}  # the numbers' times are long ago


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(topics), partitions=2, settings=KEPT)


@pytest.fixture
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


def options_for(broker, topic, mode="stream", **options):
    given = {
        "bootstrap.servers": broker.kafka_address,
        "subscribe": topic,
        "idlePoll": "20ms",
        "kafka.default.api.timeout.ms": "60000",
        **options,
    }
    if "subscribePattern" in given or "assign" in given:
        del given["subscribe"]
    return parse_read_options(given, mode)


def planner_for(broker, topic, now=None, **options):
    options = {"startingOffsets": "earliest", **options}
    parsed = options_for(broker, topic, **options)
    return StreamPlanner(parsed, now=now) if now else StreamPlanner(parsed)


def latest(planner, start, max_offsets=None, max_bytes=None):
    return planner.latest(start, max_offsets=max_offsets, max_bytes=max_bytes)


def numbers(offset):
    return [offset.offsets[place] for place in sorted(offset.offsets)]


def sizes(tasks):
    return [[(each.partition, each.start, each.end) for each in task] for task in tasks]


# --- Streams -----------------------------------------------------------------------------------


def test_a_stream_starts_where_the_options_say(broker, writer, topic):
    writer.numbers(topic, 0, 0, 10, at_ms=1000)
    assert numbers(planner_for(broker, topic).initial()) == [0, 0]
    assert numbers(planner_for(broker, topic, startingOffsets="latest").initial()) == [10, 0]
    given = f'{{"{topic}": {{"0": 3, "1": -1}}}}'
    assert numbers(planner_for(broker, topic, startingOffsets=given).initial()) == [3, 0]
    moment = {"startingTimestamp": "4000", "startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(planner_for(broker, topic, **moment).initial()) == [4, 0]
    with pytest.raises(OffsetsError, match=f"no message of {topic}-1 is at or after"):
        planner_for(broker, topic, startingTimestamp="4000").initial()
    given = f'{{"{topic}": {{"0": 3}}}}'
    with pytest.raises(OffsetsError, match=f"missing: {topic}-1"):
        planner_for(broker, topic, startingOffsets=given).initial()
    given = f'{{"{topic}": {{"0": 30, "1": 0}}}}'
    with pytest.raises(DataLossError, match=rf"{topic}-0 cannot start at 30: it holds \[0, 10\)"):
        planner_for(broker, topic, startingOffsets=given).initial()
    careless = planner_for(broker, topic, startingOffsets=given, failOnDataLoss="false")
    assert numbers(careless.initial()) == [10, 0]


def test_an_unknown_topic_is_named(broker):
    with pytest.raises(TopicMissingError, match="'nowhere'"):
        planner_for(broker, "nowhere").initial()


def test_a_batch_ends_where_the_log_does_and_then_there_is_none(broker, writer, topic):
    writer.numbers(topic, 0, 0, 10)
    planner = planner_for(broker, topic)
    start = planner.initial()
    end = latest(planner, start)
    assert numbers(end) == [10, 0]
    assert latest(planner, end) == end
    assert planner.seen == StreamOffset(end.ids, end.offsets)


def test_limits_are_kept_and_all_is_read_in_the_end(broker, writer, topic):
    writer.numbers(topic, 0, 0, 100)
    writer.numbers(topic, 1, 0, 20)
    planner = planner_for(broker, topic)
    at, steps = planner.initial(), []
    while (end := latest(planner, at, max_offsets=50)) != at:
        steps.append(sum(numbers(end)) - sum(numbers(at)))
        at = end
    assert steps == [50, 50, 20]


def test_bytes_are_limited_by_what_records_take(broker, writer, topic):
    writer.append(topic, 0, [Record(n, 1, None, bytes(990)) for n in range(100)])
    planner = planner_for(broker, topic)
    end = latest(planner, planner.initial(), max_bytes=10_000)
    assert 8 <= end.offsets[topic, 0] <= 10


def test_too_little_is_left_to_grow_for_a_while(broker, writer, topic):
    moments = [0.0]
    planner = planner_for(
        broker, topic, now=lambda: moments[0], minOffsetsPerTrigger="10", maxTriggerDelay="60s"
    )
    writer.numbers(topic, 0, 0, 4)
    start = planner.initial()
    assert latest(planner, start) == start
    moments[0] = 61.0
    assert numbers(end := latest(planner, start)) == [4, 0]
    writer.numbers(topic, 1, 0, 10)
    assert numbers(latest(planner, end)) == [4, 10]


def test_available_now_ends_at_what_was_there_when_it_began(broker, writer, topic):
    writer.numbers(topic, 0, 0, 5)
    planner = planner_for(broker, topic, minOffsetsPerTrigger="1000")
    planner.freeze()
    writer.numbers(topic, 0, 5, 5)
    writer.create_partitions(topic, 3)
    writer.numbers(topic, 2, 0, 5)
    end = latest(planner, planner.initial())
    assert end.offsets[topic, 0] == 5
    assert latest(planner, end) == end


def test_new_partitions_are_read_from_their_beginning(broker, writer, topic):
    planner = planner_for(broker, topic)
    start = latest(planner, planner.initial())
    writer.create_partitions(topic, 3)
    writer.numbers(topic, 2, 0, 7)
    end = latest(planner, start)
    assert numbers(end) == [0, 0, 7]
    assert sizes(planner.tasks(start, end)) == [[(2, 0, 7)]]


def test_a_replayed_batch_misses_what_retention_has_taken_from_a_new_partition(
    broker, writer, topic
):
    planner = planner_for(broker, topic)
    start = latest(planner, planner.initial())
    writer.create_partitions(topic, 3)
    writer.numbers(topic, 2, 0, 5)
    end = latest(planner, start)
    writer.delete_records(topic, 2, 3)
    assert sizes(planner_for(broker, topic).tasks(start, end)) == [[(2, 0, 5)]]


def test_topics_that_come_to_match_a_pattern_are_read_from_their_beginning(broker, writer, topic):
    planner = planner_for(broker, topic, subscribePattern=f"{topic}.*")
    start = latest(planner, planner.initial())
    broker.create_topic(f"{topic}-more", settings=KEPT)
    writer.numbers(f"{topic}-more", 0, 0, 3)
    end = latest(planner, start)
    assert end.offsets[f"{topic}-more", 0] == 3


def test_a_pattern_that_matches_nothing_yet_is_no_error(broker):
    planner = planner_for(broker, "", subscribePattern="nothing-of-this-name.*")
    assert latest(planner, planner.initial()) == StreamOffset({}, {})


def test_only_assigned_partitions_are_read(broker, writer, topic):
    writer.numbers(topic, 0, 0, 3)
    writer.numbers(topic, 1, 0, 4)
    planner = planner_for(broker, topic, assign=f'{{"{topic}": [1]}}')
    assert latest(planner, planner.initial()).offsets == {(topic, 1): 4}


def test_a_topic_that_is_gone_or_made_anew_is_data_loss(broker, writer, topic):
    writer.numbers(topic, 0, 0, 5)
    planner = planner_for(broker, topic)
    careless = planner_for(broker, topic, failOnDataLoss="false")
    start = latest(planner, planner.initial())
    broker.delete_topic(topic)
    with pytest.raises(DataLossError, match=f"{topic}-0 is gone; it was read up to offset 5"):
        latest(planner, start)
    assert latest(careless, start) == StreamOffset({}, {})
    broker.create_topic(topic, partitions=2, settings=KEPT)
    writer.numbers(topic, 0, 0, 9)
    with pytest.raises(DataLossError, match="recreated"):
        latest(planner, start)
    end = latest(careless, start)
    assert numbers(end) == [9, 0]
    assert sizes(careless.tasks(start, end)) == [[(0, 0, 9)]]


def test_what_retention_took_is_data_loss(broker, writer, topic):
    writer.numbers(topic, 0, 0, 10)
    planner = planner_for(broker, topic)
    start = planner.initial()
    writer.delete_records(topic, 0, 6)
    with pytest.raises(DataLossError, match=f"{topic}-0: offsets 0 to 5 are gone"):
        latest(planner, start)
    careless = planner_for(broker, topic, failOnDataLoss="false")
    assert numbers(latest(careless, start)) == [10, 0]


def test_an_end_before_the_start_is_data_loss(broker, writer, topic):
    writer.numbers(topic, 0, 0, 3)
    planner = planner_for(broker, topic)
    start = planner.initial()
    ahead = StreamOffset(start.ids, {**start.offsets, TopicPartition(topic, 0): 50})
    with pytest.raises(DataLossError, match="ends at 3; it was read up to 50"):
        latest(planner, ahead)
    careless = planner_for(broker, topic, failOnDataLoss="false")
    assert numbers(latest(careless, ahead)) == [3, 0]


def test_a_replayed_first_batch_may_start_behind_its_end(broker, topic):
    planner = planner_for(broker, topic)
    start = planner.initial()
    ahead = StreamOffset(start.ids, dict.fromkeys(start.offsets, 9))
    end = StreamOffset(start.ids, dict.fromkeys(start.offsets, 5))
    assert planner.tasks(ahead, end) == []


def test_a_replayed_first_batch_reads_what_it_was_to_read_though_latest_is_later(
    broker, writer, topic
):
    writer.numbers(topic, 0, 0, 3)
    planner = planner_for(broker, topic, startingOffsets="latest")
    start = planner.initial()
    assert latest(planner, start) == start
    writer.numbers(topic, 0, 3, 4)
    end = StreamOffset.from_json(latest(planner, start).to_json())
    assert sizes(planner.tasks(start, end)) == [[(0, 3, 7)]]
    writer.numbers(topic, 0, 7, 5)
    restarted = planner_for(broker, topic, startingOffsets="latest")
    again = restarted.initial()
    assert numbers(again) == [12, 0]
    assert sizes(restarted.tasks(again, end)) == [[(0, 3, 7)]]
    second = latest(restarted, end)
    assert sizes(restarted.tasks(end, second)) == [[(0, 7, 12)]]
    assert latest(restarted, second) == second
    assert "starts" not in str(second.to_json())


def test_partitions_share_as_many_tasks_as_are_worth_it(broker, writer, topic):
    planner = planner_for(broker, topic, minPartitions="3")
    start = planner.initial()
    end = StreamOffset(start.ids, {TopicPartition(topic, 0): 8, TopicPartition(topic, 1): 4})
    assert sizes(planner.tasks(start, end)) == [[(0, 0, 4)], [(0, 4, 8)], [(1, 0, 4)]]
    assert len(planner_for(broker, topic).tasks(start, end)) == 1


def test_the_group_is_told_what_has_been_processed(broker, writer, topic):
    writer.numbers(topic, 0, 0, 5)
    planner = planner_for(broker, topic, groupId=f"group-of-{topic}")
    end = latest(planner, planner.initial())
    latest(planner, end)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.kafka_address, "group.id": f"group-of-{topic}"}
    )
    places = [confluent_kafka.TopicPartition(topic, number) for number in (0, 1)]
    assert [each.offset for each in consumer.committed(places, 10)] == [5, 0]
    consumer.close()


# --- Batches -----------------------------------------------------------------------------------


def ranges(broker, topic, **options):
    parsed = options_for(broker, topic, "batch", **options)
    cluster = Cluster(parsed.link)
    try:
        return [(each.partition, each.start, each.end) for each in batch_ranges(cluster, parsed)]
    finally:
        cluster.close()


def test_ranges_by_offset_and_by_time(broker, writer, topic):
    writer.numbers(topic, 0, 0, 10, at_ms=1000)
    writer.numbers(topic, 1, 0, 5, at_ms=1000)
    assert ranges(broker, topic) == [(0, 0, 10), (1, 0, 5)]
    start, end = (f'{{"{topic}": {{"0": {a}, "1": {b}}}}}' for a, b in ((2, -2), (-1, 3)))
    assert ranges(broker, topic, startingOffsets=start, endingOffsets=end) == [
        (0, 2, 10),
        (1, 0, 3),
    ]
    times = {"startingTimestamp": "2500", "endingTimestamp": "6000"}
    assert ranges(broker, topic, **times) == [(0, 3, 6), (1, 3, 5)]
    by_partition = f'{{"{topic}": {{"0": 1000, "1": 2000}}}}'
    assert ranges(broker, topic, startingOffsetsByTimestamp=by_partition) == [
        (0, 1, 10),
        (1, 2, 5),
    ]
    assert ranges(broker, topic, endingOffsetsByTimestamp=by_partition) == [(0, 0, 1), (1, 0, 2)]
    with pytest.raises(OffsetsError, match=f"{topic}-1 is at or after"):
        ranges(broker, topic, startingTimestamp="7000")
    late = {"startingTimestamp": "7000", "startingOffsetsByTimestampStrategy": "latest"}
    assert ranges(broker, topic, **late) == [(0, 7, 10), (1, 5, 5)]
    assert ranges(broker, topic, startingTimestamp="3000", endingTimestamp="1000") == [
        (0, 3, 3),
        (1, 3, 3),
    ]


def test_messages_that_come_while_a_moment_is_looked_for_are_not_part_of_a_batch(
    broker, writer, topic
):
    writer.numbers(topic, 0, 0, 5, at_ms=1000)
    parsed = options_for(broker, topic, "batch", startingTimestamp="1000")
    cluster = Cluster(parsed.link)
    places = [TopicPartition(topic, 0)]
    ends = find_ends(cluster, places, parsed.isolation)
    writer.numbers(topic, 0, 5, 5, at_ms=1000)
    moment = Bound(moment_ms=8000)
    assert cluster.offsets_at({TopicPartition(topic, 0): 8000}, parsed.isolation) == {
        TopicPartition(topic, 0): 8
    }
    assert locate(cluster, moment, places, ends, parsed) == {(topic, 0): 5}
    cluster.close()


def test_offsets_out_of_range_are_refused_or_clipped(broker, writer, topic):
    writer.numbers(topic, 0, 0, 10)
    writer.delete_records(topic, 0, 4)
    given = {
        "startingOffsets": f'{{"{topic}": {{"0": 1, "1": 0}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 99, "1": 7}}}}',
    }
    with pytest.raises(OffsetsError, match=rf"{topic}-0 \[1, 99\).*{topic}-1 \[0, 7\)"):
        ranges(broker, topic, **given)
    assert ranges(broker, topic, **given, failOnDataLoss="false") == [(0, 4, 10), (1, 0, 0)]
