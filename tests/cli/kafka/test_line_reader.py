"""Lines taken apart as Kafka's console producer does."""

from __future__ import annotations

import pytest

from ottla.cli.kafka.line_reader import Line, LineReader
from ottla.cli.kafka.tool import ToolRefused


def read(line: str, **properties: str) -> Line:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return LineReader(named, is_old=False).read(line)


def test_a_line_is_a_value() -> None:
    assert read("a\tb") == Line(None, b"a\tb")


def test_a_key_and_headers() -> None:
    assert read("k:v:w", parse_key="TRUE ", key_separator=":") == Line(b"k", b"v:w")
    assert read("a:1,b:2\tk\tv", parse_key="true", parse_headers="true") == Line(
        b"k", b"v", (("a", b"1"), ("b", b"2"))
    )


def test_what_is_missing() -> None:
    with pytest.raises(ToolRefused, match=r"KafkaException: No key separator found on line number 1: 'v'$"):
        read("v", parse_key="true")
    assert read("v", parse_key="true", ignore_error="true") == Line(None, b"v")
    with pytest.raises(ToolRefused, match=r"kafka\.common\.KafkaException: No key found on line 1: v$"):
        LineReader({"parse.key": "true"}, is_old=True).read("v")


def test_nulls() -> None:
    assert read("NULL\tNULL", parse_key="true", null_marker="NULL") == Line(None, None)
    assert read("a:NULL\tv", parse_headers="true", null_marker="NULL") == Line(None, b"v", (("a", None),))


def test_separators_must_differ() -> None:
    with pytest.raises(ToolRefused, match=r"headers\.separator and headers\.key\.separator may not be equal"):
        read("v", headers_separator=":")


def test_bytes_that_are_no_utf_8_stay_as_they_are() -> None:
    line = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert read(line).value == b"\xff\xfe"
