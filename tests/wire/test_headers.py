"""Which header goes with which version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.headers import (
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    encode_request_header,
    encode_response_header,
    request_body,
    response_body,
)
from ottla.wire.registry import api

FETCH, API_VERSIONS = api(1), api(18)


def test_the_request_header_of_a_legacy_version() -> None:
    head = encode_request_header(FETCH, 11, 7, "me")
    assert head == bytes.fromhex("0001 000b 00000007 0002") + b"me"


def test_the_client_id_keeps_its_old_form_in_a_flexible_version() -> None:
    head = encode_request_header(FETCH, 12, 7, "me")
    assert head == bytes.fromhex("0001 000c 00000007 0002") + b"me" + b"\0"
    assert encode_request_header(FETCH, 12, 7, None) == bytes.fromhex("0001 000c 00000007 ffff 00")


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("client_id", [None, "", "me", "mé"])
def test_a_request_header_comes_back(version: int, client_id: str | None) -> None:
    data = encode_request_header(FETCH, version, -1, client_id) + b"body"
    header, rest = decode_request_header(data)
    assert header == RequestHeader(1, version, -1, client_id)
    assert request_body(FETCH, version, rest) == b"body"


@pytest.mark.parametrize(("version", "head"), [(11, "00000007"), (12, "0000000700")])
def test_the_response_header(version: int, head: str) -> None:
    data = encode_response_header(FETCH, version, 7) + b"body"
    assert data == bytes.fromhex(head) + b"body"
    assert decode_correlation_id(data) == 7
    assert response_body(FETCH, version, data) == b"body"


@pytest.mark.parametrize("version", range(5))
def test_the_response_to_api_versions_never_has_tags(version: int) -> None:
    data = encode_response_header(API_VERSIONS, version, 7) + b"body"
    assert data == b"\0\0\0\x07body"
    assert response_body(API_VERSIONS, version, data) == b"body"


def test_the_request_of_api_versions_has_tags_as_usual() -> None:
    assert encode_request_header(API_VERSIONS, 3, 1, "")[-1:] == b"\0"
    assert len(encode_request_header(API_VERSIONS, 2, 1, "")) == 10


def test_tags_in_a_header_are_skipped() -> None:
    assert response_body(FETCH, 12, b"\0\0\0\x01" + b"\x02\x00\x01a\x05\x00" + b"body") == b"body"


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (b"\x02\x01\x00\x01\x00", "tag 1 after tag 1"),
        (b"\x01\x01\x05ab", "needs 5 bytes at position 3, but 2 remain"),
        (b"\x01", "ends in a varint"),
        (b"", "ends in a varint"),
    ],
)
def test_damaged_tags_in_a_header(tags: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        request_body(FETCH, 12, memoryview(tags))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes(9), "request header: needs 10 bytes at position 0, but 9 remain"),
        (bytes(8) + b"\xff\xfe", "client id of length -2"),
        (bytes(8) + b"\x00\x05abc", "client id: needs 5 bytes at position 10, but 3 remain"),
        (bytes(8) + b"\x00\x01\xff", "client id is not UTF-8"),
    ],
)
def test_a_damaged_request_header(data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode_request_header(data)


def test_a_response_too_short_for_its_header() -> None:
    with pytest.raises(RemoteProtocolError, match="response header: needs 4 bytes"):
        decode_correlation_id(b"\0\0\0")


def test_headers_that_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="client id of 32768 bytes"):
        encode_request_header(FETCH, 0, 1, "x" * 32768)
    with pytest.raises(LocalProtocolError, match="correlation id 4294967296"):
        encode_request_header(FETCH, 0, 1 << 32, "x")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        header, rest = decode_request_header(data)
        request_body(FETCH, header.version, rest)
    except RemoteProtocolError:
        pass
