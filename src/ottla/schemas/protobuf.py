"""Protobuf to Arrow, by google.protobuf: messages of a descriptor set, or of schemas from a registry.

Fields have the names of the .proto file, enums are their names, and a field without a value is its default,
or null where Protobuf can tell that it is missing. Fields that a newer writer added are left out.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.schemas.decoded import DecodedValues, Undecodable, decoded_one_by_one
from ottla.schemas.framing import framed, message_indexes
from ottla.schemas.registry import Schemas, SchemaText

_TIMES = {"google.protobuf.Timestamp": pa.timestamp("us", tz="UTC")}
_SCALARS: dict[str, pa.DataType] = {
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "INT64": pa.int64(),
    "UINT64": pa.decimal128(20, 0),
    "INT32": pa.int32(),
    "FIXED64": pa.decimal128(20, 0),
    "FIXED32": pa.int64(),
    "BOOL": pa.bool_(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "UINT32": pa.int64(),
    "ENUM": pa.string(),
    "SFIXED32": pa.int32(),
    "SFIXED64": pa.int64(),
    "SINT32": pa.int32(),
    "SINT64": pa.int64(),
}


class ProtobufDecoder:
    """Messages of one type. With `schemas`, values are framed; else `skip_bytes` are left out in front."""

    def __init__(
        self, descriptors: bytes, message: str, schemas: Schemas | None = None, *, skip_bytes: int = 0
    ) -> None:
        self._remade = (descriptors, message, schemas, skip_bytes)
        self._message_class = message_class(descriptors, message)
        self._type = arrow_type(self._message_class.DESCRIPTOR)
        self._schemas = schemas
        self._skip_bytes = skip_bytes

    @property
    def type(self) -> pa.DataType:
        """The message's type."""
        return self._type

    def decode(self, column: pa.Array) -> DecodedValues:
        """Decode a column of bytes."""
        return decoded_one_by_one(column, self._type, self.row)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, self._remade

    def row(self, value: bytes) -> Any:
        """Decode one value. Raises Undecodable."""
        payload = value[self._skip_bytes :]
        if self._schemas is not None:
            _, payload = message_indexes(framed(value).payload)
        return _row(message_of(payload, self._message_class))


def message_of(payload: bytes, kind: Any) -> Any:
    """Return the message that the bytes encode. Raises Undecodable."""
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(payload)
    except DecodeError:
        raise Undecodable(f"not a message {kind.DESCRIPTOR.full_name}") from None
    return message


def _remade(descriptors: bytes, message: str, schemas: Schemas | None, skip_bytes: int) -> ProtobufDecoder:
    return ProtobufDecoder(descriptors, message, schemas, skip_bytes=skip_bytes)


def descriptors_of(subject: str, schemas: Schemas) -> bytes:
    """The newest schema of a subject, with those that it imports, as a descriptor set. Raises ConfigError."""
    schema = schemas.latest(subject)
    if schema.kind != "PROTOBUF":
        raise ConfigError(f"subject {subject} has a schema of {schema.kind}, not Protobuf")
    return descriptor_set(schema, schemas, f"{subject}.proto")


def descriptor_set(schema: SchemaText, schemas: Schemas, name: str) -> bytes:
    """A schema with all that it imports; its own file comes last, and has this name if it has none.

    Raises ConfigError, SchemaNotFound or RegistryFailed.
    """
    check_installed()
    from google.protobuf import descriptor_pb2

    if schema.is_set:
        return base64.b64decode(schema.text)
    files: dict[str, Any] = {}
    _add_file(files, schema, schemas, name)
    return bytes(descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString())


def _add_file(files: dict[str, Any], schema: SchemaText, schemas: Schemas, name: str) -> None:
    """Add the file of a schema, after those that it imports."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.text))
    file.name = name
    for reference in schema.references:
        if reference.name not in files:
            _add_file(files, schemas.referenced(reference), schemas, reference.name)
    for imported in file.dependency:
        if imported not in files and (known := _well_known(imported)) is not None:
            files[imported] = known
    files[name] = file


def _well_known(name: str) -> Any:
    """Return a file that belongs to Protobuf itself, which registries do not list; None for other names."""
    from google.protobuf import descriptor_pb2

    if not name.startswith("google/protobuf/"):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def message_name(descriptors: bytes, indexes: Sequence[int]) -> str:
    """The full name of a message of the last file, by the indexes of a frame. Raises Undecodable."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file[-1]
    names, inside = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(inside):
            raise Undecodable(f"its schema has no message with the indexes {list(indexes)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def check_installed() -> None:
    """Raise ConfigError if protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2  # noqa: F401
    except ImportError as error:
        raise ConfigError("Protobuf needs protobuf: pip install 'ottla[schemas]'") from error


def file_descriptor(descriptor: Any) -> str:
    """The descriptor of a message's file, in base64."""
    return base64.b64encode(descriptor.file.serialized_pb).decode()


def indexes_of(descriptor: Any) -> bytes:
    """The path to a message in its file, as a frame has it between the id and the value."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer else descriptor.file.message_types_by_name.values()
        path.insert(0, [sibling.full_name for sibling in siblings].index(descriptor.full_name))
        descriptor = outer
    if path == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message_bytes(row: Any, message: Any) -> bytes:
    """A row as a message: a dict by the fields' names, or a message of the class. Raises Undecodable."""
    from google.protobuf.message import Message

    if isinstance(row, Message):
        return bytes(row.SerializeToString())
    try:
        return bytes(_filled(message(), row).SerializeToString())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Undecodable(f"the row does not fit {message.DESCRIPTOR.full_name}: {error}") from None


def _filled(message: Any, row: Any) -> Any:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        if value is not None:
            _fill(message, fields[name], value)
    return message


def _fill(message: Any, field: Any, value: Any) -> None:
    made = getattr(message, field.name)
    if _is_map(field):
        of_message = field.message_type.fields_by_name["value"].message_type is not None
        for key, content in dict(value).items():
            if of_message:
                _filled(made[key], content)
            else:
                made[key] = content
    elif field.is_repeated:
        for item in value:
            if field.message_type is not None:
                _fill_one(made.add(), item)
            else:
                made.append(_scalar(field, item))
    elif field.message_type is not None:
        made.SetInParent()
        _fill_one(made, value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _fill_one(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name in _TIMES:
        message.FromDatetime(value)
    else:
        _filled(message, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return int(value) if isinstance(value, Decimal) else value


def message_class(descriptors: bytes, name: str) -> Any:
    """The class of a message. Raises ConfigError."""
    check_installed()
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    except Exception as error:  # noqa: BLE001 - its C code has errors of its own
        raise ConfigError(f"no descriptor set of Protobuf: {error}") from None
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name) if name else next(_messages(pool, files))
        return message_factory.GetMessageClass(descriptor)
    except (KeyError, TypeError, StopIteration) as error:
        there = ", ".join(
            f"{file.package}.{message.name}".strip(".")
            for file in files.file
            for message in file.message_type
        )
        raise ConfigError(f"the descriptor set has no message {name!r}; there are {there}: {error}") from None


def _messages(pool: Any, files: Any) -> Any:
    for file in reversed(files.file):
        for message in file.message_type:
            yield pool.FindMessageTypeByName(f"{file.package}.{message.name}".strip("."))


# --- types


def arrow_type(descriptor: Any, above: tuple[str, ...] = ()) -> pa.DataType:
    """The type of a message. Raises ConfigError for one that contains itself."""
    if descriptor.full_name in _TIMES:
        return _TIMES[descriptor.full_name]
    if descriptor.full_name in above:
        raise ConfigError(f"message {descriptor.full_name} contains itself, so it has no column type")
    inside = (*above, descriptor.full_name)
    return pa.struct([pa.field(field.name, field_type(field, inside)) for field in descriptor.fields])


def field_type(field: Any, above: tuple[str, ...] = ()) -> pa.DataType:
    """The type of a field of a message. Raises ConfigError for a message that contains itself."""
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return pa.map_(_one_type(key, above), _one_type(value, above))
    item_type = _one_type(field, above)
    return pa.list_(item_type) if field.is_repeated else item_type


def _one_type(field: Any, above: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        return arrow_type(field.message_type, above)
    return _SCALARS[_kind(field)]


def _kind(field: Any) -> str:
    from google.protobuf.descriptor import FieldDescriptor

    names = {getattr(FieldDescriptor, f"TYPE_{name}"): name for name in _SCALARS}
    return names[field.type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# --- values


def _row(message: Any) -> Any:
    if message.DESCRIPTOR.full_name in _TIMES:
        return message.seconds * 1_000_000 + message.nanos // 1000
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    made = getattr(message, field.name)
    convert = _maker(field)
    if _is_map(field):
        of_value = _maker(field.message_type.fields_by_name["value"])
        return [(key, of_value(value)) for key, value in made.items()]
    return [convert(value) for value in made] if field.is_repeated else convert(made)


def _maker(field: Any) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _row
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    return lambda value: value
