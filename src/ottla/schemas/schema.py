"""Schema: what values are, for readers and writers. Bytes become rows or typed columns, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.schemas import json_values
from ottla.schemas.avro import AvroDecoder, avro_bytes, check_installed, parsed
from ottla.schemas.decoded import DecodedValues, Decoder
from ottla.schemas.framing import with_frame
from ottla.schemas.json_values import JsonDecoder, json_bytes
from ottla.schemas.protobuf import (
    ProtobufDecoder,
    descriptors_of,
    file_descriptor,
    indexes_of,
    message_bytes,
    message_class,
)
from ottla.schemas.registry import Schemas, SchemaText, schemas_at
from ottla.schemas.row_types import plain_row, row_maker

Text = str | Mapping[str, Any]


class Schema:
    """Give it to a consumer as `value_deserializer`, to a producer as `value_serializer`; also for keys.

        >>> import pyarrow
        >>> from ottla import EmbeddedBroker, PartitionConsumer, Producer, Schema
        >>> orders = Schema.json(pyarrow.schema({"item": pyarrow.string(), "count": pyarrow.int64()}))
        >>> with EmbeddedBroker() as broker:
        ...     with Producer(bootstrap_servers=broker.bootstrap, value_serializer=orders) as producer:
        ...         _ = producer.send("orders", {"item": "tea", "count": 2})
        ...     with PartitionConsumer(
        ...         bootstrap_servers=broker.bootstrap, value_deserializer=orders
        ...     ) as consumer:
        ...         reader = consumer.consume_partition("orders", 0, "earliest")
        ...         print(next(iter(reader)).value)
        {'item': 'tea', 'count': 2}

    Made by `avro`, `json` or `protobuf`. With a `registry` (a URL, a directory, or an object with the methods
    of `ottla.schemas.SchemaRegistry`) values have Confluent's frame of five bytes; else they have none.
    `rows` is what rows are: dict, a dataclass, a class of pydantic or of msgspec.
    """

    def __init__(
        self,
        decoder: Decoder,
        encode: Callable[[Any], bytes],
        text: SchemaText,
        *,
        registry: Schemas | None,
        subject: str,
        rows: type,
    ) -> None:
        self._decoder = decoder
        self._encode = encode
        self._text = text
        self._registry = registry
        self._subject = subject
        self._make = row_maker(rows)
        self._id: int | None = None  # in the registry, for writers

    def __repr__(self) -> str:
        subject = f" {self._subject!r}" if self._subject else ""
        return f"<Schema of {self._text.kind}{subject}: {self.type}>"

    @classmethod
    def avro(
        cls, schema: Text = "", *, registry: str | Schemas = "", subject: str = "", rows: type = dict
    ) -> Self:
        """Avro. `schema` is the reader's or writer's; without it, the newest of `subject`.

        Framed values are read with the schema that each was written with. Raises ConfigError, and what a
        registry raises.
        """
        check_installed()
        schemas = _registry(registry)
        text = _text("AVRO", schema, schemas, subject)
        tree = parsed(text.text)
        decoder = AvroDecoder(text.text, schemas)
        return cls(
            decoder, lambda row: avro_bytes(row, tree), text, registry=schemas, subject=subject, rows=rows
        )

    @classmethod
    def json(
        cls,
        schema: Text | pa.Schema | pa.DataType = "",
        *,
        registry: str | Schemas = "",
        subject: str = "",
        rows: type = dict,
    ) -> Self:
        """JSON texts with the fields of an Arrow schema, or of a JSON Schema. As `avro`."""
        schemas = _registry(registry)
        if isinstance(schema, pa.Schema):
            kind = pa.struct(list(schema))
            text = SchemaText("JSON", json.dumps(json_values.json_schema(kind)))
        elif isinstance(schema, pa.DataType):
            kind, text = schema, SchemaText("JSON", json.dumps(json_values.json_schema(schema)))
        else:
            text = _text("JSON", schema, schemas, subject)
            kind = json_values.arrow_type(_object(text.text))
        decoder = JsonDecoder(kind, is_framed=schemas is not None)
        return cls(decoder, json_bytes, text, registry=schemas, subject=subject, rows=rows)

    @classmethod
    def protobuf(
        cls,
        descriptors: bytes | str | Path = b"",
        message: str = "",
        *,
        registry: str | Schemas = "",
        subject: str = "",
        rows: type = dict,
    ) -> Self:
        """Protobuf messages of a descriptor set, or of its file (protoc --include_imports -o FILE).

        Without a set, the newest schema of `subject`; without a `message`, the file's first. As `avro`.
        """
        schemas = _registry(registry)
        if not descriptors:
            if schemas is None or not subject:
                raise ConfigError("protobuf needs a descriptor set, or a registry and a subject")
            descriptors = descriptors_of(subject, schemas)
        data = descriptors if isinstance(descriptors, bytes) else Path(descriptors).read_bytes()
        made = message_class(data, message)
        indexes = indexes_of(made.DESCRIPTOR) if schemas is not None else b""
        text = SchemaText("PROTOBUF", file_descriptor(made.DESCRIPTOR))

        def encode(row: Any) -> bytes:
            return indexes + message_bytes(row, made)

        decoder = ProtobufDecoder(data, made.DESCRIPTOR.full_name, schemas)
        return cls(decoder, encode, text, registry=schemas, subject=subject, rows=rows)

    # --- reading

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._decoder.type

    def row(self, value: bytes) -> Any:
        """The row of a value. Raises Undecodable, and what the class of the rows raises."""
        made = self._decoder.row(value)
        return made if self._make is None else self._make(made)

    def decode(self, column: pa.Array) -> DecodedValues:
        """A column of bytes as a column of values, null where they cannot be decoded, and the reasons."""
        return self._decoder.decode(column)

    def lookup(self, column: pa.Array) -> Callable[[], None] | None:
        """A function that asks the registry for what `decode` and `row` need; None if all of it is known."""
        lookup: Callable[[pa.Array], Callable[[], None] | None] | None
        lookup = getattr(self._decoder, "lookup", None)
        return lookup(column) if lookup is not None else None

    # --- writing

    def register(self) -> None:
        """Store the schema in the registry, if there is one; otherwise the first `value` does it."""
        if self._registry is not None:
            self._schema_id()

    def value(self, row: Any) -> bytes:
        """The bytes of a row, framed if there is a registry. Raises Undecodable if it does not fit.

        The first call stores the schema in the registry under `subject`; raises as the registry does.
        """
        content = self._encode(plain_row(row))
        return with_frame(self._schema_id(), content) if self._registry is not None else content

    def encode(self, column: pa.Array) -> pa.Array:
        """A column of rows (structs) as a column of bytes; a null stays null. Raises as `value`."""
        return pa.array([None if row is None else self.value(row) for row in column.to_pylist()], pa.binary())

    def _schema_id(self) -> int:
        assert self._registry is not None
        if not self._subject:
            raise ConfigError("a writer's schema has a subject in the registry: subject='orders-value'")
        if self._id is None:
            self._id = self._registry.register(self._subject, self._text)
        return self._id


def _registry(registry: str | Schemas) -> Schemas | None:
    if not registry:
        return None
    return schemas_at(registry) if isinstance(registry, str) else registry


def _text(kind: str, schema: Text, registry: Schemas | None, subject: str) -> SchemaText:
    if schema:
        return SchemaText(kind, schema if isinstance(schema, str) else json.dumps(schema))
    if registry is None or not subject:
        raise ConfigError("there is no schema: give one, or a registry and a subject")
    latest = registry.latest(subject)
    if latest.kind != kind:
        raise ConfigError(f"subject {subject} has a schema of {latest.kind}, not {kind}")
    return latest


def _object(text: str) -> Mapping[str, Any]:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"JSON Schema: {error}") from None
    if not isinstance(made, dict):
        raise ConfigError("JSON Schema: an object is wanted")
    return made
