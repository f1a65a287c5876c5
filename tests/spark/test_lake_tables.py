"""Tables of the three formats, without a Spark: commits count once, others read what we wrote."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.spark.errors import ColumnsError, LakeError, OptionsError
from goqueue.spark.lake import (
    describe_table,
    lake_table,
    last_number,
    maintenance,
    merge_small_files,
    reading,
    vacuum,
)
from goqueue.spark.lake.committing import Batch, commit, discard, open_store, opened, prepare
from goqueue.spark.lake.options import parse_lake_options
from goqueue.spark.lake.parquet_files import PartitionedWriter
from goqueue.spark.lake.shape import table_schema
from goqueue.spark.lake.staging import Staging
from goqueue.spark.lake.stores import Change, LiveFile
from goqueue.spark.lake.task import Plan, write_files
from goqueue.spark.writing.task_identity import Attempt
from support.lake import (
    NUMBERS,
    append,
    ids,
    ids_by_others,
    leftovers,
    rows_by_others,
    staged,
    visible_files,
)

FORMATS = ("parquet", "delta", "iceberg")


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    return lake_table(request.param, tmp_path / "lake" / "orders")


def columns(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


# --- Commits -----------------------------------------------------------------------------------


def test_a_batch_counts_once_and_leaves_nothing_behind(table):
    assert append(table, ids(range(10)), number=0) is True
    staged(table, ids(range(10, 20)), number=1)  # its driver died before the commit
    assert append(table, ids(range(10, 20)), number=1) is True
    assert append(table, ids(range(10, 20)), number=1) is False  # the driver died after the commit
    assert append(table, ids(range(10)), number=0) is False
    assert append(table, ids(range(20, 30)), number=0, series="another") is True
    assert ids_by_others(table) == Counter(range(30))
    assert (last_number(table, "query"), last_number(table, "another")) == (1, 0)
    assert last_number(table, "nobody") is None
    assert not leftovers(table)
    assert len(visible_files(table.path)) == 3  # no file of a batch that came again


def test_a_failed_commit_takes_nothing_away_that_counts(table):
    schema, files = staged(table, ids(range(5)))
    commit(table, Batch(schema, files, "query", 0))
    discard(table, files)  # as Spark does when it did not hear of the commit's end
    _, others = staged(table, ids(range(5, 9)), number=1)
    discard(table, others)
    assert ids_by_others(table) == Counter(range(5))
    assert not leftovers(table)
    assert len(visible_files(table.path)) == 1


def test_overwriting_is_one_step_and_keeps_the_numbers(table):
    append(table, ids(range(10)), number=4)
    assert append(table, ids(range(3)), number=5, is_overwrite=True) is True
    assert append(table, ids(range(8)), number=5, is_overwrite=True) is False
    assert ids_by_others(table) == Counter(range(3))
    append(table, [], number=6, is_overwrite=True)
    assert ids_by_others(table) == Counter()
    assert last_number(table, "query") == 6


def test_writers_at_the_same_time_wait_for_one_another_and_lose_nothing(table):
    def write(writer):
        for number in range(3):
            first = 100 * writer + 10 * number
            append(table, ids(range(first, first + 10)), series=f"{writer}", number=number)

    append(table, [])
    with ThreadPoolExecutor(3) as pool:
        merging = pool.submit(lambda: [merge_small_files(table) for _ in range(3)])
        list(pool.map(write, range(2)))
        merging.result()
    rows = Counter(each for first in (0, 100) for each in range(first, first + 30))
    assert ids_by_others(table) == rows
    assert not leftovers(table)


def test_an_empty_batch_makes_the_table_and_nothing_else(table):
    append(table, [])
    state = describe_table(table)
    assert (state.schema, state.row_count, state.file_count) == (NUMBERS, 0, 0)
    assert rows_by_others(table) == []


def test_a_table_tells_what_it_holds(table):
    assert describe_table(table) is None
    assert last_number(table, "query") is None
    append(table, ids(range(10)))
    state = describe_table(table)
    assert (state.row_count, state.file_count, state.partition_by) == (10, 1, ())
    assert state.size_bytes == sum(each.stat().st_size for each in visible_files(table.path))


def test_vacuum_deletes_old_files_that_no_commit_names(table):
    append(table, ids(range(5)))
    staged(table, ids(range(9)), series="dead")
    torn = table.own_folder / "staged" / "part-0123456789abcdef-0000000000-x.parquet.staged"
    torn.write_text("" if table.format != "parquet" else "torn")
    assert vacuum(table).files == 0
    assert vacuum(table, older_than_s=-1).files == (2 if table.format == "parquet" else 1)
    assert not leftovers(table)
    assert ids_by_others(table) == Counter(range(5))
    assert len(visible_files(table.path)) == 1


# --- Columns -----------------------------------------------------------------------------------

EVERYTHING = columns(
    id=LongType(),
    flag=BooleanType(),
    tiny=ByteType(),
    real=DoubleType(),
    text=StringType(),
    raw=BinaryType(),
    price=DecimalType(20, 3),
    day=DateType(),
    at=TimestampType(),
    local=TimestampNTZType(),
    tags=ArrayType(StringType()),
    times=MapType(StringType(), TimestampType()),
    inner=columns(a=IntegerType(), b=ArrayType(columns(c=StringType()))),
)
AT = datetime(2024, 5, 6, 7, 8, 9, 123456, UTC)
FULL = {
    "id": 1,
    "flag": True,
    "tiny": -7,
    "real": float("inf"),
    "text": "é",
    "raw": b"\x00\xff",
    "price": Decimal("12345678901234567.125"),
    "day": date(1969, 12, 31),
    "at": AT,
    "local": AT.replace(tzinfo=None),
    "tags": ["x", None],
    "times": [("k", AT)],
    "inner": {"a": 1, "b": [{"c": "z"}, None]},
}
EMPTY = dict.fromkeys(FULL) | {"id": 2}


def test_every_type_is_read_by_others_as_it_was_written(table):
    append(table, [FULL, EMPTY], columns=EVERYTHING)
    found = sorted(rows_by_others(table), key=lambda row: row["id"])
    assert found == [FULL, EMPTY]
    kept = describe_table(table).schema
    assert kept["at"].dataType == TimestampType()
    assert kept["local"].dataType == TimestampNTZType()


def test_times_are_stored_in_utc_whatever_the_zone_of_the_session(table):
    at, local = datetime(1960, 5, 6, 7, 8, 9, 123456, UTC), datetime(1960, 1, 2)  # noqa: DTZ001 - of no zone
    inside = columns(t=TimestampType())
    schema = columns(
        id=LongType(), at=TimestampType(), s=inside, m=MapType(StringType(), inside),
        l=ArrayType(TimestampType(), containsNull=False), local=TimestampNTZType(),
    )  # fmt: skip
    row = {"id": 1, "at": at, "s": {"t": at}, "m": [("k", {"t": at})], "l": [at], "local": local}
    sent = pa.RecordBatch.from_pylist([row], to_arrow_schema(schema, timezone="Asia/Kolkata"))
    fitted = table_schema(schema, (), table.format)
    plan = Plan(table, fitted, prepare(table, fitted, None), 1 << 20, "zstd")
    files = write_files([sent], plan, Attempt("query", 0, 0, 0))
    commit(table, Batch(fitted, files, "query", 0))
    (found,) = rows_by_others(table)
    assert (found["at"], found["s"], found["l"], found["local"]) == (at, {"t": at}, [at], local)
    assert dict(found["m"]) == {"k": {"t": at}}


def test_new_columns_are_added_and_missing_ones_are_null(table):
    append(table, ids([1]), number=0)
    wider = columns(id=LongType(), name=StringType(), at=TimestampType())
    append(table, [{"id": 2, "name": "x", "at": AT}], columns=wider, number=1)
    append(
        table, [{"at": AT, "id": 3}], columns=columns(at=TimestampType(), id=LongType()), number=2
    )
    assert describe_table(table).schema == wider
    if table.format != "parquet":  # where each file stands for itself
        found = {row["id"]: (row["name"], row["at"]) for row in rows_by_others(table)}
        assert found == {1: (None, None), 2: ("x", AT), 3: (None, AT)}


def test_a_changed_type_is_an_error_that_names_it(table):
    append(table, ids([1]))
    with pytest.raises(ColumnsError, match="id is string, and bigint in the table: cast it"):
        staged(table, [], columns=columns(id=StringType()))
    with pytest.raises(ColumnsError, match="ID is called id in the table"):
        staged(table, [], columns=columns(ID=LongType()))
    with pytest.raises(ColumnsError, match="nothing is void: no table can hold that"):
        staged(table, [], columns=columns(id=LongType(), nothing=NullType()))
    assert ids_by_others(table) == Counter([1])


# --- Partitions --------------------------------------------------------------------------------

PARTED = columns(id=LongType(), day=DateType(), place=StringType())
DAYS = (date(2024, 1, 1), date(2024, 1, 2))
PLACES = ("a b", "x:y%z/[1]", "ü=é", None, "")


def parted_rows():
    return [
        {"id": each, "day": DAYS[each % 2], "place": PLACES[each % len(PLACES)]}
        for each in range(40)
    ]


def test_partition_values_of_all_kinds_are_read_back(table):
    append(table, parted_rows(), columns=PARTED, partition_by=("day", "place"))
    expected = {
        row["id"]: (row["day"], row["place"] or None) for row in parted_rows()
    }  # no folder is called nothing
    if table.format == "parquet":
        found = pq.read_table(table.path, partitioning="hive").to_pylist()
        assert Counter(str(row["day"]) for row in found) == Counter(
            str(row["day"]) for row in parted_rows()
        )
        assert {row["id"] for row in found} == set(expected)
    else:
        found = rows_by_others(table)
        assert {row["id"]: (row["day"], row["place"]) for row in found} == expected
    assert describe_table(table).file_count == 8
    assert describe_table(table).partition_by == ("day", "place")


def test_partitions_cannot_change_and_must_be_columns(table):
    with pytest.raises(ColumnsError, match="partitionBy names hour, which is no column"):
        staged(table, [], columns=PARTED, partition_by=("hour",))
    with pytest.raises(ColumnsError, match="no column beside those of partitionBy"):
        staged(table, [], partition_by=("id",))
    with pytest.raises(ColumnsError, match="at, which is timestamp: expected a string"):
        staged(table, [], columns=columns(id=LongType(), at=TimestampType()), partition_by=("at",))
    append(table, parted_rows(), columns=PARTED, partition_by=("day",))
    with pytest.raises(ColumnsError, match="the table is partitioned by day, and stays so"):
        staged(table, [], columns=PARTED, partition_by=("place",))
    append(table, parted_rows(), columns=PARTED, number=1)  # nothing said: as the table is
    assert describe_table(table).row_count == 80


def test_a_filter_on_deltas_statistics_finds_what_is_there(tmp_path):
    table = lake_table("delta", tmp_path / "orders")
    append(table, [FULL, EMPTY], columns=EVERYTHING)
    append(table, [EMPTY | {"id": 5, "real": float("nan")}], columns=EVERYTHING, number=1)
    delta = deltalake.DeltaTable(str(table.path))
    log = json.loads((table.path / "_delta_log" / f"{1:020}.json").read_text().splitlines()[1])
    stats = json.loads(log["add"]["stats"])
    assert stats["numRecords"] == 2
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (1, 2)
    assert stats["minValues"]["at"] == "2024-05-06T07:08:09.123456Z"
    assert stats["nullCount"]["text"] == 1
    assert "real" not in stats["maxValues"]
    for filters, found in (
        ([("id", "=", 5)], [5]),
        ([("at", ">=", AT)], [1]),
        ([("text", "=", "é")], [1]),
    ):
        assert delta.to_pyarrow_table(filters=filters)["id"].to_pylist() == found


# --- Merging -----------------------------------------------------------------------------------

TOPIC = columns(id=LongType(), partition=IntegerType(), offset=LongType())


def topic_rows(first, count):
    return [{"id": 2 * each + part, "partition": part, "offset": each}
            for part in range(2) for each in range(first, first + count)]  # fmt: skip


def test_small_files_become_one_in_the_order_of_the_topic(table):
    for number in range(6):
        append(table, topic_rows(20 * number, 20), columns=TOPIC, number=number)
    told = []
    report = merge_small_files(table, progress=lambda done, todo: told.append((done, todo)))
    assert (report.files_before, report.files_after, report.rows) == (6, 1, 240)
    assert (report.merged_files, report.written_files) == (6, 1)
    assert told[0] == (0, report.bytes_read)
    assert told[-1] == (report.bytes_read, report.bytes_read)
    found = [(row["partition"], row["offset"]) for row in rows_by_others(table)]
    assert found == [(part, each) for part in range(2) for each in range(120)]
    assert last_number(table, "query") == 5
    assert append(table, topic_rows(0, 20), columns=TOPIC, number=5) is False
    assert merge_small_files(table).merged_files == 0
    assert not leftovers(table)


def test_merging_keeps_partitions_and_columns_apart(table):
    for number in range(3):
        append(table, parted_rows(), columns=PARTED, partition_by=("day", "place"), number=number)
    wider = columns(id=LongType(), day=DateType(), place=StringType(), more=StringType())
    extra = {"id": 99, "day": DAYS[0], "place": None, "more": "x"}
    append(table, [extra], columns=wider, number=3)
    before = describe_table(table)
    report = merge_small_files(table)
    assert (before.file_count, report.files_before, report.files_after) == (25, 25, 8)
    after = describe_table(table)
    assert (after.file_count, after.row_count, after.schema) == (8, 121, wider)
    if table.format != "parquet":
        found = Counter(
            (row["id"], row["day"], row["place"], row["more"]) for row in rows_by_others(table)
        )
        expected = Counter(
            {(row["id"], row["day"], row["place"] or None, None): 3 for row in parted_rows()}
        ) + Counter([(99, DAYS[0], None, "x")])
        assert found == expected


def test_files_that_are_large_enough_are_left_alone(table):
    for number in range(4):
        append(table, topic_rows(1000 * number, 1000), columns=TOPIC, number=number)
    size = max(each.stat().st_size for each in visible_files(table.path))
    assert merge_small_files(table, target_bytes=size).merged_files == 0
    report = merge_small_files(table, target_bytes=round(size * 2.5))
    assert (report.files_before, report.files_after) == (4, 2)
    assert ids_by_others(table) == Counter(range(8000))


def test_what_was_overwritten_while_it_was_merged_stays_overwritten(table):
    for number in range(3):
        append(table, ids(range(10)), number=number)

    def overwrite(_done, _todo):
        append(table, ids([7]), number=3, is_overwrite=True)

    report = merge_small_files(table, progress=overwrite)
    assert report.merged_files == 0
    assert ids_by_others(table) == Counter([7])
    assert not leftovers(table)


def test_a_merge_that_is_killed_at_any_point_changes_no_row(table):
    for number in range(3):
        append(table, topic_rows(20 * number, 20), columns=TOPIC, number=number)
    kept, files = maintenance._small_first(table)
    maintenance._rewrite(table, kept, files, 1 << 20)  # killed before the commit
    assert ids_by_others(table) == Counter(range(120))
    assert vacuum(table, older_than_s=-1).files == 1
    made = maintenance._rewrite(table, kept, files, 1 << 20)
    with opened(table) as store:  # killed right after the commit, before it cleaned up
        store.apply(Change(kept.schema, made, store.files(), is_rearranged=True))
    assert vacuum(table, older_than_s=-1).files == 0
    assert ids_by_others(table) == Counter(range(120))
    assert describe_table(table).file_count == 1
    assert not leftovers(table)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_what_others_have_merged_in_the_meantime_is_not_merged_again(tmp_path, table_format):
    table = lake_table(table_format, tmp_path / "lake" / "orders")
    for number in range(3):
        append(table, ids(range(10 * number, 10 * number + 10)), number=number)
    kept, files = maintenance._small_first(table)
    ours, theirs = (maintenance._rewrite(table, kept, files, 1 << 20) for _ in range(2))
    with opened(table) as store, closing(open_store(table)) as other:  # who holds no lock of ours
        change = Change(kept.schema, ours, store.files(), is_rearranged=True)
        other.apply(Change(kept.schema, theirs, other.files(), is_rearranged=True))
        with pytest.raises(LakeError, match="others have replaced 3 files"):
            store.apply(change)
    assert ids_by_others(table) == Counter(range(30))


def test_rows_are_added_whatever_others_have_added_in_the_meantime(table):
    schema, ours = staged(table, ids([1]))
    _, theirs = staged(table, ids([2]), series="another")
    with opened(table) as store, closing(open_store(table)) as other:
        store.columns()
        other.apply(Change(schema, theirs, series="another"))
        store.apply(Change(schema, ours, series="query"))
        assert store.last_number("query") == 0
    assert ids_by_others(table) == Counter([1, 2])
    assert (last_number(table, "query"), last_number(table, "another")) == (0, 0)


def test_a_task_that_runs_out_of_disk_leaves_nothing_behind(table):
    class Full(io.FileIO):
        def write(self, data):
            if self.tell() + len(data) > 1000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    class FullDisk(Staging):
        def begin(self, folder, name):
            path = super().begin(folder, name)
            return SimpleNamespace(open=lambda mode: Full(path, mode))

    rows = pa.record_batch({"id": list(range(1000))})
    staging, attempt = FullDisk(table), Attempt("query", 0, 0, 0)
    writer = PartitionedWriter(
        staging, attempt, rows.schema, target_bytes=1 << 20, compression="none"
    )
    writer.add(rows)
    with pytest.raises(OSError, match="No space left"):
        writer.finish()
    writer.discard()
    assert not list(staging.folder.iterdir())
    assert not visible_files(table.path)


def test_a_delta_table_with_rules_that_would_be_broken_is_left_alone(tmp_path):
    def made(name):
        table = lake_table("delta", tmp_path / name)
        append(table, ids([1]))
        return table, deltalake.DeltaTable(str(table.path))

    checked, delta = made("checked")
    delta.alter.add_constraint({"young": "id < 5"})
    with pytest.raises(LakeError, match=r"delta\.constraints\.young, which .* does not support"):
        append(checked, ids([8]), number=1)
    fixed, delta = made("fixed")
    delta.alter.set_table_properties({"delta.appendOnly": "true"})
    append(fixed, ids([2]), number=1)
    with pytest.raises(LakeError, match=r"delta\.appendOnly, which .* does not support"):
        append(fixed, ids([8]), number=2, is_overwrite=True)
    mapped = lake_table("delta", tmp_path / "mapped")
    deltalake.DeltaTable.create(
        str(mapped.path),
        pa.schema([("id", pa.int64())]),
        configuration={"delta.columnMapping.mode": "name"},
    )
    with pytest.raises(LakeError, match=r"columnMapping, which .* does not support"):
        append(mapped, ids([8]))
    assert [ids_by_others(each) for each in (checked, fixed)] == [Counter([1]), Counter([1, 2])]


def test_partition_values_that_folders_do_not_tell_are_not_guessed(tmp_path):
    table = lake_table("delta", tmp_path)
    reading._check_folders(table, [LiveFile("day=1/x.parquet", 1, 1, {"day": "1"})])
    with pytest.raises(LakeError, match="read it with the engine that wrote it"):
        reading._check_folders(table, [LiveFile("x.parquet", 1, 1, {"day": "1"})])


# --- What is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("other", FORMATS)
def test_a_table_of_another_format_is_not_written_to(table, other):
    if other == table.format:
        return
    append(lake_table(other, table.path), ids([1]))
    with pytest.raises(LakeError, match=f"holds a table of the format {other}: write to it with"):
        append(table, ids([2]))
    assert ids_by_others(lake_table(other, table.path)) == Counter([1])


def test_a_folder_of_something_else_is_left_as_it_is(table):
    table.path.mkdir(parents=True)
    (table.path / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match="holds files that are no table of goqueue_lake"):
        append(table, ids([1]))
    assert [each.name for each in table.path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("place", ["a file/below", "/proc/goqueue/table"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_folder_that_cannot_be_written_to_is_named_with_the_user(tmp_path, table_format, place):
    (tmp_path / "a file").write_text("")
    path = tmp_path / place  # an absolute one stays as it is
    with pytest.raises(LakeError) as caught:
        append(lake_table(table_format, path), ids([1]))
    text = str(caught.value)
    assert f"cannot write to the table at {path}" in text
    assert "This process runs as the user" in text
    assert "let that user write to the folder, or choose another path" in text


@pytest.mark.parametrize(
    ("table_format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg.catalog")]
)
def test_a_missing_library_is_named_with_what_to_install(
    tmp_path, monkeypatch, table_format, package
):
    monkeypatch.delitem(sys.modules, f"goqueue.spark.lake.{table_format}_store", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LakeError, match=r"pip install 'goqueue\[lake\]'"):
        open_store(lake_table(table_format, tmp_path))


def test_an_iceberg_table_of_another_catalogue_is_not_made_anew(tmp_path):
    table = lake_table("iceberg", tmp_path / "a" / "orders")
    append(table, ids([1]))
    (tmp_path / "a" / "catalog.db").unlink()
    with pytest.raises(LakeError, match=r"is not default.orders of this catalogue"):
        append(table, ids([2]))


def test_a_catalogue_and_a_name_can_be_given(tmp_path):
    uri = f"sqlite:///{tmp_path}/elsewhere.db"
    catalog = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}", "name": "goqueue"}
    table = lake_table("iceberg", tmp_path / "orders", table="shop.orders", catalog=catalog)
    append(table, ids(range(3)))
    with closing(open_store(table)) as store:
        assert [each.rows for each in store.files()] == [3]
    assert not (tmp_path / "catalog.db").exists()
    moved = lake_table("iceberg", tmp_path / "other", table="shop.orders", catalog=catalog)
    with pytest.raises(LakeError, match=r"is at .*orders, not at .*other"):
        append(moved, ids([1]))


def test_all_options_that_make_no_sense_are_named():
    with pytest.raises(OptionsError) as caught:
        parse_lake_options(
            {
                "tableFormat": "orc",
                "path": "s3://bucket/orders",
                "compression": "rar",
                "targetFileBytes": "3",
                "txnAppId": "x",
                "partitionedBy": "day",
                "catalog.uri": "sqlite://",
            },
            "batch",
        )
    text = str(caught.value)
    for problem in (
        "tableFormat: expected parquet or delta or iceberg, not 'orc'",
        "path: expected a folder that the driver and all executors share, not 's3://bucket/orders'",
        "compression: expected zstd",
        "targetFileBytes: expected 65536 to",
        "txnAppId and txnVersion belong together",
        "unknown option partitionedby; did you mean partitionBy?",
        "only Iceberg tables have a name and a catalogue",
    ):
        assert problem in text


def test_options_of_a_table_lead_back_to_it(tmp_path):
    table = lake_table("Iceberg", f"file://{tmp_path}/a", table="b.c", catalog={"uri": "d"})
    assert parse_lake_options(table.options(), "stream").table == table
    assert table.path == tmp_path / "a"
