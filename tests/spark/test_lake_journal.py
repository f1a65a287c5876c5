"""A folder of Parquet files whose writers die after any step: what is committed is there once."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.spark.errors import LakeError
from goqueue.spark.lake import describe_table, lake_table, last_number, vacuum
from goqueue.spark.lake.committing import Batch, commit, commit_to
from goqueue.spark.lake.disk import Disk
from goqueue.spark.lake.parquet_store import SERIES_KEPT, ParquetStore, State
from goqueue.spark.lake.stores import Change, Columns
from support.lake import append, ids, leftovers, staged, visible_ids


class Died(BaseException):
    """The process is gone."""


class DyingDisk(Disk):
    """Works for so many steps; the write that comes then is torn."""

    def __init__(self, steps):
        self.steps = steps

    def _step(self):
        if self.steps == 0:
            raise Died
        self.steps -= 1

    def _write(self, path, data):
        if self.steps == 0:
            path.write_bytes(data[: len(data) // 2])
        self._step()
        super()._write(path, data)

    def _rename(self, source, target):
        self._step()
        super()._rename(source, target)

    def remove(self, path):
        self._step()
        super().remove(path)

    def sync_folder(self, folder):
        self._step()
        super().sync_folder(folder)


@contextmanager
def new_table():
    with tempfile.TemporaryDirectory() as folder:
        yield lake_table("parquet", Path(folder) / "table")


def batch_of(table, numbers, *, tasks, series, number, is_overwrite):
    """The files of a batch, from several tasks, and a file of an attempt that lost."""
    files = []
    for task in range(tasks):
        schema, written = staged(
            table, ids(numbers[task::tasks]), series=series, number=number, task=task
        )
        files += written
    staged(table, ids(numbers[:1]), series=series, number=number, task=99)
    return Batch(schema, files, series, number, is_overwrite=is_overwrite)


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.integers(0, 12),  # rows
        st.integers(1, 3),  # tasks
        st.booleans() | st.just(value=False),  # overwrite
        st.none() | st.integers(0, 25),  # steps until the writer dies
        st.booleans(),  # the batch comes again though its commit was heard of
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(BATCHES)
def test_a_table_holds_what_is_committed_whenever_its_writers_die(batches):
    fresh, numbers = count(), Counter()
    expected: Counter[int] = Counter()
    with new_table() as table:
        for series, rows, tasks, is_overwrite, steps, comes_again in batches:
            said = {
                "tasks": tasks,
                "series": series,
                "number": numbers[series],
                "is_overwrite": is_overwrite,
            }
            content = [next(fresh) for _ in range(rows)]
            before = expected
            after = Counter(content) if is_overwrite else before + Counter(content)
            batch = batch_of(table, content, **said)
            died = False
            try:
                store = ParquetStore(table, None if steps is None else DyingDisk(steps))
                assert commit_to(store, batch) is True
            except Died:
                died = True
                seen = visible_ids(table.path)
                assert max(seen.values(), default=1) == 1  # half of it perhaps, nothing twice
                assert not seen - (before | after)
                describe_table(table)  # a reader finishes what counts
                assert visible_ids(table.path) in (before, after)
            if died or comes_again:  # Spark does the batch again, under its number
                commit(table, batch_of(table, content, **said))
            assert visible_ids(table.path) == after
            assert not leftovers(table)
            assert rows == 0 or last_number(table, series) == numbers[series]
            expected = after
            numbers[series] += 1


def test_every_single_step_of_a_replacement_may_be_the_last():
    for steps in count():
        with new_table() as table:
            append(table, ids(range(10)), number=0)
            batch = batch_of(
                table, list(range(20, 30)), tasks=2, series="query", number=1, is_overwrite=True
            )
            try:
                commit_to(ParquetStore(table, DyingDisk(steps)), batch)
            except Died:
                half = visible_ids(table.path)
                assert not (half.keys() & set(range(10)) and half.keys() & set(range(20, 30)))
                for dying in range(3):  # and those who finish it may die, too
                    try:
                        ParquetStore(table, DyingDisk(dying)).recover()
                    except Died:
                        continue
                ParquetStore(table).recover()
                whole = visible_ids(table.path)
                assert whole in (Counter(range(10)), Counter(range(20, 30)))
                is_decided = whole == Counter(range(20, 30))
                assert (last_number(table, "query") == 1) is is_decided
            else:
                assert visible_ids(table.path) == Counter(range(20, 30))
                assert steps > 10  # it did die at some
                return


def test_a_commit_whose_files_are_gone_says_so(tmp_path):
    table = lake_table("parquet", tmp_path)
    batch = batch_of(table, [1, 2], tasks=1, series="query", number=0, is_overwrite=False)
    with pytest.raises(Died):
        commit_to(ParquetStore(table, DyingDisk(3)), batch)
    for each in (table.own_folder / "staged").iterdir():
        each.unlink()
    with pytest.raises(LakeError, match="belongs to a commit, and is missing"):
        describe_table(table)


def test_only_the_latest_series_are_remembered(tmp_path):
    table = lake_table("parquet", tmp_path)
    schema, _ = staged(table, [])
    state = State(0, Columns(schema), {f"query-{each}": 1 for each in range(SERIES_KEPT)})
    after = state.after(Change(schema, series="query-0", number=2)).after(
        Change(schema, series="new", number=0)
    )
    assert len(after.series) == SERIES_KEPT
    assert after.series["query-0"] == 2
    assert "query-1" not in after.series


def test_vacuum_deletes_what_is_old_and_leaves_what_counts(tmp_path):
    table = lake_table("parquet", tmp_path)
    append(table, ids(range(5)))
    staged(table, ids(range(100)), series="dead")
    assert vacuum(table).files == 0
    report = vacuum(table, older_than_s=-1)
    assert report.files == 1
    assert report.size_bytes > 0
    assert not leftovers(table)
    assert visible_ids(table.path) == Counter(range(5))
