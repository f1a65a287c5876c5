"""An Iceberg table through pyiceberg: files count once a snapshot names them.

The last batch of each query is a property of the table, set by the commit that brings the snapshot,
so that it outlives the snapshot. The snapshot says it, too, for those who look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.errors import LakeError
from goqueue.spark.lake.partitions import values_of
from goqueue.spark.lake.shape import arrow_schema, from_arrow
from goqueue.spark.lake.staging import Staging
from goqueue.spark.lake.stores import Change, Columns, LiveFile, Store, check_there

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchTableError,
        NotInstalledError,
        ValidationException,
    )
    from pyiceberg.io.pyarrow import parquet_files_to_data_files
    from pyiceberg.table import Table, TableProperties
    from pyiceberg.transforms import IdentityTransform
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:
    raise LakeError(
        "Iceberg tables need the package pyiceberg: pip install 'goqueue[lake]', for the Python of "
        "the driver"
    ) from error

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.spark.lake.address import LakeTable

PROPERTY: Final = "goqueue.txn."
_TRIES: Final = 5
"""Of a commit that others got in front of."""


class IcebergStore(Store):
    """A table in a catalogue, with its files in a folder."""

    data_folder = "data"
    keeps_partition_columns = True

    def __init__(self, table: LakeTable) -> None:
        self._table: Final = table
        self.staging: Staging = Staging(table)
        self._catalog: Catalog | None = None

    def columns(self) -> Columns | None:
        table = self._load()
        if table is None:
            return None
        schema = from_arrow(table.schema().as_arrow(), "iceberg")
        return Columns(schema, tuple(self._partition_columns(table)))

    def create(self, columns: Columns) -> None:
        catalog = self._opened()
        namespace, _, _ = self._table.identifier.rpartition(".")
        catalog.create_namespace_if_not_exists(namespace)
        with (
            catalog.create_table_transaction(
                self._table.identifier,
                arrow_schema(columns.schema),
                location=_address(self._table.path),
                properties=_BOUNDED,
            ) as creation,
            creation.update_spec() as spec,
        ):
            for name in columns.partition_by:
                spec.add_identity(name)

    def last_number(self, series: str) -> int | None:
        table = self._load()
        found = None if table is None else table.properties.get(f"{PROPERTY}{series}")
        return None if found is None else int(found)

    def files(self) -> list[LiveFile]:
        table = self._load()
        return [] if table is None else self._live_files(table)

    def apply(self, change: Change) -> None:
        for left in reversed(range(_TRIES)):
            table = self._load()
            if table is None:
                raise LakeError(f"{self._table} is gone")
            if change.removes:
                check_there(self._table, change, self._live_files(table))
            try:
                self._commit(table, change)
            except (CommitFailedException, ValidationException) as error:
                if not left:
                    raise LakeError(
                        f"{self._table}: others have committed {_TRIES} times in between: {error}"
                    ) from error
            else:
                return

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _commit(self, table: Table, change: Change) -> None:
        properties = _properties(change)
        with table.transaction() as transaction:
            known = {each.name for each in table.schema().fields}
            new = [each for each in arrow_schema(change.schema) if each.name not in known]
            if new:
                with transaction.update_schema() as update:
                    update.union_by_name(arrow_schema(change.schema))
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            if transaction.table_metadata.properties.get(_MAPPING) != mapping:
                properties[_MAPPING] = mapping
            if properties:
                transaction.set_properties(properties)
            added = parquet_files_to_data_files(
                table.io,
                transaction.table_metadata,
                iter([_address(self._table.path / each.path) for each in change.adds]),
            )
            snapshot = transaction.update_snapshot(snapshot_properties=_summary(change))
            with snapshot.overwrite() if change.removes else snapshot.merge_append() as producer:
                for each in change.removes:
                    producer.delete_data_file(each.native)
                for file in added:
                    producer.append_data_file(file)

    def _live_files(self, table: Table) -> list[LiveFile]:
        return [self._live(task) for task in table.scan().plan_files()]

    def _live(self, task: Any) -> LiveFile:
        if task.delete_files:
            raise LakeError(
                f"{self._table} has deletes that are kept beside its files; goqueue_lake does not "
                "read them: let the engine that wrote them rewrite the files"
            )
        file = task.file
        place = _place(file.file_path)
        if not place.startswith(f"{self._table.path}/"):
            raise LakeError(f"{self._table} has a file elsewhere, which is not read: {place}")
        path = place.removeprefix(f"{self._table.path}/")
        folder, _, _ = path.rpartition("/")
        values = values_of(folder)
        if not values and len(file.partition):  # others name their folders otherwise
            values = {"partition": str(file.partition)}
        return LiveFile(path, file.file_size_in_bytes, file.record_count, values, file)

    def _partition_columns(self, table: Table) -> list[str]:
        names = []
        for each in table.spec().fields:
            if not isinstance(each.transform, IdentityTransform):
                raise LakeError(
                    f"{self._table} is partitioned by {each.transform} of a column: goqueue_lake "
                    "writes partitions by the values of columns only"
                )
            names.append(table.schema().find_column_name(each.source_id) or each.name)
        return names

    def _load(self) -> Table | None:
        try:
            table = self._opened().load_table(self._table.identifier)
        except NoSuchTableError:
            self._check_unknown()
            return None
        if _place(table.location()) != str(self._table.path):
            raise LakeError(
                f"the Iceberg table {self._table.identifier} is at {table.location()}, not at "
                f"{self._table.path}: say that path, or another name with the option table"
            )
        return table

    def _check_unknown(self) -> None:
        """A table that another catalogue knows is not made a second time."""
        later = [
            each.name
            for each in (self._table.path / "metadata").glob("*.metadata.json")
            if not each.name.startswith("00000-")
        ]
        if later:
            raise LakeError(
                f"{self._table.path} holds an Iceberg table that is not {self._table.identifier} "
                "of this catalogue: name it and its catalogue with the options table and catalog.*"
            )

    def _opened(self) -> Catalog:
        if self._catalog is None:
            said = dict(self._table.catalog)
            name = said.pop("name", "goqueue")
            try:
                self._catalog = load_catalog(name, **(said or self._beside()))
            except (NotInstalledError, SQLAlchemyError) as error:
                raise LakeError(
                    f"the catalogue of {self._table} cannot be opened: {error}"
                ) from error
        return self._catalog

    def _beside(self) -> dict[str, str]:
        warehouse = self._table.path.parent
        warehouse.mkdir(parents=True, exist_ok=True)
        return {
            "type": "sql",
            "uri": f"sqlite:///{warehouse / 'catalog.db'}",
            "warehouse": _address(warehouse),
        }


_BOUNDED: Final = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
}
"""A stream commits often: old versions of the metadata do not pile up."""
_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING


def _address(path: Path) -> str:
    """As Iceberg's readers take it: nothing in it is escaped."""
    return f"file://{path}"


def _place(address: str) -> str:
    return "/" + address.removeprefix("file:").strip("/") if address[:1] != "/" else address


def _properties(change: Change) -> dict[str, str]:
    return {} if change.series is None else {f"{PROPERTY}{change.series}": str(change.number)}


def _summary(change: Change) -> dict[str, str]:
    if change.series is None:
        return {"goqueue.merged": "true"} if change.is_rearranged else {}
    return {"goqueue.query": change.series, "goqueue.batch": str(change.number)}
