"""Which kind of table an address means, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.lake.address import check_format

if TYPE_CHECKING:
    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.lake.stores import Store


def open_store(table: LakeTable) -> Store:
    """The table at an address.

    Raises:
        LakeError: another one is there, or a library is missing.
    """
    check_format(table)
    if table.format == "delta":
        from goqueue.spark.lake.delta_store import DeltaStore  # noqa: PLC0415 - heavy

        return DeltaStore(table)
    if table.format == "iceberg":
        from goqueue.spark.lake.iceberg_store import IcebergStore  # noqa: PLC0415 - heavy

        return IcebergStore(table)
    from goqueue.spark.lake.parquet_store import ParquetStore  # noqa: PLC0415 - as its siblings

    return ParquetStore(table)
