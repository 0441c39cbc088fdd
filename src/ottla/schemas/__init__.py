"""Values with types: Avro, Protobuf and JSON to Arrow, their schemas from a registry or from files.

`framing` knows the five bytes that Confluent's clients put in front of a value. `registry` finds schemas by
their id. `avro`, `protobuf`, `json_values` and `msgpack` decode a column of bytes into a column of values and
a column of reasons, which is null where a value could be decoded. Knows no broker, no client and no Spark.
"""

from __future__ import annotations

from ottla.schemas.decoded import DecodedValues, Decoder, Undecodable
from ottla.schemas.registry import SchemaFiles, SchemaRegistry, Schemas, schemas_at

__all__ = [
    "DecodedValues",
    "Decoder",
    "SchemaFiles",
    "SchemaRegistry",
    "Schemas",
    "Undecodable",
    "schemas_at",
]
