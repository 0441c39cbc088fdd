"""from_avro, from_protobuf, from_json_schema: a column of bytes becomes a column with fields, without a jar.

    rows.select(ottla.spark.from_avro("value", registry="http://registry:8081", subject="orders-value"))

Values are decoded in the executors, Arrow in and Arrow out. With a registry they have Confluent's frame, and
each is read with the schema that it was written with, so schemas may change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from ottla.model.errors import ConfigError
from ottla.schemas.avro import AvroDecoder
from ottla.schemas.decoded import Decoder, Undecodable
from ottla.schemas.json_values import JsonDecoder, arrow_type
from ottla.schemas.protobuf import ProtobufDecoder, descriptors_of
from ottla.schemas.registry import Schemas, schemas_at

if TYPE_CHECKING:
    from pyspark.sql import Column

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"
VALUE, REASON = "value", "reason"


def from_avro(
    column: Column | str,
    schema: str = "",
    *,
    registry: str | Schemas = "",
    subject: str = "",
    skip_bytes: int = 0,
    mode: str = FAILFAST,
) -> Column:
    """Avro as a column of its fields.

    `schema` is the reader's, as JSON; without it the newest one of `subject` is read from `registry` (a URL
    or a directory). A value that cannot be decoded ends the query with the reason, or is null in mode
    PERMISSIVE. Raises ConfigError.
    """
    return _one(column, avro_decoder(schema, registry, subject, skip_bytes), mode)


def from_protobuf(
    column: Column | str,
    message: str = "",
    descriptors: str | Path | bytes = b"",
    *,
    registry: str | Schemas = "",
    subject: str = "",
    skip_bytes: int = 0,
    mode: str = FAILFAST,
) -> Column:
    """Protobuf as a column of the message's fields.

    `descriptors` is a descriptor set, or its file (protoc --include_imports -o FILE); without it the schema
    of `subject` is read from `registry`. Without a `message` it is the file's first. Raises ConfigError.
    """
    return _one(column, protobuf_decoder(message, descriptors, registry, subject, skip_bytes), mode)


def from_json_schema(
    column: Column | str,
    schema: str = "",
    *,
    registry: str | Schemas = "",
    subject: str = "",
    mode: str = FAILFAST,
) -> Column:
    """JSON as a column of the fields of a JSON Schema, given or from a registry. Raises ConfigError."""
    schemas = _schemas(registry)
    text = schema or _latest(schemas, subject)
    try:
        kind = arrow_type(json.loads(text))
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"JSON Schema: {error}") from None
    return _one(column, JsonDecoder(kind, is_framed=schemas is not None), mode)


# --- decoders


def avro_decoder(schema: str, registry: str | Schemas, subject: str, skip_bytes: int = 0) -> Decoder:
    """The decoder of from_avro. Raises ConfigError."""
    schemas = _schemas(registry)
    return AvroDecoder(schema or _latest(schemas, subject), schemas, skip_bytes=skip_bytes)


def protobuf_decoder(
    message: str, descriptors: str | Path | bytes, registry: str | Schemas, subject: str, skip_bytes: int = 0
) -> Decoder:
    """The decoder of from_protobuf. Raises ConfigError."""
    schemas = _schemas(registry)
    if not descriptors:
        if schemas is None or not subject:
            raise ConfigError("protobuf needs a descriptor set, or a registry and a subject")
        descriptors = descriptors_of(subject, schemas)
    if not isinstance(descriptors, bytes):
        descriptors = Path(descriptors).read_bytes()
    return ProtobufDecoder(descriptors, message, schemas, skip_bytes=skip_bytes)


def _schemas(registry: str | Schemas) -> Schemas | None:
    if not registry:
        return None
    return schemas_at(registry) if isinstance(registry, str) else registry


def _latest(schemas: Schemas | None, subject: str) -> str:
    if schemas is None or not subject:
        raise ConfigError("there is no schema: give one, or a registry and a subject")
    return schemas.latest(subject).text


# --- columns


def _one(column: Column | str, decoder: Decoder, mode: str) -> Column:
    if mode not in {FAILFAST, PERMISSIVE}:
        raise ConfigError(f"mode={mode!r}: FAILFAST or PERMISSIVE is wanted")
    return with_reason(column, decoder, fails=mode == FAILFAST)[VALUE]


def with_reason(column: Column | str, decoder: Decoder, *, fails: bool = False) -> Column:
    """A struct of the decoded value and the reason why there is none; with `fails`, a reason is raised."""
    value = from_arrow_type(decoder.type)
    kind = StructType([StructField(VALUE, value), StructField(REASON, StringType())])
    wanted: Any = to_arrow_type(value, timezone="UTC")

    def run(values: pa.Array) -> pa.Array:
        made = decoder.decode(values)
        if fails and made.reasons.null_count < len(made.reasons):
            raise Undecodable(str(next(reason for reason in made.reasons.to_pylist() if reason)))
        typed = made.values if made.values.type == wanted else made.values.cast(wanted)
        return pa.StructArray.from_arrays([typed, made.reasons], names=[VALUE, REASON])

    return arrow_function(run, kind)(F.col(column) if isinstance(column, str) else column)


def arrow_function(run: Callable[[pa.Array], pa.Array], kind: Any) -> Callable[[Column], Column]:
    """A function over columns that gets and gives Arrow arrays, in the executors."""
    made: Callable[[Column], Column] = arrow_udf(run, kind)  # type: ignore[call-overload]
    return made
