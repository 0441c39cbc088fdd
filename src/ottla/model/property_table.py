"""Tables of settings under Kafka's names, for the broker, the clients and Spark alike.

    TABLE = (*CLIENT_PROPERTIES, Property("fetch.min.bytes", INT, 1, "…", minimum=0))
    values = parse_properties(TABLE, {"bootstrap.servers": "kafka:9092", "fetch_min_bytes": "64"})
    values["fetch_min_bytes"]   # 64

A `Property` is one row: name, kind, default, range, meaning. Names may be dotted or snake_case. Values may be
texts, as in a properties file, or Python values. Texts are read as Kafka's ConfigDef reads them: spaces
around them do not count, booleans are true or false in any case, numbers are decimal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SHOWN_LENGTH_MAX = 200
"""How much of a wrong value an error text repeats."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a property are read. `read` raises ValueError; the error text then names `wanted`.

    `name` is Kafka's name of the type, in lower case.
    """

    name: str
    read: Callable[[object], Any]
    wanted: str


def _whole(bits: int) -> Callable[[object], int]:
    end = 1 << (bits - 1)

    def read(value: object) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        else:
            raise ValueError
        if not -end <= number < end:
            raise ValueError
        return number

    return read


def _decimal(value: object) -> float:
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError


def _boolean(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    if isinstance(value, bool):
        return value
    raise ValueError


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise ValueError


def _secret(value: object) -> str:
    if isinstance(value, str):
        return value  # spaces at its ends may belong to it
    raise ValueError


def _items(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_COMMA.split(value.strip())) if value.strip() else ()
    if isinstance(value, Iterable):
        items = tuple(value)
        if all(isinstance(item, str) for item in items):
            return items
    raise ValueError


def _items_without_gaps(value: object) -> tuple[str, ...]:
    return tuple(item.strip() for item in _items(value) if item.strip())


INT = Kind("int", _whole(32), "a whole number of 32 bits")
LONG = Kind("long", _whole(64), "a whole number of 64 bits")
DOUBLE = Kind("double", _decimal, "a decimal number")
BOOLEAN = Kind("boolean", _boolean, "true or false")
TEXT = Kind("string", _text, "a text")
UPPER_TEXT = Kind("string", lambda value: _text(value).upper(), "a text")
PASSWORD = Kind("password", _secret, "a text")
LIST = Kind("list", _items, "a list, or a text with commas")
TEXTS = Kind("list", _items_without_gaps, "a list, or a text with commas")
"""As LIST, but without empty items."""


@dataclass(frozen=True, slots=True)
class Property:
    """One row of a table.

    field     the name among the parsed values; the name with underscores if not given
    synonyms  other names for the same setting
    minimum, maximum   both inclusive, for numbers
    choices, pattern   what a text may be; for a list they hold for each item
    unit      of a number, for error texts
    check     gets the value and returns what is to be used; the row's name is put before its ConfigError
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    field: str = ""
    synonyms: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[Any], Any] | None = None
    pattern: str = ""
    unit: str = ""

    @property
    def key(self) -> str:
        """The name among the parsed values."""
        return self.field or snake(self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that a user may write, in snake_case."""
        return tuple(dict.fromkeys(snake(name) for name in (self.name, self.key, *self.synonyms)))

    def parse(self, value: object) -> Any:
        """Return the value to use. Raises ConfigError that names the property, the value and the remedy."""
        return self.checked(self.read(value))

    def read(self, value: object) -> Any:
        """Return the value as its kind reads it, within range, but not yet given to `check`."""
        try:
            read = self.kind.read(value)
        except ValueError:
            raise self.refused(value, f"it must be {self.kind.wanted}{self._unit()}") from None
        self.check_range(read)
        return read

    def checked(self, read: Any) -> Any:
        """Return what `check` returns for a value that was read."""
        if self.check is None:
            return read
        try:
            return self.check(read)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def check_range(self, read: Any) -> None:
        """Raise ConfigError if a value that was read is out of range or not among the choices."""
        if self.minimum is not None and read < self.minimum:
            raise self.refused(read, f"it must be at least {self.minimum}{self._unit()}")
        if self.maximum is not None and read > self.maximum:
            raise self.refused(read, f"it must be at most {self.maximum}{self._unit()}")
        for item in read if isinstance(read, tuple) else (read,):
            if self.choices and text_of(item) not in self.choices:
                why = f". {self.doc}" if len(self.choices) == 1 else ""
                raise self.refused(read, f"it must be {' or '.join(self.choices)}{why}")
            if self.pattern and not re.fullmatch(self.pattern, item):
                raise self.refused(read, f"it must match {self.pattern}")

    def refused(self, value: object, remedy: str) -> ConfigError:
        """Return the error for a value of this property. A password is not shown."""
        shown = "…" if self.kind is PASSWORD else str(text_of(value))[:SHOWN_LENGTH_MAX]
        return ConfigError(f"{self.name}={shown}: {remedy}")

    def _unit(self) -> str:
        return f" ({self.unit})" if self.unit else ""


Table = Iterable[Property]


def snake(name: str) -> str:
    """Return a dotted name in snake_case."""
    return name.strip().replace(".", "_")


def text_of(value: Any) -> str | None:
    """Return a value as Kafka writes it; None for a setting that is not set."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return None if value is None else str(value)


def merged(properties: object, more: Mapping[str, object]) -> dict[str, object]:
    """Join settings given as a mapping (or None) and as keywords. Raises ConfigError for anything else."""
    if properties is None:
        return dict(more)
    if isinstance(properties, Mapping):
        return {**properties, **more}
    shown = f"{properties!r:.100}"
    raise ConfigError(f"settings have names, as in bootstrap_servers='HOST:PORT', and {shown} has none")


def parse_properties(
    table: Table, given: Mapping[str, object], *, foreign: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return every field of the table with its value, given or default.

    `foreign` has names that are not ours, with what to write instead. Raises ConfigError for a name that no
    row has, for a setting given twice, and for a wrong value.
    """
    rows = tuple(table)
    by_name = {name: row for row in rows for name in row.names}
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in given.items():
        row = by_name.get(snake(name))
        if row is None:
            raise _unknown(name, rows, foreign or {})
        if row.key in values:
            raise ConfigError(f"{name} and {origin[row.key]} are the same setting: give one of them")
        origin[row.key] = name
        values[row.key] = row.parse(value)
    for row in rows:
        if row.key not in values:
            values[row.key] = row.default
    return values


_SECURITY = ("sasl.", "ssl.")
"""Beginnings of names that every client has, and that nobody looks for in an error."""


def _unknown(name: str, rows: Iterable[Property], foreign: Mapping[str, str]) -> ConfigError:
    remedy = {snake(other): text for other, text in foreign.items()}.get(snake(name))
    if remedy is not None:
        return ConfigError(f"{name} is not known here: {remedy}")
    table = list(rows)
    known = [known for row in table for known in (row.name, *row.synonyms)]
    shown = sorted(row.name for row in table if not row.name.startswith(_SECURITY))
    others = f"; known are {', '.join(shown)}{', sasl.… and ssl.…' if len(shown) < len(table) else ''}"
    return ConfigError(f"{name} is no setting of this client{hint(name, known, otherwise=others)}")
