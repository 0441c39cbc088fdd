"""Iceberg tables by their catalog: one of pyiceberg's, or none but numbered metadata files in a directory.

    PATH/metadata/v17.metadata.json     a version of the table; the next one appears only if there is none
    PATH/metadata/version-hint.text     17, or a little less

That is how the file-system tables of Iceberg's specification look, which Spark's and Flink's Hadoop catalog,
DuckDB and StaticTable of pyiceberg read. Versions are never removed, so a writer that was suspended finds its
number taken. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.transforms import IdentityTransform

from ottla.model.errors import ConfigError
from ottla.spark.locations import AZURE, HDFS, Location, location, scheme_of
from ottla.spark.object_store import iceberg_settings

_HINT = "metadata/version-hint.text"
_FIRST_PARTITION_FIELD = 1000


class FileCatalog(NoopCatalog):
    """The one table of a location."""

    def __init__(self, where: Location) -> None:
        super().__init__("files")
        self._where = where
        self.url = f"file://{Path(where.url).absolute()}" if where.is_directory else where.url
        self._io = load_file_io(_settings(self.url), self.url)

    def load_table(self, identifier: Any) -> Table:
        """The newest version."""
        version, content = self._newest()
        if not version:
            raise NoSuchTableError(f"{self._where.url} is no Iceberg table")
        metadata = TableMetadataUtil.parse_raw(content.decode())
        return Table(identifier, metadata, f"{self.url}/{_version_path(version)}", self._io, self)

    def create(self, schema: Schema, spec: PartitionSpec, properties: dict[str, str]) -> None:
        """Make the table, unless another writer was faster."""
        metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, self.url, properties)
        self._store(1, metadata)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Add a version. Raises CommitFailedException if the table has changed since it was read."""
        current = self.load_table(table.name())
        for requirement in requirements:
            requirement.validate(current.metadata)
        metadata = update_table_metadata(
            current.metadata, updates, metadata_location=current.metadata_location
        )
        version = _version_of(current.metadata_location) + 1
        if not self._store(version, metadata):
            raise CommitFailedException(f"{self.url}: another writer has made version {version}")
        return CommitTableResponse(
            metadata=metadata, **{"metadata-location": f"{self.url}/{_version_path(version)}"}
        )

    def _store(self, version: int, metadata: TableMetadata) -> bool:
        content = metadata.model_dump_json(exclude_none=True, by_alias=True).encode()
        is_first = self._where.create(_version_path(version), content)
        if is_first:
            self._where.put(_HINT, str(version).encode())
        return is_first

    def _newest(self) -> tuple[int, bytes]:
        """Return the newest version and its number; 0 if there is none. The hint may be behind."""
        hint = self._where.read(_HINT)
        number = int(hint.content) if hint and hint.content.strip().isdigit() else 1
        version, content = 0, b""
        while stored := self._where.read(_version_path(number)):
            version, content = number, stored.content
            number += 1
        return version, content


def _version_path(version: int) -> str:
    return f"metadata/v{version}.metadata.json"


def _version_of(metadata_location: str) -> int:
    return int(metadata_location.rpartition("/v")[2].removesuffix(".metadata.json"))


class _ObstoreHandler(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """Files of obstore, each put in one request. Its own writer accepts no buffers of pyarrow."""

    def open_output_stream(self, path: str, _metadata: Any) -> pa.PythonFile:
        return pa.PythonFile(_PutFile(self.fs, path), mode="w")


class _PutFile(BytesIO):
    def __init__(self, store: Any, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            self._store.pipe_file(self._path, self.getvalue())
        super().close()


class StoreFileIO(PyArrowFileIO):
    """pyiceberg's files in HDFS and Azure, with the libraries that write all other files there.

    Through pyarrow, HDFS needs Java, and a URL of Azure must not name its account.
    """

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if scheme == HDFS:
            from hdfs_native.fsspec import HdfsFileSystem

            host, _, port = (netloc or "").partition(":")
            return PyFileSystem(FSSpecHandler(HdfsFileSystem(host, int(port) if port else None)))
        if scheme in AZURE:
            from obstore.fsspec import FsspecStore

            return PyFileSystem(_ObstoreHandler(FsspecStore(cast("Any", scheme))))
        return super()._initialize_fs(scheme, netloc)


def _settings(url: str) -> dict[str, str]:
    if scheme_of(url) in (HDFS, *AZURE):
        return {PY_IO_IMPL: f"{StoreFileIO.__module__}.{StoreFileIO.__name__}"}
    return iceberg_settings(url)


class NamedTable:
    """A table by its name in a catalog, or by its location. Holds a connection to its catalog."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        self._name = options.get("table", "")
        self._catalog: Catalog
        if "catalog" not in options:
            if options or not url:
                raise ConfigError("format=iceberg needs a path, or the options catalog and table")
            self.shown = url
            self._catalog = FileCatalog(location(url))
            return
        if self._name.count(".") < 1:
            raise ConfigError(f"table={self._name!r}: the name in a catalog is wanted, as shop.orders")
        self.shown = f"{options['catalog']}: {self._name}"
        rest = {name: value for name, value in options.items() if name not in ("catalog", "table")}
        settings = {**_settings(rest.get("warehouse", url)), **rest}
        try:
            self._catalog = load_catalog(options["catalog"], **settings)
        except Exception as error:  # each kind of catalog raises errors of its own
            lines = str(error).splitlines() or [type(error).__name__]
            raise ConfigError(f"catalog={options['catalog']}: {lines[0]}") from error

    def load(self) -> Table | None:
        """The table as it is now; None if there is none."""
        try:
            return self._catalog.load_table(self._name or "table")
        except NoSuchTableError:
            return None

    def create(self, schema: pa.Schema, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """Make the table, unless there is one."""
        iceberg_schema = Catalog._convert_schema_if_needed(schema)
        if isinstance(self._catalog, FileCatalog):
            spec = _spec(iceberg_schema, partition_by)
            self._catalog.create(iceberg_schema, spec, dict(properties))
            return
        namespace = self._name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        try:
            with (
                self._catalog.create_table_transaction(
                    self._name, schema, location=self._url or None, properties=dict(properties)
                ) as transaction,
                transaction.update_spec() as update,
            ):
                for name in partition_by:
                    update.add_identity(name)
        except TableAlreadyExistsError:
            pass  # another writer was faster


def _spec(schema: Schema, partition_by: Sequence[str]) -> PartitionSpec:
    fields = [
        PartitionField(
            schema.find_field(name).field_id, _FIRST_PARTITION_FIELD + number, IdentityTransform(), name
        )
        for number, name in enumerate(partition_by)
    ]
    return PartitionSpec(*fields)
