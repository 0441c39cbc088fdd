"""Lines of standard input as records: split into headers, key and value as Kafka's LineMessageReader does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.cli.kafka.tool import ToolRefused

JAVA_ERROR = "org.apache.kafka.common.KafkaException: "


class Line(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class LineReader:
    """Splits lines as properties say: parse.key, key.separator, parse.headers, null.marker and others.

    With `is_old`, a line without a key gets the error message of Kafka 0.9.
    """

    def __init__(self, properties: Mapping[str, str], *, is_old: bool) -> None:
        self._is_old = is_old
        self._parses_key = _is_true(properties, "parse.key")
        self._parses_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        names = (
            ("headers.delimiter", self._headers_delimiter),
            ("headers.separator", self._headers_separator),
            ("headers.key.separator", self._header_separator),
        )
        for index, (name, text) in enumerate(names):
            for other, another in names[index + 1 :]:
                if text == another:
                    raise ToolRefused(f"{JAVA_ERROR}{name} and {other} may not be equal")
        for name, text in (("key.separator", self._key_separator), names[1], names[0], names[2]):
            if text == self._null:
                raise ToolRefused(f"{JAVA_ERROR}null.marker and {name} may not be equal")

    def read(self, line: str) -> Line:
        """Parse one line, given without its line end. Raises Refused if a key or header is missing."""
        self._number += 1
        headers = (
            self._part(line, 0, self._headers_delimiter, "headers delimiter")
            if self._parses_headers
            else None
        )
        start = 0 if headers is None else len(headers) + len(self._headers_delimiter)
        key = self._part(line, start, self._key_separator, "key separator") if self._parses_key else None
        start += 0 if key is None else len(key) + len(self._key_separator)
        pairs = () if headers is None or headers == self._null else self._headers(headers)
        return Line(self._bytes(key), self._bytes(line[start:]), pairs)

    def _part(self, line: str, start: int, separator: str, name: str) -> str | None:
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self._ignores_errors:
            return None
        if self._is_old:
            raise ToolRefused(f"kafka.common.KafkaException: No key found on line {self._number}: {line}")
        raise ToolRefused(f"{JAVA_ERROR}No {name} found on line number {self._number}: '{line}'")

    def _headers(self, text: str) -> tuple[tuple[str, bytes | None], ...]:
        headers: list[tuple[str, bytes | None]] = []
        for pair in re.split(self._headers_separator, text):
            name, separator, value = pair.partition(self._header_separator)
            if not separator and not self._ignores_errors:
                raise ToolRefused(
                    f"{JAVA_ERROR}No header key separator found in pair '{pair}' "
                    f"on line number {self._number}"
                )
            if name == self._null:
                raise ToolRefused(
                    f"{JAVA_ERROR}Header keys should not be equal to the null marker '{self._null}' as they "
                    "can't be null"
                )
            headers.append((name, self._bytes(value) if separator else None))
        return tuple(headers)

    def _bytes(self, text: str | None) -> bytes | None:
        # Bytes that are no UTF-8 come as lone surrogates, and leave as they came.
        return None if text is None or text == self._null else text.encode("utf-8", "surrogateescape")


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
