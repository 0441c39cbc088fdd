"""Decodes keys and values: bytes → text or a struct; and marks records that cannot be decoded.

Until they are split off, decoded rows have three more columns: RAW and RAW_KEY, the original value and key,
and REASON, which is null for a row that was decoded.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType, _parse_datatype_string

from ottla.model.errors import ConfigError
from ottla.schemas.decoded import Decoder
from ottla.schemas.json_values import reason
from ottla.schemas.msgpack import MsgpackDecoder
from ottla.schemas.registry import schemas_at
from ottla.spark import typed
from ottla.spark.pipeline.decode_form import Decode, Decoding
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.source_form import SourceForm
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

RAW, RAW_KEY, REASON = "_raw", "_raw_key", "_reason"
_CORRUPT = "_corrupt_record"
_SAMPLED = 1000
_SHOWN = 200


def decoded(records: DataFrame, decode: Decode, *, keeps_refused: bool) -> DataFrame:
    """Return the rows with decoded keys and values.

    A record that cannot be decoded ends the query with its partition, offset and reason, unless refused
    records are kept.
    """
    rows = records.withColumn(RAW, F.col("value")).withColumn(RAW_KEY, F.col("key"))
    rows = rows.withColumn(REASON, F.lit(None).cast("string"))
    for name, how in (("key", decode.of_key()), ("value", decode)):
        rows = _with_column(rows, name, how)
    if keeps_refused or not decode.can_fail:
        return rows
    record_name = F.concat(
        F.col("topic"), F.lit("-"), "partition", F.lit(" at offset "), "offset", F.lit(": ")
    )
    message = F.concat(record_name, REASON, F.lit("; it is "), F.substring(_text(F.col(RAW)), 1, _SHOWN))
    return rows.withColumn(
        "value", F.when(F.col(REASON).isNotNull(), F.raise_error(message)).otherwise(F.col("value"))
    )


def _text(column: Column) -> Column:
    """Bytes as text; what is not UTF-8 becomes U+FFFD, since a table with such text cannot be read."""
    return F.make_valid_utf8(column.cast("string"))


def _with_column(rows: DataFrame, name: str, decode: Decode) -> DataFrame:
    """The rows with one decoded column; a reason is added where there was none."""
    column = F.col(name)
    if decode.format is Decoding.BINARY:
        return rows
    if decode.format is Decoding.STRING:
        return rows.withColumn(name, _text(column))
    where = "" if name == "value" else f"{name}: "
    if decode.format in {Decoding.JSON, Decoding.CSV}:
        return _with_text(rows, name, decode, where)
    made = "_made"
    rows = rows.withColumn(made, typed.with_reason(column, decoder_of(decode)))
    reason = F.when(F.col(f"{made}.reason").isNotNull(), F.concat(F.lit(where), f"{made}.reason"))
    rows = rows.withColumn(name, F.col(f"{made}.value")).withColumn(REASON, F.coalesce(F.col(REASON), reason))
    return rows.drop(made)


def _with_text(rows: DataFrame, name: str, decode: Decode, where: str) -> DataFrame:
    """Decoded by Spark itself. The exact reason is found later, for refused records only."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    given, text = F.col(name), _text(F.col(name))
    schema = f"{decode.schema}, {_CORRUPT} string"
    parse = F.from_json if decode.format is Decoding.JSON else F.from_csv
    rows = rows.withColumn("_given", given).withColumn(name, parse(text, schema, options))
    refused = F.col("_given").isNotNull() & (F.col(name).isNull() | F.col(f"{name}.{_CORRUPT}").isNotNull())
    reason = F.when(refused, F.lit(f"{where}not {decode.format.upper()} with the fields {decode.schema}"))
    rows = rows.withColumn(REASON, F.coalesce(F.col(REASON), reason)).drop("_given")
    return rows.withColumn(name, F.col(name).dropFields(_CORRUPT))


def explained(decode: Decode) -> Column:
    """The reason of a refused record: field, position and text where they can be told."""
    if decode.format is not Decoding.JSON or not decode.schema:
        return F.col(REASON)
    kind = to_arrow_type(_parse_datatype_string(decode.schema), timezone="UTC")

    def tell(values: pa.Array) -> pa.Array:
        reasons = [None if value is None else reason(value, kind) for value in values.to_pylist()]
        return pa.array(reasons, pa.string())

    exact_reason = typed.arrow_function(tell, "string")(F.col(RAW))
    return F.when(
        F.startswith(F.col(REASON), F.lit("not JSON")), F.coalesce(exact_reason, F.col(REASON))
    ).otherwise(F.col(REASON))


def decoder_of(decode: Decode) -> Decoder:
    """The decoder that runs in the executors. Raises ConfigError."""
    registry_form = decode.registry
    registry = (
        schemas_at(
            registry_form.url,
            username=registry_form.username,
            password=registry_form.password,
            token=registry_form.token,
        )
        if registry_form.url
        else ""
    )
    if decode.format is Decoding.AVRO:
        schema = decode.schema or (_file(decode.schema_file).decode() if decode.schema_file else "")
        return typed.avro_decoder(schema, registry, decode.subject, decode.skip_bytes)
    if decode.format is Decoding.PROTOBUF:
        data = _file(decode.schema_file) if decode.schema_file else b""
        return typed.protobuf_decoder(decode.message, data, registry, decode.subject, decode.skip_bytes)
    return MsgpackDecoder(to_arrow_type(_parse_datatype_string(decode.schema), timezone="UTC"))


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"[decode] schema_file={path}: {error}") from None


# --- JSON whose schema is not given


def with_schemas(form: PipelineForm, spark: SparkSession, state: PipelineState | None) -> list[Decode]:
    """Each source's decoding with its schema: given, in the checkpoint, or inferred and stored now.

    Raises ConfigError.
    """
    return [_with_schema(source, spark, state) for source in form.sources]


def _with_schema(source: SourceForm, spark: SparkSession, state: PipelineState | None) -> Decode:
    decode = source.decode
    if not decode.is_inferred:
        return decode
    if state is None:
        raise ConfigError(
            "[decode] json without a schema: it is inferred once and kept in the checkpoint; give one of them"
        )
    schema = state.schema(source.name)
    if schema is None:
        schema = state.pin_schema(_inferred(source, spark), source.name)
        log.info("values are %s from now on, says %s", schema, state.url)
    return replace(decode, schema=schema)


def schemas_now(form: PipelineForm, spark: SparkSession, state: PipelineState | None) -> list[Decode]:
    """Each source's decoding with its schema, inferred if it must be, and stored nowhere."""
    return [
        replace(
            source.decode,
            schema=(state.schema(source.name) if state is not None else None) or _inferred(source, spark),
        )
        if source.decode.is_inferred
        else source.decode
        for source in form.sources
    ]


def _inferred(source: SourceForm, spark: SparkSession) -> str:
    options = {
        name: value
        for name, value in source.options.items()
        if not name.lower().startswith(("starting", "ending", "max", "min"))
    }
    records = spark.read.format("ottla").options(**options).option("columns", "value").load()
    rows = records.where("value is not null").limit(_SAMPLED).selectExpr("cast(value as string)").collect()
    texts = spark.createDataFrame([(row[0],) for row in rows], "value string")
    given: Any = texts if is_remote(spark) else texts.rdd.map(lambda row: row[0])
    inferred = spark.read.json(given).schema
    fields = [field for field in inferred.fields if field.name != _CORRUPT]
    if not fields:
        raise ConfigError(f"[decode] json: none of {len(rows)} records shows a schema; give [decode] schema")
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in StructType(fields).fields)


def can_be_refused(form: PipelineForm) -> bool:
    """Whether a record may fail to decode."""
    return form.dead_letters is not None and form.can_fail
