"""format("ottla"): the classes that Spark calls. They decide nothing themselves.

Spark creates these objects in short-lived processes on the driver, pickles them, and calls `read` and `write`
in the executors. So they hold checked options and nothing that is open. Most of those processes only ask for
the schema; readers and writers are therefore imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.model.errors import ConfigError
from ottla.spark.columns import HEADERS, chosen
from ottla.spark.options import SOURCE_OPTIONS, Given, parse_options

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(HEADER),
}


class OttlaDataSource(DataSource):
    """Topics as tables and streams, with the schema of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ottla"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns`."""
        return schema_of(parse_options(SOURCE_OPTIONS, self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        from ottla.spark.readers import TopicReader
        from ottla.spark.source_options import Mode, source_options

        options = source_options(self.options, Mode.BATCH)
        return TopicReader(options, arrow_schema(schema, has_headers=options.fetch.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a streaming query."""
        from ottla.spark.readers import TopicStreamReader
        from ottla.spark.source_options import Mode, source_options

        options = source_options(self.options, Mode.STREAM)
        return TopicStreamReader(options, arrow_schema(schema, has_headers=options.fetch.include_headers))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """The writer of a batch query."""
        from ottla.spark.writer import TopicWriter, sink_options

        if overwrite:
            raise ConfigError("mode overwrite: a topic cannot be overwritten; use mode append")
        return TopicWriter(sink_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """The writer of a streaming query. In every output mode, each row becomes a new record."""
        from ottla.spark.writer import TopicStreamWriter, sink_options

        del overwrite
        return TopicStreamWriter(sink_options(self.options, schema, is_stream=True))


def schema_of(given: Given) -> StructType:
    """The table's schema, as the options includeHeaders and columns define it."""
    return struct_of(chosen(given.values["columns"], has_headers=given.values["includeHeaders"]))


def struct_of(names: Iterable[str]) -> StructType:
    """A schema of these columns."""
    return StructType([StructField(name, TYPES[name]) for name in names])


def arrow_schema(schema: StructType, *, has_headers: bool) -> pa.Schema:
    """The Arrow schema that executors produce, for our schema or one given by .schema(…). Raises ConfigError.

    A given schema may leave columns out and declare some as never null; nothing else.
    """
    for field in schema.fields:
        wanted = TYPES.get(field.name)
        if wanted is None:
            raise ConfigError(f"column {field.name!r} is not in a topic; there are {', '.join(TYPES)}")
        if field.dataType != wanted:
            given, right = field.dataType.simpleString(), wanted.simpleString()
            raise ConfigError(f"column {field.name} is {right}, not {given}: cast it in the query")
        if field.name == HEADERS and not has_headers:
            raise ConfigError("the schema has headers: set includeHeaders to true as well")
    return to_arrow_schema(schema, timezone="UTC")
