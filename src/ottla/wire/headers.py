"""What precedes a message in its frame.

    request   key i16 | version i16 | correlation id i32 | client id | tag buffer (flexible versions)
    response  correlation id i32 | tag buffer (flexible versions)

Two oddities. The client id keeps its int16 length in flexible versions, so that a broker can read the
header of a request that it does not know. For the same reason the response to ApiVersions never has a tag
buffer: the client must understand it before it knows what the broker speaks (KIP-511).

A header says which API follows; the caller gets a view of the message and decodes it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.primitives import Buffer, read_varint, truncated
from ottla.wire.schema import Api
from ottla.wire.strings import STRING_LIMIT_BYTES

API_VERSIONS_KEY = 18
TAGS_MAX = 1000
"""The limit for tags of a header: none are defined, and a million of them would only cost time."""

_REQUEST = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The fixed part of a request. `key` and `version` are what the client sent, known or not."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None


def encode_request_header(api: Api, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the bytes before a request of `api`."""
    name = b"" if client_id is None else client_id.encode()
    if len(name) > STRING_LIMIT_BYTES:
        raise LocalProtocolError(f"client id of {len(name)} bytes, at most {STRING_LIMIT_BYTES}")
    length = -1 if client_id is None else len(name)
    try:
        head = _REQUEST.pack(api.key, version, correlation_id, length)
    except struct.error as error:
        raise LocalProtocolError(f"{api.name} v{version}, correlation id {correlation_id}: {error}") from None
    return head + name + (b"\0" if api.flexible(version) else b"")


def decode_request_header(data: Buffer) -> tuple[RequestHeader, memoryview]:
    """Read a request's header up to the client id.

    What follows starts with a tag buffer if the API is flexible in this version; only the caller knows
    whether it speaks that API, so `request_body` takes it off.
    """
    view = memoryview(data)
    if len(view) < _REQUEST.size:
        raise truncated("request header", view, 0, _REQUEST.size)
    key, version, correlation_id, length = _REQUEST.unpack_from(view)
    stop = _REQUEST.size + max(length, 0)
    if length < -1:
        raise RemoteProtocolError(f"request header: client id of length {length}")
    if stop > len(view):
        raise truncated("request header: client id", view, _REQUEST.size, length)
    try:
        client_id = None if length < 0 else str(view[_REQUEST.size : stop], "utf-8")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"request header: client id is not UTF-8: {error.reason}") from None
    return RequestHeader(key, version, correlation_id, client_id), view[stop:]


def request_body(api: Api, version: int, rest: memoryview) -> memoryview:
    """Return the message itself, from the rest that `decode_request_header` returned."""
    return _after_tags(rest, "request header") if api.flexible(version) else rest


def encode_response_header(api: Api, version: int, correlation_id: int) -> bytes:
    """Return the bytes before a response of `api`."""
    head = _CORRELATION.pack(correlation_id)
    return head + b"\0" if _tagged_response(api, version) else head


def decode_correlation_id(data: Buffer) -> int:
    """Return which request a response answers; this can be read without knowing its API."""
    view = memoryview(data)
    if len(view) < _CORRELATION.size:
        raise truncated("response header", view, 0, _CORRELATION.size)
    correlation_id: int = _CORRELATION.unpack_from(view)[0]
    return correlation_id


def response_body(api: Api, version: int, data: Buffer) -> memoryview:
    """Return the message itself, from a whole response frame whose correlation id has been read."""
    rest = memoryview(data)[_CORRELATION.size :]
    return _after_tags(rest, "response header") if _tagged_response(api, version) else rest


def _tagged_response(api: Api, version: int) -> bool:
    return api.flexible(version) and api.key != API_VERSIONS_KEY


def _after_tags(view: memoryview, label: str) -> memoryview:
    """Skip a tag buffer; headers define no tags of their own."""
    count, position = read_varint(view, 0, f"{label} tags")
    if count > TAGS_MAX:
        raise RemoteProtocolError(f"{label} tags: {count}, allowed are {TAGS_MAX}")
    previous = -1
    for _ in range(count):
        tag, position = read_varint(view, position, f"{label} tags")
        size, position = read_varint(view, position, f"{label} tags")
        if tag <= previous:
            raise RemoteProtocolError(f"{label} tags: tag {tag} after tag {previous}")
        if position + size > len(view):
            raise truncated(f"{label}: tag {tag}", view, position, size)
        position, previous = position + size, tag
    return view[position:]
