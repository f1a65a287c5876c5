"""How a task keeps to a rate, with a clock that the test moves."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from goqueue.spark.errors import OptionsError
from goqueue.spark.options.write_options import parse_write_options
from goqueue.spark.writing.pacing import Pacer, paced


class Clock:
    def __init__(self):
        self.at = 100.0

    def now(self):
        return self.at

    def sleep(self, seconds):
        assert seconds > 0
        self.at += seconds


def batch(rows, first=0):
    return pa.RecordBatch.from_pydict({"n": list(range(first, first + rows))})


@given(st.lists(st.integers(0, 300), max_size=6), st.floats(0.5, 5000), st.floats(0, 30))
def test_no_stretch_of_time_has_more_rows_than_the_rate_and_a_burst(sizes, rate, pause_s):
    clock, seen, first = Clock(), [], 0
    batches = []
    for size in sizes:
        batches.append(batch(size, first))
        first += size

    def arriving():
        for each in batches:
            clock.at += pause_s
            yield each

    for part in paced(arriving(), rate, now=clock.now, sleep=clock.sleep):
        seen += [(clock.at, n) for n in part.column("n").to_pylist()]
    assert [n for _, n in seen] == list(range(first))
    step = max(1, int(rate / 10))
    for start in range(0, len(seen), 17):
        for end in range(start, len(seen), 23):
            span_s = seen[end][0] - seen[start][0]
            assert end - start <= rate * (span_s + 1.0) + 2 * step


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 5))), st.floats(0.01, 5000))
def test_a_driver_begins_no_piece_before_the_ones_before_it_have_taken_their_time(pieces, rate):
    clock, began = Clock(), []
    pacer = Pacer(rate, now=clock.now, sleep=clock.sleep)
    for rows, took_s in pieces:
        pacer.wait()
        began.append(clock.at)
        clock.at += took_s
        pacer.count(rows)
    for (rows, took_s), (first, second) in zip(pieces, pairwise(began), strict=False):
        assert second - first == pytest.approx(max(rows / rate, took_s))


def test_without_a_rate_batches_pass_as_they_are():
    batches = [batch(5), batch(7)]
    assert list(paced(batches, None)) == batches
    clock = Clock()
    pacer = Pacer(None, now=clock.now, sleep=clock.sleep)
    pacer.count(10**9)
    pacer.wait()
    assert clock.at == 100.0


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "inf"])
def test_a_rate_that_is_none_is_refused(text):
    with pytest.raises(OptionsError, match="taskRowsPerSecond: expected more than 0 rows"):
        parse_write_options({"bootstrap.servers": "a:1", "taskRowsPerSecond": text}, "batch")
