"""Values as JSON texts, each by the schema that its own frame names: for people, and for SQL.

    frame ─▶ id ─▶ schema: Avro, Protobuf or JSON ─▶ JSON text, and the types of its fields

A value without a frame is decoded by the newest schema of a subject, if the caller names one. Bytes are
written in base64, times as ISO 8601, and Protobuf as its own mapping to JSON says: 64-bit numbers as text.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from ottla.model.errors import ConfigError, OttlaError
from ottla.schemas import avro, protobuf
from ottla.schemas.decoded import Undecodable
from ottla.schemas.framing import frame_id, framed, message_indexes
from ottla.schemas.registry import Kept, Schemas, SchemaText, schemas_at

T = TypeVar("T")
FieldTypes = Mapping[str, pa.DataType | None]
"""The type of each field; None where it has no column type, such as a union of several types."""


class JsonText(NamedTuple):
    """A value as JSON, the kind of its schema (AVRO, PROTOBUF or JSON), and the types of its fields.

    A string of Avro alone is written without quotes. JSON has no `fields`: its values say what they are.
    """

    text: str
    kind: str
    fields: FieldTypes


class _Reader(Protocol):
    """Reads values of one schema."""

    @property
    def kind(self) -> str:
        """The kind of the schema."""

    @property
    def fields(self) -> FieldTypes:
        """The types of its fields."""

    def text(self, payload: bytes) -> str:
        """The value as JSON. Raises Undecodable, and whatever a library raises about strange bytes."""


class JsonTexts:
    """Makes JSON texts of values. Schemas are asked for once; may be used by several threads."""

    def __init__(self, schemas: Schemas, clock: Callable[[], float] = time.monotonic) -> None:
        self._schemas = schemas
        self._texts: Kept[SchemaText] = Kept(clock)
        self._readers: Kept[_Reader] = Kept(clock)

    def text(self, value: bytes, subject: str = "") -> JsonText:
        """The value as JSON. Raises Undecodable, or RegistryFailed."""
        try:
            schema_id, payload = framed(value)
        except Undecodable:
            if not subject:
                raise
            reader, payload = self._reader_of_subject(subject), value
        else:
            reader, payload = self._reader_of_frame(schema_id, payload)
        try:
            return JsonText(reader.text(payload), reader.kind, reader.fields)
        except OttlaError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a library raises about strange bytes is the reason
            raise Undecodable(f"{error or type(error).__name__}") from None

    def encoded(self, value: bytes | None, subject: str = "") -> bytes | None:
        """The text of a value in UTF-8; the value itself if no schema decodes it. Raises RegistryFailed."""
        try:
            return value if value is None else self.text(value, subject).text.encode()
        except Undecodable:
            return value

    def row(self, value: bytes) -> Any:
        """Return a framed value decoded by its schema, with objects as dicts; a value without a frame
        unchanged.

        Raises Undecodable, which names the frame, or RegistryFailed.
        """
        schema_id = frame_id(value)
        if schema_id is None:
            return value
        try:
            return json.loads(self.text(value).text)
        except Undecodable as error:
            raise Undecodable(f"a value framed with schema {schema_id}: {error}") from None
        except ValueError:
            return self.text(value).text  # an Avro string that is the whole value

    def _reader_of_frame(self, schema_id: int, payload: bytes) -> tuple[_Reader, bytes]:
        schema = self._texts.get(schema_id, lambda: self._schemas.by_id(schema_id))
        indexes: tuple[int, ...] = ()
        if schema.kind == "PROTOBUF":
            indexes, payload = message_indexes(payload)
        key = (schema_id, indexes)
        return self._readers.get(key, lambda: _reader(schema, self._schemas, indexes)), payload

    def _reader_of_subject(self, subject: str) -> _Reader:
        return self._readers.get(subject, lambda: _reader(self._schemas.latest(subject), self._schemas, (0,)))


def json_texts_of(schemas: str | Schemas | None) -> JsonTexts | None:
    """The texts of a registry's URL, of a directory or of schemas; None for none. Raises ConfigError."""
    if not schemas:
        return None
    return JsonTexts(schemas_at(schemas) if isinstance(schemas, str) else schemas)


# --- readers


def _reader(schema: SchemaText, schemas: Schemas, indexes: tuple[int, ...]) -> _Reader:
    if schema.kind == "AVRO":
        avro.check_installed()
        return _AvroReader(avro.parsed_with_references(schema, schemas))
    if schema.kind == "PROTOBUF":
        descriptors = protobuf.descriptor_set(schema, schemas, "value.proto")
        name = protobuf.message_name(descriptors, indexes)
        return _ProtobufReader(protobuf.message_class(descriptors, name))
    return _JsonReader()


class _AvroReader:
    kind = "AVRO"

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        is_record = isinstance(schema, dict) and schema.get("type") == "record"
        known: dict[str, pa.DataType] = {}
        self.fields = {
            field["name"]: _type_or_none(avro.arrow_type, field["type"], known)
            for field in (schema["fields"] if is_record else ())
        }

    def text(self, payload: bytes) -> str:
        row = avro.row_of(payload, self._schema)
        return row if isinstance(row, str) else _dumped(row)


class _ProtobufReader:
    kind = "PROTOBUF"

    def __init__(self, message_class: Any) -> None:
        self._class = message_class
        self.fields = {
            field.name: _type_or_none(protobuf.field_type, field) for field in message_class.DESCRIPTOR.fields
        }

    def text(self, payload: bytes) -> str:
        from google.protobuf.json_format import MessageToDict

        message = protobuf.message_of(payload, self._class)
        return _dumped(
            MessageToDict(
                message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        )


class _JsonReader:
    kind = "JSON"
    fields: FieldTypes = MappingProxyType({})

    def text(self, payload: bytes) -> str:
        json.loads(payload)
        return payload.decode()


def _type_or_none(type_of: Callable[..., pa.DataType], *field: Any) -> pa.DataType | None:
    try:
        return type_of(*field)
    except ConfigError:
        return None


def _dumped(row: Any) -> str:
    return json.dumps(row, default=_plain, ensure_ascii=False)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
