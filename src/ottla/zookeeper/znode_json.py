"""Reading of JSON znodes: any bytes become typed fields or one ZnodeError that names the path.

Owns the checks that all codecs share, and no format. Kafka's JSON is plain: objects of integers, strings,
lists and maps. Unknown fields are ignored everywhere, since every newer Kafka adds some; a field that is
there with another type is an error, since guessing would hide a foreign writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping
from typing import TypeVar

from ottla.zookeeper.zookeeper_errors import ZnodeError

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

NO_TIMESTAMP_MS = -1
"""The node has no timestamp."""

TEXT_CHARS_SHOWN = 60
"""How much of a wrong value an error message quotes."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_Value = TypeVar("_Value")


def encode_json(value: Mapping[str, object]) -> bytes:
    """Return compact JSON in UTF-8, in the order of the mapping, as Kafka's writer does."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def shown(value: object) -> str:
    """Return a value as an error message quotes it."""
    text = repr(value)
    return text if len(text) <= TEXT_CHARS_SHOWN else text[:TEXT_CHARS_SHOWN] + "…"


def decode_text(path: str, data: bytes) -> str:
    """Decode the whole node as UTF-8 text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ZnodeError(path, f"not UTF-8 at byte {error.start}: {shown(data)}") from None


def decode_integer(path: str, data: bytes, least: int = LONG_MIN, most: int = LONG_MAX) -> int:
    """Decode the whole node as decimal text."""
    text = decode_text(path, data)
    # Not int() alone: it takes blanks, underscores and other scripts' digits, and Java does not.
    if _INTEGER.fullmatch(text) is None or not least <= int(text) <= most:
        raise ZnodeError(path, f"not a decimal number of {least} … {most}: {shown(text)}")
    return int(text)


def decode_value(path: str, data: bytes) -> object:
    """Decode the whole node as any JSON value."""
    try:
        return json.loads(decode_text(path, data))
    except (ValueError, RecursionError) as error:
        raise ZnodeError(path, f"not JSON ({error}): {shown(data)}") from None


def decode_fields(path: str, data: bytes) -> Fields:
    """Decode the whole node as one JSON object."""
    return Fields.of(path, decode_value(path, data), "the value")


class Fields:
    """The fields of one JSON object, read by name and type; every failure is a ZnodeError."""

    def __init__(self, path: str, fields: Mapping[str, object]) -> None:
        self.path = path
        self._fields = fields

    @classmethod
    def of(cls, path: str, value: object, what: str) -> Fields:
        """Return `value` as an object. Raises an error that calls it `what`."""
        if not isinstance(value, dict):
            raise ZnodeError(path, f"{what} is not a JSON object: {shown(value)}")
        return cls(path, value)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._fields.get(name) is not None

    def names(self) -> tuple[str, ...]:
        """All names, in the order of the text."""
        return tuple(self._fields)

    def integer(self, name: str, least: int = INT_MIN, most: int = INT_MAX) -> int:
        """Return a required integer; true and false are not accepted."""
        return self._integer(self._required(name), f"field {name!r}", least, most)

    def text(self, name: str) -> str:
        """A required string that can be written again as UTF-8."""
        return self._text(self._required(name), f"field {name!r}")

    def nested(self, name: str) -> Fields:
        """A required object."""
        return Fields.of(self.path, self._required(name), f"field {name!r}")

    def integers(self, name: str) -> tuple[int, ...]:
        """A required list of broker ids or the like."""
        return self._list(name, lambda item, what: self._integer(item, what, INT_MIN, INT_MAX))

    def texts(self, name: str) -> tuple[str, ...]:
        """A required list of strings."""
        return self._list(name, self._text)

    def objects(self, name: str) -> tuple[Fields, ...]:
        """A required list of objects."""
        return self._list(name, lambda item, what: Fields.of(self.path, item, what))

    def text_map(self, name: str) -> dict[str, str]:
        """A required map of strings to strings; keys are strings in any JSON."""
        inner = self.nested(name)
        return {self._text(key, f"a key of {name!r}"): inner.text(key) for key in inner.names()}

    def version(self, known: Container[int], default: int | None = None) -> int:
        """The format's version, one of `known`."""
        if default is not None and not self.has("version"):
            return default
        version = self.integer("version")
        if version not in known:
            raise ZnodeError(self.path, f"version {version} of this node is not known")
        return version

    def timestamp_ms(self) -> int:
        """Return the timestamp, which Kafka writes as a string, and some tools as a number; NO_TIMESTAMP_MS
        if it is missing.
        """
        value = self._fields.get("timestamp")
        if value is None:
            return NO_TIMESTAMP_MS
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        return self._integer(value, "field 'timestamp'", LONG_MIN, LONG_MAX)

    def _required(self, name: str) -> object:
        if name not in self._fields:
            raise ZnodeError(self.path, f"field {name!r} is missing")
        return self._fields[name]

    def _integer(self, value: object, what: str, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ZnodeError(self.path, f"{what} is not an integer: {shown(value)}")
        if not least <= value <= most:
            raise ZnodeError(self.path, f"{what} is outside {least} … {most}: {shown(value)}")
        return value

    def _text(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise ZnodeError(self.path, f"{what} is not a string: {shown(value)}")
        # JSON can spell half a surrogate pair, which no encoder of ours could write again.
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise ZnodeError(self.path, f"{what} holds half a surrogate pair: {shown(value)}")
        return value

    def _list(self, name: str, item: Callable[[object, str], _Value]) -> tuple[_Value, ...]:
        value = self._required(name)
        if not isinstance(value, list):
            raise ZnodeError(self.path, f"field {name!r} is not a list: {shown(value)}")
        return tuple(item(element, f"an element of {name!r}") for element in value)
