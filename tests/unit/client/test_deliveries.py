"""Handles of published messages, of batches that are stored, refused and split."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given, strategies as st

from goqueue.client.producing.deliveries import AsyncDelivery, BlockingDelivery, Fate, Stored
from goqueue.client.producing.rows import BatchRows, BlockingDeliveries, Rows, rows_of
from goqueue.model.errors import BatchTooLargeError

COUNT = 12


def settle_randomly(fate, count, draw, expected, offset):
    """Split a batch at random; what becomes of each message goes to `expected`."""
    if count > 1 and draw(st.booleans()):
        middle = draw(st.integers(1, count - 1))
        first, second = fate.split(middle)
        offset = settle_randomly(first, middle, draw, expected, offset)
        return settle_randomly(second, count - middle, draw, expected, offset)
    if draw(st.booleans()):
        fate.settle(error=BatchTooLargeError("no"))
        expected += [None] * count
        return offset
    fate.settle(Stored(offset))
    expected += range(offset, offset + count)
    return offset + count


@given(data=st.data())
def test_each_handle_tells_what_became_of_its_message(data):
    fate = Fate("t", 3)
    handles = [BlockingDelivery(fate, at, 100 + at) for at in range(COUNT)]
    called = []
    for handle in handles:
        handle.add_done_callback(called.append)
    futures = [handle.future() for handle in handles]
    expected: list[int | None] = []
    settle_randomly(fate, COUNT, data.draw, expected, 50)
    assert sorted(map(id, called)) == sorted(map(id, handles))
    for handle, future, offset in zip(handles, futures, expected, strict=True):
        assert handle.done()
        assert not handle.cancel()
        if offset is None:
            assert isinstance(handle.exception(), BatchTooLargeError)
            assert isinstance(future.exception(0), BatchTooLargeError)
            with pytest.raises(BatchTooLargeError):
                handle.result()
        else:
            receipt = handle.result()
            assert receipt == future.result(0)
            assert (receipt.topic, receipt.partition, receipt.offset) == ("t", 3, offset)
            assert receipt.timestamp_ms == handle.timestamp_ms


@given(data=st.data())
def test_a_range_of_a_batch_has_failed_when_one_of_its_messages_has(data):
    fate = Fate("t", 0)
    expected: list[int | None] = []
    settle_randomly(fate, COUNT, data.draw, expected, 0)
    first = data.draw(st.integers(0, COUNT - 1))
    end = data.draw(st.integers(first + 1, COUNT))
    has_failed = None in expected[first:end]
    assert (fate.error_within(first, end) is not None) == has_failed
    rows = Rows(end - first, [b"v"] * (end - first), None, 5)
    sent = BlockingDeliveries(BlockingDelivery)
    sent.add(rows, [BatchRows(fate, first, range(end - first))])
    assert sent.done()
    if has_failed:
        with pytest.raises(BatchTooLargeError):
            sent.result(0)
    else:
        assert sent.result(0) == len(sent) == end - first
        assert [each.offset for each in sent.receipts()] == expected[first:end]


def test_what_is_not_known_in_time_is_said():
    fate = Fate("t", 0)
    handle = BlockingDelivery(fate, 0, 0)
    assert not handle.done()
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        handle.result(0.01)
    with pytest.raises(TimeoutError):
        handle.exception(0)
    with pytest.raises(asyncio.InvalidStateError):
        handle.told()


def test_threads_that_wait_hear_of_a_split_and_of_its_halves():
    fate = Fate("t", 0)
    handles = [BlockingDelivery(fate, at, 0) for at in range(4)]
    found: dict[int, int] = {}

    def wait(at):
        found[at] = handles[at].result(60).offset

    threads = [threading.Thread(target=wait, args=(at,)) for at in range(4)]
    for each in threads:
        each.start()
    first, second = fate.split(1)
    second.settle(Stored(11))
    first.settle(Stored(10))
    for each in threads:
        each.join(60)
    assert found == {0: 10, 1: 11, 2: 12, 3: 13}


def test_tasks_that_wait_hear_of_a_split_and_one_that_is_cancelled_harms_no_other():
    async def main():
        fate = Fate("t", 0)
        handles = [AsyncDelivery(fate, at, 0) for at in range(3)]

        async def wait(handle):
            return (await handle).offset

        tasks = [asyncio.create_task(wait(handle)) for handle in handles]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        with pytest.raises(asyncio.InvalidStateError):
            handles[1].exception()
        first, second = fate.split(2)
        await asyncio.sleep(0)
        first.settle(Stored(7, append_time_ms=99))
        second.settle(Stored(-1))
        assert await asyncio.gather(*tasks[1:]) == [8, -1]
        assert handles[0].result().timestamp_ms == 99

    asyncio.run(main())


# --- Rows -----------------------------------------------------------------------------------------


def listed(messages):
    """The rows of messages, as values, keys and whether they have timestamps of their own."""
    return [
        (value, None if rows.keys is None else rows.keys[at], rows.timestamp_ms(at))
        for rows in rows_of(messages)
        for at, value in enumerate(rows.values)
    ]


@pytest.mark.parametrize("form", [list, tuple, iter])
def test_values_come_in_any_iterable(form):
    values = [b"%d" % number for number in range(25_000)]
    assert [value for value, _, _ in listed(form(values))] == values


def test_columns_come_by_their_names():
    columns = {"value": ["a", b"b"], "key": [None, "k"], "timestamp_ms": [1, 2]}
    assert listed(columns) == [("a", None, 1), (b"b", "k", 2)]


@pytest.mark.parametrize(
    ("messages", "kind", "named"),
    [
        (b"one", TypeError, "publish"),
        ("one", TypeError, "publish"),
        (7, TypeError, "int"),
        ({"key": ["k"]}, ValueError, "value"),
        ({"value": ["v"], "colour": ["red"]}, ValueError, "colour"),
        ({"value": ["v"], "key": ["k", "l"]}, ValueError, "2 rows"),
        ({"value": ["v"], "timestamp_ms": ["now"]}, ValueError, "timestamp_ms"),
    ],
)
def test_what_are_no_messages_is_refused(messages, kind, named):
    with pytest.raises(kind, match=named):
        list(rows_of(messages))


def test_tables_need_the_same_columns():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="colour"):
        list(rows_of(pa.table({"value": ["v"], "colour": ["red"]})))
    (rows,) = rows_of(pa.table({"value": ["a", "b"], "timestamp_ms": [5, 6]}))
    assert (rows.row_count, rows.timestamp_ms(1)) == (2, 6)
    frame = pytest.importorskip("pandas").DataFrame({"value": [b"a", b"b", None]})
    assert sum(rows.row_count for rows in rows_of(frame)) == 3
