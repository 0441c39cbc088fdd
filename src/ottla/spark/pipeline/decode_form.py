"""[decode] of a pipeline: what keys and values are, and where their schemas are found. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.sections import Section, choice


class Decoding(StrEnum):
    """How values are encoded."""

    BINARY = "binary"
    STRING = "text"
    JSON = "json"
    CSV = "csv"
    MSGPACK = "msgpack"
    AVRO = "avro"
    PROTOBUF = "protobuf"


CAN_FAIL = {Decoding.JSON, Decoding.CSV, Decoding.MSGPACK, Decoding.AVRO, Decoding.PROTOBUF}


@dataclass(frozen=True, slots=True)
class RegistryForm:
    """Where schemas are looked up by their ids: a URL with a user or a token, or a directory."""

    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Decode:
    """How values are decoded; `key` is the same for keys, which are text by default."""

    format: Decoding = Decoding.BINARY
    schema: str = ""
    schema_file: str = ""
    message: str = ""
    skip_bytes: int = 0
    registry: RegistryForm = RegistryForm()
    subject: str = ""
    key: Decode | None = None

    def files(self) -> list[str]:
        """The files that are read for it."""
        return [self.schema_file] if self.schema_file else []

    def of_key(self) -> Decode:
        """How keys are decoded."""
        is_text = self.format is not Decoding.BINARY
        return self.key or Decode(Decoding.STRING if is_text else Decoding.BINARY)

    @property
    def can_fail(self) -> bool:
        """Whether there may be records that cannot be decoded."""
        return self.format in CAN_FAIL or (self.key is not None and self.key.format in CAN_FAIL)

    @property
    def is_inferred(self) -> bool:
        """Whether the schema has to be inferred."""
        return self.format is Decoding.JSON and not self.schema


def decode_of(given: Section) -> Decode:
    """[decode] of a file, checked. Raises ConfigError."""
    made = _one_decode(given, "[decode]")
    key = given.value("key", {})
    if isinstance(key, str):
        key = {"format": key}
    if not isinstance(key, Mapping):
        raise ConfigError(f"[decode] key={key!r:.100}: a format or a section is wanted")
    if not key:
        return made
    section = Section("[decode.key]", key)
    of_key = _one_decode(section, "[decode.key]")
    section.check_all_known()
    if of_key.is_inferred:
        raise ConfigError("[decode.key] json needs a schema: only that of values is inferred")
    return replace(made, key=of_key)


def _one_decode(given: Section, where: str) -> Decode:
    registry = given.value("registry", {})
    section = Section("registry", {"url": registry} if isinstance(registry, str) else registry)
    name = given.text("format") or Decoding.BINARY
    made = Decode(
        choice(Decoding, "text" if name == "string" else name, f"{where} format"),
        given.text("schema"),
        given.text("schema_file"),
        given.text("message"),
        given.number("skip_bytes"),
        RegistryForm(*(section.text(word) for word in ("url", "username", "password", "token"))),
        given.text("subject"),
    )
    section.check_all_known()
    _check_decode(made, where)
    return made


def _check_decode(made: Decode, where: str) -> None:
    kind = made.format
    has_registry = bool(made.registry.url and made.subject)
    with_schema = {Decoding.JSON, Decoding.CSV, Decoding.MSGPACK, Decoding.AVRO}
    if made.schema and kind not in with_schema:
        raise ConfigError(f"{where} schema: {kind} has none; leave it out")
    if not made.schema and kind in {Decoding.CSV, Decoding.MSGPACK}:
        raise ConfigError(f"{where} {kind} needs a schema, such as id long, amount double")
    ways = bool(made.schema) + bool(made.schema_file)
    if kind is Decoding.AVRO and (ways > 1 or not (ways or has_registry)):
        raise ConfigError(f"{where} avro needs a schema, a schema_file, or a registry and a subject")
    if kind is Decoding.PROTOBUF and not has_registry and not (made.message and made.schema_file):
        raise ConfigError(
            f"{where} protobuf needs a message's name and its descriptor set as schema_file, or a registry"
            " and a subject"
        )
    if (made.schema_file or made.registry.url) and kind not in {Decoding.AVRO, Decoding.PROTOBUF}:
        raise ConfigError(f"{where} schema_file and registry: {kind} has none; leave them out")
