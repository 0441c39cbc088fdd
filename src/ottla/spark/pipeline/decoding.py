"""Decodes values: bytes → text or a struct; and marks records that cannot be decoded.

Until they are split off, decoded rows have two more columns: RAW, the original value, and REASON, which is
null for a row that was decoded.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.form import CAN_FAIL, Decode, Decoding, PipelineForm
from ottla.spark.pipeline.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

RAW, REASON = "_raw", "_reason"
_CORRUPT = "_corrupt_record"
_SOUND = "_sound"
_SAMPLED = 1000
_CLASSES = {
    Decoding.AVRO: "org.apache.spark.sql.avro.AvroDataToCatalyst",
    Decoding.PROTOBUF: "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst",
}


def decoded(records: DataFrame, decode: Decode, *, keeps_refused: bool) -> DataFrame:
    """The rows with decoded values.

    A record that cannot be decoded ends the query, unless refused ones are kept.
    """
    rows = records.withColumn(RAW, F.col("value")).withColumn(REASON, F.lit(None).cast("string"))
    if decode.format is Decoding.BINARY:
        return rows
    rows = rows.withColumn("key", F.col("key").cast("string"))
    if decode.format is Decoding.STRING:
        return rows.withColumn("value", F.col("value").cast("string"))
    mode = "PERMISSIVE" if keeps_refused else "FAILFAST"
    if decode.format is Decoding.JSON:
        return _with_json(rows, decode.schema, mode)
    check_class_path(records.sparkSession, decode.format)
    value = F.expr(f"substring(value, {decode.skip_bytes + 1})") if decode.skip_bytes else F.col("value")
    made = rows.withColumn("value", _from_bytes(value, decode, mode))
    # What cannot be decoded is null, or a struct of nulls; a sound one of Avro always has a field more.
    nothing = F.col("value").isNull() | (F.to_json(F.struct("value")).isin("{}", '{"value":{}}'))
    is_some = F.length(RAW) > decode.skip_bytes  # no bytes at all are a message of protobuf, with defaults
    refused = nothing & (is_some if decode.format is Decoding.PROTOBUF else F.col(RAW).isNotNull())
    reason = F.when(refused, F.lit(f"not {decode.format} of {decode.message or 'the schema'}"))
    made = made.withColumn(REASON, reason)
    is_marked = decode.format is Decoding.AVRO and isinstance(made.schema["value"].dataType, StructType)
    return made.withColumn("value", F.col("value").dropFields(_SOUND)) if is_marked else made


def _with_json(rows: DataFrame, schema: str, mode: str) -> DataFrame:
    text = F.col(RAW).cast("string")
    if mode == "FAILFAST":
        return rows.withColumn("value", F.from_json(text, schema, {"mode": mode}))
    options = {"mode": mode, "columnNameOfCorruptRecord": _CORRUPT}
    made = rows.withColumn("value", F.from_json(text, f"{schema}, {_CORRUPT} string", options))
    refused = F.col(RAW).isNotNull() & (F.col("value").isNull() | F.col(f"value.{_CORRUPT}").isNotNull())
    reason = F.when(refused, F.lit(f"not JSON with the fields {schema}"))
    return made.withColumn(REASON, reason).withColumn("value", F.col("value").dropFields(_CORRUPT))


def _from_bytes(value: Column, decode: Decode, mode: str) -> Column:
    if decode.format is Decoding.AVRO:
        from pyspark.sql.avro.functions import from_avro

        schema = decode.schema or _file(decode.schema_file).decode()
        return from_avro(value, schema, {"mode": mode, "avroSchema": marked(schema)})
    from pyspark.sql.protobuf.functions import from_protobuf

    descriptors = _file(decode.schema_file)
    return from_protobuf(value, decode.message, options={"mode": mode}, binaryDescriptorSet=descriptors)


def marked(schema: str) -> str:
    """The Avro reader schema with one more field, whose default is true. Raises ConfigError."""
    try:
        schema_json = json.loads(schema)
    except ValueError as error:
        raise ConfigError(f"[decode] schema of avro: JSON is wanted; {error}") from None
    if isinstance(schema_json, dict) and schema_json.get("type") == "record":
        schema_json["fields"] = [*schema_json["fields"], {"name": _SOUND, "type": "boolean", "default": True}]
    return json.dumps(schema_json)


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"[decode] schema_file={path}: {error}") from None


def check_class_path(spark: SparkSession, decoding: Decoding) -> None:
    """Raise ConfigError that names the missing Spark package: PySpark's wheel does not contain it."""
    jvm: Any = spark._jvm  # there is no other way to ask
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CLASSES[decoding])
    except Exception as error:  # Py4J's, for Java's ClassNotFoundException
        scala = jvm.scala.util.Properties.versionNumberString().rpartition(".")[0]
        package = f"org.apache.spark:spark-{decoding}_{scala}:{spark.version}"
        raise ConfigError(
            f"[decode] format={decoding} needs Spark's package {package}: give it with --packages to"
            " spark-submit or `ottla pipeline run`, or as spark.jars.packages before the session starts"
        ) from error


# --- JSON whose schema is not given


def with_schema(form: PipelineForm, spark: SparkSession, state: PipelineState | None) -> Decode:
    """The decoding with its schema: the given one, the one in the checkpoint, or one inferred and stored now.

    Raises ConfigError.
    """
    decode = form.decode
    if not decode.is_inferred:
        return decode
    if state is None:
        raise ConfigError(
            "[decode] json without a schema: it is inferred once and kept in the checkpoint; give one of them"
        )
    schema = state.schema()
    if schema is None:
        schema = state.pin_schema(_inferred(form, spark))
        log.info("values are %s from now on, says %s", schema, state.path)
    return Decode(decode.format, schema)


def schema_now(form: PipelineForm, spark: SparkSession, state: PipelineState | None) -> Decode:
    """The decoding with its schema, inferred if it must be, and stored nowhere."""
    decode = form.decode
    if not decode.is_inferred:
        return decode
    return Decode(decode.format, (state.schema() if state is not None else None) or _inferred(form, spark))


def _inferred(form: PipelineForm, spark: SparkSession) -> str:
    options = {
        name: value
        for name, value in form.source.items()
        if not name.lower().startswith(("starting", "ending", "max", "min"))
    }
    records = spark.read.format("ottla").options(**options).option("columns", "value").load()
    rows = records.where("value is not null").limit(_SAMPLED).selectExpr("cast(value as string)").collect()
    texts = spark.createDataFrame([(row[0],) for row in rows], "value string")
    inferred = spark.read.json(texts.rdd.map(lambda row: row[0])).schema
    fields = [field for field in inferred.fields if field.name != _CORRUPT]
    if not fields:
        raise ConfigError(f"[decode] json: none of {len(rows)} records tells a schema; give [decode] schema")
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in StructType(fields).fields)


def can_be_refused(form: PipelineForm) -> bool:
    """Whether a record may fail to decode."""
    return form.dead_letters is not None and (form.decode.format in CAN_FAIL or bool(form.transform.arrow))
