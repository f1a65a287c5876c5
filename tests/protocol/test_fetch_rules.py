"""Fetch as it is on the wire: how much, how long, from where, and what goes wrong."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.records import walk
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, fetch_fields, make_batch

LONG_MS = 60_000
"""Longer than any answer in these tests may take."""
VALUE = b"v" * 100
SIZE = len(make_batch(VALUE))


@pytest.fixture
def topic(raw, name):
    made = name("fetch")
    raw.create(made, 3)
    return made


def _appends_later(broker, topic, *batches, delay_s=0.3, partition=0):
    def append():
        time.sleep(delay_s)
        with RawKafka(broker.kafka_port) as other:
            for batch in batches:
                other.produce(topic, batch, partition)

    thread = threading.Thread(target=append)
    thread.start()
    return thread


def _sizes(answer):
    return {
        partition.partition_index: len(partition.records or b"")
        for each in answer.responses
        for partition in each.partitions
    }


# --- Waiting --------------------------------------------------------------------------------------


def test_a_waiting_fetch_is_woken_by_an_append(broker, raw, topic):
    started = time.monotonic()
    thread = _appends_later(broker, topic, make_batch(VALUE))
    answer = raw.fetch(topic, max_wait_ms=LONG_MS)
    thread.join()
    assert time.monotonic() - started < LONG_MS / 1000 / 2
    assert len(answer.records) == SIZE


def test_a_fetch_of_several_partitions_is_woken_by_any_of_them(broker, raw, topic):
    thread = _appends_later(broker, topic, make_batch(VALUE), partition=2)
    wanted = [(topic, number, 0) for number in range(3)]
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_wait_ms=LONG_MS))
    thread.join()
    assert _sizes(answer) == {0: 0, 1: 0, 2: SIZE}


def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for(broker, raw, topic):
    thread = _appends_later(broker, topic, *[make_batch(VALUE)] * 5, delay_s=0.1)
    answer = raw.fetch(topic, max_wait_ms=LONG_MS, min_bytes=SIZE * 5)
    thread.join()
    assert len(answer.records) == SIZE * 5


def test_a_fetch_that_nothing_comes_for_returns_empty_when_its_time_is_over(raw, topic):
    started = time.monotonic()
    answer = raw.fetch(topic, max_wait_ms=200)
    waited_s = time.monotonic() - started
    assert (answer.error_code, answer.high_watermark, not answer.records) == (0, 0, True)
    assert waited_s >= 0.19


def test_a_fetch_that_must_not_wait_does_not(raw, topic):
    started = time.monotonic()
    raw.fetch(topic, max_wait_ms=0)
    assert time.monotonic() - started < LONG_MS / 1000 / 2


def test_a_waiting_fetch_hears_that_its_topic_is_gone(broker, raw, topic):
    def delete():
        time.sleep(0.2)
        with RawKafka(broker.kafka_port) as other:
            other.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=1000)

    thread = threading.Thread(target=delete)
    thread.start()
    answer = raw.fetch(topic, max_wait_ms=LONG_MS)
    thread.join()
    assert answer.error_code == ErrorCode.unknown_topic_or_partition


# --- Limits ---------------------------------------------------------------------------------------


def test_a_partition_gives_whole_batches_up_to_its_limit(raw, topic):
    for _ in range(10):
        raw.produce(topic, make_batch(VALUE))
    answer = raw.fetch(topic, partition_max_bytes=SIZE * 3 + 10)
    assert [info.base_offset for _, info in walk(bytes(answer.records))] == [0, 1, 2]


def test_at_least_one_batch_comes_however_small_the_limits(raw, topic):
    raw.produce(topic, make_batch(VALUE))
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}):
        assert len(raw.fetch(topic, **limits).records) == SIZE


def test_the_limit_of_a_fetch_holds_for_all_its_partitions_together(raw, topic):
    large = make_batch(b"x" * 5000)
    for partition, batch in enumerate((make_batch(VALUE), large, make_batch(VALUE))):
        raw.produce(topic, batch, partition)
    wanted = [(topic, number, 0) for number in range(3)]
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_bytes=1000))
    assert _sizes(answer) == {0: SIZE, 1: 0, 2: SIZE}
    # In front, the large one comes: a reader always gets on.
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted[1:], max_bytes=1000))
    assert _sizes(answer) == {1: len(large), 2: 0}


def test_a_fetch_from_inside_a_batch_brings_the_whole_batch(raw, topic):
    raw.produce(topic, make_batch(b"a", b"b", b"c"))
    answer = raw.fetch(topic, 2)
    assert [(i.base_offset, i.count) for _, i in walk(bytes(answer.records))] == [(0, 3)]


# --- Where from -----------------------------------------------------------------------------------


def test_an_offset_outside_the_log_is_out_of_range(raw, topic):
    raw.produce(topic, make_batch(b"a", b"b"))
    for offset, code in {
        -1: ErrorCode.offset_out_of_range,
        2: ErrorCode.none,
        3: ErrorCode.offset_out_of_range,
    }.items():
        assert raw.fetch(topic, offset, max_wait_ms=0).error_code == code


def test_every_answer_carries_the_watermarks(raw, topic):
    raw.produce(topic, make_batch(b"a", b"b", b"c"))
    answer = raw.fetch(topic, isolation=1)
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (3, 3, 0)
    assert answer.aborted_transactions == ()
    assert raw.fetch(topic, isolation=0).aborted_transactions is None


def test_unknown_topics_partitions_and_leaders_are_answered_one_by_one(raw, topic, name):
    absent = name("absent")
    raw.produce(topic, make_batch(VALUE))
    wanted = [(topic, 0, 0), (topic, 77, 0), (absent, 0, 0)]
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_wait_ms=LONG_MS))
    codes = {
        (each.topic, partition.partition_index): partition.error_code
        for each in answer.responses
        for partition in each.partitions
    }
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == {(topic, 0): 0, (topic, 77): unknown, (absent, 0): unknown}
    ahead = raw.fetch(topic, leader_epoch=5, max_wait_ms=LONG_MS)
    assert ahead.error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("version", range(13, 19))
def test_newer_versions_name_topics_by_id(raw, name, version):
    made, stranger = raw.create(name("by-id")), uuid4()
    fields = fetch_fields([(made, 0, 0), (stranger, 0, 0)], max_wait_ms=LONG_MS)
    answer = raw.ask(ApiKey.FETCH, version, **fields)
    codes = {each.topic_id: each.partitions[0].error_code for each in answer.responses}
    assert codes == {made: 0, stranger: ErrorCode.unknown_topic_id}


@pytest.mark.parametrize("version", range(4, 13))
def test_older_versions_name_topics_by_name(raw, topic, version):
    raw.produce(topic, make_batch(VALUE))
    answer = raw.ask(ApiKey.FETCH, version, **fetch_fields([(topic, 0, 0)]))
    ((found,),) = [each.partitions for each in answer.responses]
    assert (found.error_code, found.high_watermark, len(found.records)) == (0, 1, SIZE)


# --- Sessions -------------------------------------------------------------------------------------


class Session:
    """A consumer's side of a fetch session."""

    def __init__(self, raw):
        self.raw = raw
        self.place = (0, 0)

    def fetch(self, *wanted, forgotten=(), **options):
        """Which partitions the answer speaks of, with the bytes of each; or its error."""
        options = {"max_wait_ms": 0, **options}
        fields = fetch_fields(wanted, session=self.place, forgotten=forgotten, **options)
        answer = self.raw.ask(ApiKey.FETCH, 11, **fields)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.place = (answer.session_id, self.place[1] + 1)
        return _sizes(answer)


def test_a_session_names_its_partitions_once_and_hears_only_news(raw, topic):
    session = Session(raw)
    everything = [(topic, number, 0) for number in range(3)]
    assert session.fetch(*everything) == {0: 0, 1: 0, 2: 0}
    assert session.place[0] > 0
    assert session.fetch() == {}
    raw.produce(topic, make_batch(VALUE), 1)
    assert session.fetch() == {1: SIZE}
    assert session.fetch((topic, 1, 1)) == {}


def test_records_that_were_not_taken_come_again_in_a_session(raw, topic):
    session = Session(raw)
    raw.produce(topic, make_batch(VALUE))
    assert session.fetch((topic, 0, 0)) == {0: SIZE}
    assert session.fetch() == {0: SIZE}


def test_a_session_can_be_added_to_and_taken_from(raw, topic):
    session = Session(raw)
    for number in range(3):
        raw.produce(topic, make_batch(VALUE), number)
    assert session.fetch((topic, 0, 0)) == {0: SIZE}
    assert session.fetch((topic, 1, 0)) == {0: SIZE, 1: SIZE}
    assert session.fetch((topic, 2, 0), forgotten=[(topic, [0, 1])]) == {2: SIZE}
    assert session.fetch() == {2: SIZE}


def test_a_session_is_woken_by_an_append_to_what_it_named_before(broker, raw, topic):
    session = Session(raw)
    session.fetch((topic, 0, 0), (topic, 1, 0))
    thread = _appends_later(broker, topic, make_batch(VALUE), partition=1)
    assert session.fetch(max_wait_ms=LONG_MS) == {1: SIZE}
    thread.join()


def test_a_session_at_another_epoch_or_forgotten_is_refused_as_a_whole(raw, topic):
    session = Session(raw)
    session.fetch((topic, 0, 0))
    session_id, epoch = session.place
    session.place = (session_id, epoch + 1)
    assert session.fetch() == ErrorCode.invalid_fetch_session_epoch
    session.place = (session_id, epoch)
    assert session.fetch() == {}
    session.place = (session_id ^ 1, epoch)
    assert session.fetch() == ErrorCode.fetch_session_id_not_found


def test_a_session_can_be_ended_and_begun_anew(raw, topic):
    session = Session(raw)
    session.fetch((topic, 0, 0))
    first = session.place[0]
    session.place = (first, -1)
    assert session.fetch((topic, 0, 0)) == {0: 0}
    assert session.place[0] == 0
    session.place = (first, 1)
    assert session.fetch() == ErrorCode.fetch_session_id_not_found
    session.place = (0, 0)
    assert session.fetch((topic, 1, 0)) == {1: 0}
    second = session.place[0]
    session.place = (second, 0)
    assert session.fetch((topic, 2, 0)) == {2: 0}
    assert session.place[0] not in {0, second}


def test_a_session_hears_of_a_partition_that_has_gone(raw, topic):
    session = Session(raw)
    session.fetch((topic, 0, 0))
    raw.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=1000)
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields([], session=session.place))
    ((found,),) = [each.partitions for each in answer.responses]
    assert found.error_code == ErrorCode.unknown_topic_or_partition
