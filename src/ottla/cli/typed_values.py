"""Values that have a schema, on the command line: decoded to JSON, and lines of JSON encoded."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.connection_options import add_schemas_option
from ottla.cli.output import Parser
from ottla.model.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.schemas.schema import Schema

FORMATS = ("avro", "json", "protobuf")


def add_value_options(parser: Parser) -> None:
    """Add the options that say how values are encoded."""
    add_schemas_option(parser)
    parser.add_argument("--value-format", choices=FORMATS, help="what values are, with --schema or --subject")
    parser.add_argument("--schema", metavar="FILE", help="the schema: .avsc, JSON Schema or a descriptor set")
    parser.add_argument("--message", metavar="NAME", default="", help="the message of a descriptor set")
    parser.add_argument("--subject", help="the subject among the schemas (default: TOPIC-value)")


def value_decoder(options: argparse.Namespace) -> Callable[[bytes], bytes]:
    """Return a function that decodes a value to JSON text, or returns it unchanged.

    A value that cannot be decoded becomes the reason.
    """
    from ottla.schemas.framing import frame_id
    from ottla.schemas.json_texts import json_texts_of
    from ottla.schemas.json_values import json_bytes

    texts = json_texts_of(options.schemas)
    if options.value_format:
        row = _schema(options).row
    elif texts is None:
        return lambda value: value

    def decoded(value: bytes) -> bytes:
        try:
            if options.value_format:
                return json_bytes(row(value))
            assert texts is not None
            return value if frame_id(value) is None else texts.text(value).text.encode()
        except OttlaError as error:
            return f"(not decoded: {error})".encode()
        except Exception as error:  # noqa: BLE001 - whatever a library raises about strange bytes
            return f"(not decoded: {error or type(error).__name__})".encode()

    return decoded


def frame_note(value: bytes | None) -> str:
    """Return a hint for a value that looks framed and was not decoded; else ""."""
    from ottla.schemas.framing import frame_id

    schema_id = frame_id(value) if value is not None else None
    return f"  (perhaps framed, with schema {schema_id}: --schemas WHERE decodes it)" if schema_id else ""


def value_encoder(options: argparse.Namespace) -> Callable[[bytes], bytes]:
    """Return a function that encodes JSON text to a value, or returns it unchanged. Raises ConfigError."""
    if not options.value_format:
        if options.schema or options.subject:
            raise ConfigError("give --value-format too: avro, json or protobuf")
        return lambda value: value
    schema = _schema(options)

    def encoded(text: bytes) -> bytes:
        try:
            row = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"the line {text[:60]!r} is no JSON: {error}") from None
        return schema.value(row)

    return encoded


def _schema(options: argparse.Namespace) -> Schema:
    from ottla.schemas.schema import Schema

    where = {"registry": options.schemas, "subject": options.subject or f"{options.topic}-value"}
    if not options.schemas:
        where = {}
    if options.value_format == "protobuf":
        return Schema.protobuf(options.schema or b"", options.message, **where)
    text = Path(options.schema).read_text() if options.schema else ""
    return Schema.avro(text, **where) if options.value_format == "avro" else Schema.json(text, **where)
