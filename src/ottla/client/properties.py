"""Settings of clients by Kafka's names: a table of rows, and one function that reads what a user gives by it.

    TABLE = (*CLIENT_PROPERTIES, Property("fetch.min.bytes", INT, 1, "…", minimum=0))
    values = parse_properties(TABLE, {"bootstrap.servers": "kafka:9092", "fetch_min_bytes": "64"})
    values["fetch_min_bytes"]   # 64

Names may be dotted or snake_case, values texts (of a properties file) or what they mean in Python. The result
has every field of the table. A name that no row has is an error that tells the nearest one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.model.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of a property are read. `read` raises ValueError; `wanted` ends the message then."""

    name: str
    read: Callable[[object], Any]
    wanted: str


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    raise ValueError


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    found = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError
    return found


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise ValueError


def _secret(value: object) -> str:
    if isinstance(value, str):
        return value  # blanks at its ends may belong to it
    raise ValueError


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable):
        parts = tuple(value)
        if all(isinstance(part, str) for part in parts):
            return parts
    raise ValueError


INT = Kind("int", _whole, "a whole number")
BOOLEAN = Kind("boolean", _boolean, "true or false")
TEXT = Kind("text", _text, "a text")
UPPER_TEXT = Kind("text", lambda value: _text(value).upper(), "a text")
PASSWORD = Kind("password", _secret, "a text")
TEXTS = Kind("list", _texts, "a list, or a text with commas")


@dataclass(frozen=True, slots=True)
class Property:
    """A row. `field` is the name in Python, the dotted name with underscores if not given.

    `check` gets the value and returns what is to be used; its ConfigError is raised with the name before it.
    Numbers are within `minimum` and `maximum`, both included; texts among `choices` if there are any.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    field: str = ""
    synonyms: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int = INT_MAX
    choices: tuple[str, ...] = ()
    check: Callable[[Any], Any] | None = None

    @property
    def key(self) -> str:
        """Its name among the parsed values."""
        return self.field or snake(self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """All that a user may write, in snake_case."""
        return tuple(dict.fromkeys(snake(name) for name in (self.name, self.key, *self.synonyms)))

    def parse(self, value: object) -> Any:
        """The value to use. Raises ConfigError that names the property, the value and what would be right."""
        try:
            read = self.kind.read(value)
        except ValueError:
            raise self.refused(value, f"{self.kind.wanted} is wanted") from None
        if self.minimum is not None and not self.minimum <= read <= self.maximum:
            raise self.refused(value, f"it must be {self.minimum} to {self.maximum}")
        if self.choices and read not in self.choices:
            raise self.refused(value, f"it must be {' or '.join(self.choices)}")
        if self.check is None:
            return read
        try:
            return self.check(read)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def refused(self, value: object, remedy: str) -> ConfigError:
        """The error for a value."""
        shown = "…" if self.kind is PASSWORD else f"{value!r:.200}"
        return ConfigError(f"{self.name}={shown}: {remedy}")


Table = Iterable[Property]


def snake(name: str) -> str:
    """A dotted name in snake_case."""
    return name.strip().replace(".", "_")


def merged(properties: object, more: Mapping[str, object]) -> dict[str, object]:
    """What a client is given, as a mapping or None, and as keywords. Raises ConfigError for anything else."""
    if properties is None:
        return dict(more)
    if isinstance(properties, Mapping):
        return {**properties, **more}
    shown = f"{properties!r:.100}"
    raise ConfigError(f"settings have names, as in bootstrap_servers='HOST:PORT', and {shown} has none")


def parse_properties(
    table: Table, given: Mapping[str, object], *, foreign: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Every field of the table with its value, given or default.

    `foreign` has names that are not ours, with what to write instead. Raises ConfigError for a name that no
    row has, for one given twice, and for a wrong value.
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


def _unknown(name: str, rows: Iterable[Property], foreign: Mapping[str, str]) -> ConfigError:
    remedy = {snake(other): text for other, text in foreign.items()}.get(snake(name))
    if remedy is not None:
        return ConfigError(f"{name} is not known here: {remedy}")
    dotted = {snake(known): known for row in rows for known in (row.name, *row.synonyms)}
    close = difflib.get_close_matches(snake(name), list(dotted), n=1, cutoff=0.6)
    hint = (
        f"; did you mean {dotted[close[0]]}?"
        if close
        else f"; known are {', '.join(sorted(dotted.values()))}"
    )
    return ConfigError(f"{name} is no setting of this client{hint}")
