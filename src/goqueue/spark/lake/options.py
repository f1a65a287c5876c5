"""What a write to a table asks for: Spark's options, read once, all problems reported together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.spark.errors import OptionsError
from goqueue.spark.lake.address import CATALOG_PREFIX, FORMATS, LakeTable, lake_table
from goqueue.spark.options.option_reader import OptionReader
from goqueue.spark.options.write_options import Mode, application_of

if TYPE_CHECKING:
    from collections.abc import Mapping

LAKE_OPTIONS: Final = (
    "tableFormat",
    "path",
    "table",
    "partitionBy",
    "targetFileBytes",
    "compression",
    "txnAppId",
    "txnVersion",
)
_UNNEEDED: Final = ("checkpointLocation", "queryName")
DEFAULT_TARGET_BYTES: Final = 128 << 20
_TARGET_BYTES: Final = (64 << 10, 16 << 30)
_COMPRESSIONS: Final = {name: name for name in ("zstd", "snappy", "gzip", "lz4", "none")}


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """One write, as its options describe it."""

    table: LakeTable
    partition_by: tuple[str, ...] | None = None
    """None: as the table is; a new one is not partitioned."""
    target_bytes: int = DEFAULT_TARGET_BYTES
    compression: str = "zstd"
    application: tuple[str, int] | None = None
    """Who writes and its how manieth write it is, so that the same one is not done twice."""


def parse_lake_options(options: Mapping[str, str], mode: Mode) -> LakeOptions:
    """The options of a write.

    Raises:
        OptionsError: with every problem that there is.
    """
    catalog, others = _split(options)
    reader = OptionReader(others, LAKE_OPTIONS, ignored=_UNNEEDED)
    table_format = reader.choice("tableFormat", FORMATS, "parquet")
    table = None
    try:
        table = lake_table(
            table_format, reader.text("path") or "", table=reader.text("table"), catalog=catalog
        )
    except OptionsError as error:
        for each in error.problems:
            reader.problem(each)
    partition_by = reader.names("partitionBy") if reader.text("partitionBy") else None
    target_bytes = reader.bounded("targetFileBytes", DEFAULT_TARGET_BYTES, _TARGET_BYTES)
    compression = reader.choice("compression", _COMPRESSIONS, "zstd")
    application = application_of(reader, mode)
    reader.finish()
    assert table is not None
    return LakeOptions(table, partition_by, target_bytes, compression, application)


def _split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    catalog, others = {}, {}
    for name, value in options.items():
        if name.lower().startswith(CATALOG_PREFIX):
            catalog[name[len(CATALOG_PREFIX) :]] = value
        else:
            others[name] = value
    return catalog, others
