"""Which small files go together, and how their rows stay in order: against dumb twins."""

from __future__ import annotations

import string
from collections import Counter
from itertools import groupby, pairwise

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings, strategies as st

from goqueue.spark.lake import merging
from goqueue.spark.lake.merging import MERGED_FILES, merged, order_of, plan_groups, rows_of
from goqueue.spark.lake.partitions import folder_of, value_text, values_of
from goqueue.spark.lake.stores import LiveFile
from support.effort import examples

FIELDS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("source", pa.int32())])
ORDER = ["partition", "offset"]
KEYS = st.tuples(st.integers(0, 2), st.integers(0, 9))


@st.composite
def sources(draw):
    """Sorted rows of several sources, each in batches of its own sizes, empty ones among them."""
    made = []
    for place, keys in enumerate(draw(st.lists(st.lists(KEYS, max_size=25), max_size=5))):
        rows = [(*key, place) for key in sorted(keys)]
        cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
        pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        made.append([batch(piece) for piece in pieces])
    return made


def batch(rows):
    listed = [dict(zip(FIELDS.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(listed, FIELDS)


def rows_in(batches):
    return [tuple(row.values()) for each in batches for row in each.to_pylist()]


@settings(max_examples=examples(150))
@given(sources())
def test_sources_in_order_become_one_in_order(made):
    found = rows_in(merged([iter(each) for each in made], ORDER))
    assert [row[:2] for row in found] == sorted(row[:2] for row in found)
    assert Counter(found) == Counter(rows_in(each for source in made for each in source))


def test_files_are_merged_in_order_only_if_each_of_them_is(tmp_path):
    def write(name, rows):
        pq.write_table(pa.Table.from_batches([batch(rows)]), tmp_path / name, row_group_size=2)
        return tmp_path / name

    late = write("late", [(0, 5, 1), (0, 6, 1), (1, 0, 1), (1, 1, 1)])
    early = write("early", [(0, 1, 2), (0, 2, 2), (0, 6, 2), (1, 0, 2), (1, 9, 2)])
    unsorted = write("unsorted", [(1, 1, 3), (0, 1, 3)])
    nulls = write("nulls", [(None, 1, 4), (0, 1, 4)])
    single = write("single", [(0, 0, 5)])
    found = rows_in(rows_of([late, early, single], FIELDS))
    assert [row[:2] for row in found] == sorted(row[:2] for row in found)
    assert len(found) == 10
    for other in (unsorted, nulls):
        found = rows_in(rows_of([late, other], FIELDS))
        assert found == rows_in(rows_of([late], FIELDS)) + rows_in(rows_of([other], FIELDS))


def test_only_rows_of_topics_have_an_order():
    assert order_of(FIELDS) == ORDER
    assert order_of(FIELDS.append(pa.field("topic", pa.string()))) == ["topic", *ORDER]
    assert order_of(pa.schema([("partition", pa.int32())])) == []
    assert order_of(pa.schema([("offset", pa.int64())])) == ["offset"]  # one folder a partition


@given(
    st.lists(st.tuples(st.integers(1, 120), st.sampled_from([None, "a", "b"])), max_size=30),
    st.integers(10, 200),
)
def test_groups_fit_and_hold_each_small_file_at_most_once(said, target_bytes):
    files = [LiveFile(f"{place}", size, 1, {"day": day}) for place, (size, day) in enumerate(said)]
    groups = plan_groups(files, target_bytes)
    for group in groups:
        assert 1 < len(group) <= MERGED_FILES
        assert len({each.partition["day"] for each in group}) == 1
        assert sum(each.size_bytes for each in group) <= target_bytes
        assert [int(each.path) for each in group] == sorted(int(each.path) for each in group)
    taken = [each.path for group in groups for each in group]
    assert len(taken) == len(set(taken))
    # What is left alone in a partition would not have fitted to its neighbour.
    small = [each for each in files if each.size_bytes < target_bytes * 0.75]
    for _, same in groupby(
        sorted(small, key=lambda it: str(it.partition)), lambda it: it.partition
    ):
        listed = list(same)
        for one, two in pairwise(listed):
            if one.path not in taken and two.path not in taken:
                assert one.size_bytes + two.size_bytes > target_bytes


@given(
    st.dictionaries(
        st.text(string.ascii_lowercase + "=/ %", min_size=1), st.none() | st.text(min_size=1)
    )
)
def test_partition_values_are_found_again_in_the_names_of_folders(values):
    folder = folder_of(values)
    assert values_of(folder) == values
    assert folder.count("/") == max(0, len(values) - 1)


def test_values_without_a_character_are_null():
    assert value_text("") is None
    assert value_text(value=False) == "false"


def test_rows_that_recur_are_read_in_pieces_that_fit_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "_BUFFER_BYTES", 1 << 20)
    table = pa.table({"offset": range(4000), "value": [bytes(2000)] * 4000})
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        pq.write_table(table, path)  # a few kilobytes: the value is stored once
    pieces = list(rows_of(paths, table.schema))
    assert max(piece.nbytes for piece in pieces) < 1 << 20
    assert sum(piece.num_rows for piece in pieces) == 8000
