"""A schema registry over HTTP with fixed answers, and what schemas and values it is asked about."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, timestamp_pb2

USER, PASSWORD = "alice", "s3cret"


class Registry(HTTPServer):
    """`answers` by path; `failures` is how many requests are refused first."""

    answers: Mapping[str, Any]
    asked: list[str]
    failures: int

    @property
    def url(self) -> str:
        """With the user that it wants."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        expected = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        status, answer = 200, self.server.answers.get(self.path)
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


@contextmanager
def registry(answers: Mapping[str, Any]) -> Iterator[Registry]:
    """Runs a registry."""
    with Registry(("127.0.0.1", 0), Answers) as server:
        server.answers, server.asked, server.failures = answers, [], 0
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def in_frame(schema_id: int, payload: bytes) -> bytes:
    """As Confluent's serializers write it."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema: Any, row: Any) -> bytes:
    """A value of Avro without a frame."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return stream.getvalue()


def descriptors() -> bytes:
    """message Order { int64 id; optional string text; repeated Item items; map<string, int32> more; … }"""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="GIFT", number=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="price", number=1, type=kinds.TYPE_DOUBLE, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    order.oneof_decl.add(name="_text")
    order.field.add(
        name="text", number=2, type=kinds.TYPE_STRING, label=1, proto3_optional=True, oneof_index=0
    )
    order.field.add(name="items", number=3, type=kinds.TYPE_MESSAGE, type_name=".shop.Item", label=3)
    order.field.add(name="kind", number=4, type=kinds.TYPE_ENUM, type_name=".shop.Kind", label=1)
    order.field.add(
        name="at", number=5, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1
    )
    entry = order.nested_type.add(name="MoreEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=1)
    order.field.add(
        name="more", number=6, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.MoreEntry", label=3
    )
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return descriptor_pb2.FileDescriptorSet(file=[times, file]).SerializeToString()
