"""Schemas by id: from a registry over HTTP, each asked for once; and from files."""

from __future__ import annotations

import base64
import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla import ConfigError
from ottla.schemas import SchemaFiles, SchemaRegistry, schemas_at
from ottla.schemas.avro import AvroDecoder, parsed_with_references
from ottla.schemas.registry import Reference, RegistryFailed, SchemaNotFound

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


class Registry(HTTPServer):
    asked: list[str]
    failures: int


class Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        expected = f"Basic {base64.b64encode(b'alice:s3cret').decode()}"
        status, answer = 200, ANSWERS.get(self.path)
        if self.headers["Authorization"] != expected:
            status = 401
        elif self.server.failures:
            self.server.failures -= 1
            status = 503
        elif answer is None:
            status = 404
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Answers) as one:
        one.asked, one.failures = [], 0
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def test_a_schema_is_asked_for_once_and_brings_those_that_it_names(server: Registry) -> None:
    registry = SchemaRegistry(f"http://alice:s3cret@127.0.0.1:{server.server_port}/")
    assert "s3cret" not in repr(registry)
    again = pickle.loads(pickle.dumps(registry))
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
    registry = SchemaRegistry(at, username="alice", password="s3cret")
    with pytest.raises(SchemaNotFound, match="has no schema id 5"):
        registry.by_id(5)
    with pytest.raises(RegistryFailed, match="HTTP 401"):
        SchemaRegistry(at, token="x").by_id(7)
    with pytest.raises(RegistryFailed, match="has no schema"):
        registry.by_id(9)
    server.failures = 2
    assert registry.by_id(7).kind == "AVRO"  # the third try
    server.failures = 9
    with pytest.raises(RegistryFailed, match="HTTP 503"):
        registry.latest("inner")
    for wrong in ("ftp://x", "http://"):
        with pytest.raises(ConfigError, match="http://HOST:PORT"):
            SchemaRegistry(wrong)


def test_files_are_a_registry(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(INNER)
    (tmp_path / "3.desc").write_bytes(b"\1\2")
    files = schemas_at(f"file:{tmp_path}")
    assert isinstance(files, SchemaFiles)
    assert files.by_id(7) == ("AVRO", INNER, ())
    assert files.by_id(3) == ("PROTOBUF", "AQI=", ())
    for missing in ("8", "../7"):
        with pytest.raises(SchemaNotFound):
            files.latest(missing)
    with pytest.raises(ConfigError, match="no such directory"):
        schemas_at(str(tmp_path / "nothing"))
    assert AvroDecoder(INNER, files).type.field("n").name == "n"
