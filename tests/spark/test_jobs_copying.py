"""Jobs that write topics, in a real Spark against a real broker; an oracle reads both topics."""

from __future__ import annotations

import threading
from itertools import count, cycle
from typing import Any

import mmh3
import pytest

from goqueue.records import Record
from goqueue.spark import jobs
from goqueue.spark.errors import (
    DataLossError,
    OptionsError,
    TopicMissingError,
    VerificationError,
)
from goqueue.spark.jobs.ledger import Ledger
from support.committed import committed
from support.copied_topics import BASE_MS, by_key, fill
from support.topic_writer import TopicWriter

names = (f"copied-{number}" for number in count())


@pytest.fixture(scope="module")
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


@pytest.fixture(scope="module")
def topic(writer):
    name = next(names)
    fill(writer, name)
    return name


def test_a_replay_of_a_time_range_keeps_what_messages_are_and_their_order(spark, broker, topic):
    told = []
    start, end = BASE_MS + 300_000, BASE_MS + 900_000
    report = jobs.replay(
        spark, broker.kafka_address, topic, target := next(names),
        start=start, end=end, partitions=5, piece_rows=350,
        progress=lambda *args: told.append(args),
    )  # fmt: skip
    wanted = [each for each in committed(broker, topic) if start <= each.timestamp_ms < end]
    found = committed(broker, target)
    assert by_key(found) == by_key(wanted)
    assert all(e.partition == mmh3.hash(e.key, signed=False) % 5 for e in found if e.key)
    assert report.summary["rows"] == len(wanted) == 600
    assert report.summary["pieces"] == 2
    assert report.summary["bytes"] == sum(len(e.key or b"") + len(e.value or b"") for e in wanted)
    assert told[-1] == (f"writing {target}", 600, 600)
    nothing = jobs.replay(spark, broker.kafka_address, topic, target, where="false")
    assert (nothing.summary["rows"], nothing.summary["bytes"]) == (0, 0)
    assert report.warnings == []  # the target is made with the retention of the topic


def test_a_replay_can_keep_partitions_take_some_keys_and_is_done_once(
    spark, broker, topic, tmp_path
):
    def run(**changes):
        return jobs.replay(
            spark, broker.kafka_address, topic, target,
            **{"keys": [b"k1", b"k2"], "where": "value IS NOT NULL", "keep_partition": True,
               "checkpoint": tmp_path, "rate": 100_000, **changes},
        )  # fmt: skip

    target = next(names)
    report = run()
    wanted = [e for e in committed(broker, topic) if e.key in {b"k1", b"k2"} and e.value]
    assert report.summary["rows"] == len(wanted)
    again = run()
    assert again.summary["rows"] == again.summary["pieces"] == 0
    found = committed(broker, target)
    assert by_key(found) == by_key(wanted)
    assert {(e.key, e.partition) for e in found} == {(e.key, e.partition) for e in wanted}
    with pytest.raises(OptionsError, match=r"another job: keys was \['6b31', '6b32'\]"):
        run(keys=[b"k3"])
    broker.delete_topic(target)
    for _ in range(2):  # and not half of it, whether somebody has made it anew or not
        with pytest.raises(OptionsError, match=f"written to a topic {target} that was deleted"):
            run()
        if target not in broker.topics():
            broker.create_topic(target, partitions=3)


def test_a_piece_that_was_written_and_not_noted_counts_once(
    spark, broker, topic, tmp_path, monkeypatch
):
    def run():
        return jobs.replay(
            spark, broker.kafka_address, topic, target, piece_rows=700, checkpoint=tmp_path
        )

    def die(*_):
        raise KeyboardInterrupt

    target = next(names)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert len(committed(broker, target)) == 700
    assert run().summary["rows"] == 1200
    assert by_key(committed(broker, target)) == by_key(committed(broker, topic))


def test_a_topic_replays_into_itself_once(spark, broker, writer):
    fill(writer, name := next(names), rows=90, partitions=2)
    jobs.replay(spark, broker.kafka_address, name, name, piece_rows=60)
    assert len(committed(broker, name)) == 180


def test_a_rate_is_kept(spark, broker, topic):
    report = jobs.replay(
        spark, broker.kafka_address, topic, next(names), rate=100, end=BASE_MS + 200_000
    )
    assert report.summary["rows"] == 200
    assert float(report.summary["seconds"]) > 200 / 100 * 0.8


def test_a_topic_gets_another_number_of_partitions_and_goes_on_where_it_was(
    spark, broker, writer, tmp_path
):
    fill(writer, name := next(names), partitions=3)
    target = next(names)

    def run(**options):
        return jobs.repartition(
            spark, broker.kafka_address, name, target, 7, checkpoint=tmp_path, **options
        )

    report = run(piece_rows=700)
    assert report.summary["verified"] is True
    assert report.summary["keys"] == len(by_key(committed(broker, name))[0]) + 1
    stop = threading.Event()
    writer.numbers(name, 1, 0, 50)
    follower = threading.Timer(2, stop.set)
    follower.start()
    more = run(follow=True, stop=stop)
    follower.join()
    assert more.summary["rows"] == 50
    assert by_key(committed(broker, target)) == by_key(committed(broker, name))
    assert len(more.tables[1].rows) == 7
    assert sum(row["lag"] for row in more.tables[0].rows) == 0
    writer.numbers(target, 1, 7, 1)  # somebody writes to the copy
    with pytest.raises(VerificationError, match=r"1 of \d+ keys differ, '1' among"):
        run()


def test_a_copy_is_verified_by_what_a_copy_has_in_common_with_its_original(spark, broker, writer):
    writer.create(name := next(names), 2, message_timestamp_type="LogAppendTime")
    late = (("goqueue-deliver-at", b"1767225600000"), ("n", b"1"))
    writer.append(name, 0, [Record(0, BASE_MS, b"k", b"v", late)])
    report = jobs.repartition(spark, broker.kafka_address, name, target := next(names), 3)
    assert (report.summary["verified"], report.summary["keys"]) == (True, 1)
    assert f"{target} gives messages the time of their arrival" in report.warnings[0]
    (copy,) = committed(broker, target)
    assert (copy.key, copy.value, copy.headers) == (b"k", b"v", [("n", b"1")])


def test_what_is_deleted_before_it_is_copied_is_named_and_the_rest_is_copied_if_asked_for(
    spark, broker, writer, tmp_path
):
    writer.create(name := next(names), 2)
    writer.numbers(name, 0, 0, 30)
    target = next(names)

    def run(**options):
        return jobs.replay(
            spark, broker.kafka_address, name, target, checkpoint=tmp_path, piece_rows=10, **options
        )

    def killed(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(progress=killed)
    writer.delete_records(name, 0, 15)
    with pytest.raises(DataLossError, match="offsets 0 to 14 of partition 0 were deleted"):
        run()
    report = run(fail_on_data_loss=False)
    assert [int(each.value) for each in committed(broker, target)] == [*range(15, 30)]
    assert (
        report.warnings[0]
        == "offsets 0 to 14 of partition 0 were deleted before they were processed"
    )
    assert report.summary["rows"] == 15


def dedupe_by(found, same, keep):
    """What stays, reckoned one by one."""
    kept = {}
    for number, each in enumerate(sorted(found, key=lambda e: (e.partition, e.offset))):
        name = same(each)
        name = number if name is None else (name,)
        if keep == "last" or name not in kept:
            kept[name] = each
    return list(kept.values())


def test_of_the_same_messages_the_first_or_the_last_stays(spark, broker, topic, tmp_path):
    found = committed(broker, topic)
    report = jobs.dedupe(
        spark, broker.kafka_address, topic, target := next(names),
        keep="last", window_ms=600_000, checkpoint=tmp_path, piece_rows=60,
    )  # fmt: skip
    wanted = dedupe_by(found, lambda e: e.key and (e.key, e.timestamp_ms // 600_000), "last")
    assert by_key(committed(broker, target)) == by_key(wanted)
    assert (report.summary["read"], report.summary["kept"]) == (1200, len(wanted))
    assert int(report.summary["pieces"]) > 1
    again = jobs.dedupe(
        spark, broker.kafka_address, topic, target,
        keep="last", window_ms=600_000, checkpoint=tmp_path, piece_rows=60,
    )  # fmt: skip
    assert (again.summary["rows"], again.summary["kept"]) == (0, len(wanted))
    assert len(committed(broker, target)) == len(wanted)

    jobs.dedupe(
        spark, broker.kafka_address, topic, target := next(names),
        by="substring(value, -1)", start=BASE_MS + 100_000,
    )  # fmt: skip
    late = [e for e in found if e.timestamp_ms >= BASE_MS + 100_000]
    late.sort(key=lambda e: e.timestamp_ms)
    firsts = {}
    for each in late:
        firsts.setdefault((each.value and each.value[-1:]) or each.offset, each)
    tombs = [e for e in late if e.value is None]
    assert sorted(e.value or b"" for e in committed(broker, target)) == sorted(
        [e.value for e in firsts.values() if e.value] + [b""] * len(tombs)
    )


def test_compaction_leaves_the_newest_of_each_key_and_no_tombstone(spark, broker, topic):
    report = jobs.compact(spark, broker.kafka_address, topic, target := next(names))
    newest = dedupe_by(committed(broker, topic), lambda e: e.key, "last")
    wanted = [each for each in newest if each.value is not None]
    assert len(wanted) < len(newest)
    assert by_key(committed(broker, target)) == by_key(wanted)
    assert report.summary["dropped"] == 1200 - len(wanted)


@pytest.fixture
def dies(monkeypatch):
    """Let a job die before or after the n-th time that it writes down how far it is."""
    store, left, is_before = Ledger.store, 0, False

    def dying(ledger):
        nonlocal left
        left -= 1
        if left == 0 and is_before:
            raise KeyboardInterrupt
        store(ledger)
        if left == 0:
            raise KeyboardInterrupt

    def run_until(run, at, *, before):
        """Whether it died, and did not come to an end."""
        nonlocal left, is_before
        left, is_before = at, before
        try:
            run()
        except KeyboardInterrupt:
            return True
        return False

    monkeypatch.setattr(Ledger, "store", dying)
    return run_until


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", ["replay", "repartition", "dedupe", "compact", "restore"])
def test_whenever_a_job_dies_it_goes_on_and_each_message_is_there_once(  # noqa: PLR0917 - fixtures
    spark, broker, topic, tmp_path, dies, job
):
    address, target = broker.kafka_address, next(names)
    how = {"piece_rows": 500, "checkpoint": tmp_path / "checkpoint"}
    wanted = found = committed(broker, topic)
    if job == "restore":
        jobs.archive(spark, address, topic, tmp_path / "lake", merge=False)
    if job == "dedupe":
        wanted = dedupe_by(found, lambda e: e.key and (e.key, e.timestamp_ms // 60_000), "first")
    if job == "compact":
        how["piece_rows"] = 20
        wanted = [e for e in dedupe_by(found, lambda e: e.key, "last") if e.value is not None]
    run = {
        "replay": lambda: jobs.replay(spark, address, topic, target, **how),
        "repartition": lambda: jobs.repartition(spark, address, topic, target, 5, **how),
        "dedupe": lambda: jobs.dedupe(spark, address, topic, target, window_ms=60_000, **how),
        "compact": lambda: jobs.compact(spark, address, topic, target, **how),
        "restore": lambda: jobs.restore(spark, address, tmp_path / "lake", target, **how),
    }[job]
    # Just after it has begun; done and not written down; written down; before anything.
    fates = cycle([(1, False), (2, True), (2, False), (1, True)])
    deaths = 0
    for at, is_before in fates:
        if not dies(run, at, before=is_before):
            break
        deaths += 1
    assert deaths > 4
    assert by_key(committed(broker, target)) == by_key(wanted)


def test_an_empty_topic_is_copied_as_one(spark, broker, writer):
    writer.create(name := next(names), 2)
    address = broker.kafka_address
    for report in (
        jobs.replay(spark, address, name, next(names)),
        jobs.repartition(spark, address, name, next(names), 4),
        jobs.compact(spark, address, name, next(names)),
    ):
        assert (report.summary["rows"], report.summary["pieces"]) == (0, 0)


def test_whatever_is_wrong_is_said_at_once(spark, broker, topic):
    address = broker.kafka_address
    both: Any = "both"
    with pytest.raises(OptionsError) as caught:
        jobs.dedupe(
            spark, address, topic, topic,
            by="nonsense(", keep=both, window_ms=0, rate=0, piece_rows=0, partitioner="crc",
            partitions=0,
        )  # fmt: skip
    named = [each.split(":")[0] for each in caught.value.problems]
    assert named == [
        "partitioner", "piece_rows", "partitions", "rate", "by", "keep", "window_ms", "target",
    ]  # fmt: skip
    for wrong in ("offset + 1", "count(*) > 1"):
        with pytest.raises(OptionsError, match="where: "):
            jobs.replay(spark, address, topic, "other", where=wrong)
    with pytest.raises(OptionsError, match="by: "):
        jobs.dedupe(spark, address, topic, "other", by="max(offset)")
    with pytest.raises(OptionsError, match="unmade has 2 partitions, and messages are of 3"):
        jobs.replay(spark, address, topic, "unmade", keep_partition=True, partitions=2)
    assert "unmade" not in broker.topics()
    other, small = broker.create_topic(next(names)), broker.create_topic(next(names), partitions=2)
    with pytest.raises(OptionsError, match=f"target: {topic} exists"):
        jobs.repartition(spark, address, other, topic, 3)
    with pytest.raises(OptionsError, match="has 2 partitions, and messages are of 3"):
        jobs.replay(spark, address, topic, small, keep_partition=True)
    with pytest.raises(TopicMissingError, match="there is no topic 'absent'"):
        jobs.replay(spark, address, "absent", "other")
    with pytest.raises(OptionsError, match=r"unknown option kafka\.sasl\.user; did you mean"):
        jobs.compact(spark, address, topic, "other", options={"kafka.sasl.user": "me"})
