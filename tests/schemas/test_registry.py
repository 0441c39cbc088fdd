"""Schemas by id: from a registry over HTTP, each asked for once; and from files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import ConfigError
from ottla.schemas import SchemaFiles, SchemaRegistry, schemas_at
from ottla.schemas.avro import AvroDecoder, parsed_with_references
from ottla.schemas.registry import Reference, RegistryFailed, SchemaNotFound
from tests.schemas.registry_server import Registry, registry

INNER = '{"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}'
OUTER = '{"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "Inner"}]}'
ANSWERS: dict[str, Any] = {
    "/schemas/ids/7": {"schema": OUTER, "references": [{"name": "Inner", "subject": "inner", "version": 1}]},
    "/subjects/inner/versions/1": {"schema": INNER},
    "/subjects/a%2Fb/versions/latest": {"schema": '{"type": "object"}', "schemaType": "JSON"},
    "/schemas/ids/8": {"schema": "message M {}", "schemaType": "PROTOBUF"},
    "/schemas/ids/8?format=serialized": {"schema": "AAAA", "schemaType": "PROTOBUF"},
    "/schemas/ids/9": {"nothing": 1},
}


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry(ANSWERS) as one:
        yield one


def test_a_schema_is_asked_for_once_and_brings_those_that_it_names(server: Registry) -> None:
    found_at = SchemaRegistry(f"{server.url}/")
    assert "s3cret" not in repr(found_at)
    again = pickle.loads(pickle.dumps(found_at))
    found = again.by_id(7)
    assert found.references == (Reference("Inner", "inner", 1),)
    parsed = parsed_with_references(found, again)
    assert parsed["name"] == "Outer"
    assert again.by_id(7) == found
    assert server.asked == ["/schemas/ids/7", "/subjects/inner/versions/1"]
    assert again.latest("a/b").kind == "JSON"
    assert again.by_id(8).text == "AAAA"


def test_what_a_registry_refuses_is_told(server: Registry) -> None:
    at = f"http://127.0.0.1:{server.server_port}"
    schemas = SchemaRegistry(at, username="alice", password="s3cret")
    with pytest.raises(SchemaNotFound, match="has no schema id 5"):
        schemas.by_id(5)
    with pytest.raises(RegistryFailed, match="HTTP 401"):
        SchemaRegistry(at, token="x").by_id(7)
    with pytest.raises(RegistryFailed, match="has no schema"):
        schemas.by_id(9)
    server.failures = 2
    assert schemas.by_id(7).kind == "AVRO"  # the third try
    server.failures = 9
    with pytest.raises(RegistryFailed, match="HTTP 503"):
        schemas.latest("inner")
    for wrong in ("ftp://x", "http://"):
        with pytest.raises(ConfigError, match="http://HOST:PORT"):
            SchemaRegistry(wrong)


def test_files_are_a_registry(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(INNER)
    (tmp_path / "3.desc").write_bytes(b"\1\2")
    files = schemas_at(f"file:{tmp_path}")
    assert isinstance(files, SchemaFiles)
    assert files.by_id(7) == ("AVRO", INNER, (), False)
    assert files.by_id(3) == ("PROTOBUF", "AQI=", (), True)
    for missing in ("8", "../7"):
        with pytest.raises(SchemaNotFound):
            files.latest(missing)
    with pytest.raises(ConfigError, match="no such directory"):
        schemas_at(str(tmp_path / "nothing"))
    assert AvroDecoder(INNER, files).type.field("n").name == "n"
