"""One row of a table of settings: a text of a person's becomes a checked value, and a value a text.

`target` says where the value goes: "flush_ms" is a field of BrokerConfig, "log.segment_bytes" one of its
LogConfig. Rows with the same target are synonyms; the one that stands first in its table wins. A row in hours
or minutes has a `factor`, so that its value is in the unit of its target.

Texts are read as Kafka's ConfigDef reads them: blanks around a text do not count, booleans are true and false
in any case, numbers are decimal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

from ottla.model.errors import ConfigError

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class SettingType(IntEnum):
    """The codes of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}


class UpdateMode(Enum):
    """Whether a running broker takes a new value."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


def same(value: Any) -> Any:
    """The conversion of a setting whose value is used as it is."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row. `minimum` and `maximum` are inclusive and in the row's own unit; `choices` and `pattern` hold
    for each item of a list.

    `synonyms` of a topic's setting are the names under which a broker sets its default, the strongest first.
    `convert` makes the value that the program uses of the parsed one.
    """

    name: str
    type: SettingType
    default: bool | int | float | str | tuple[str, ...] | None
    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    synonyms: tuple[str, ...] = ()
    update: UpdateMode = UpdateMode.READ_ONLY
    target: str = ""
    factor: int = 1
    convert: Callable[[Any], Any] = same

    def parse(self, text: str) -> Any:
        """The value in the row's own unit; raises ConfigError that names setting, text and remedy."""
        stripped = text.strip()
        if self.type is SettingType.BOOLEAN:
            value: Any = {"true": True, "false": False}.get(stripped.lower())
            if value is None:
                raise self.refused(text, "it must be true or false")
        elif self.type in _BITS:
            value = self._whole(stripped)
        elif self.type is SettingType.DOUBLE:
            if not _DECIMAL.fullmatch(stripped):
                raise self.refused(text, "it must be a decimal number")
            value = float(stripped)
        elif self.type is SettingType.LIST:
            value = tuple(re.split(r"\s*,\s*", stripped)) if stripped else ()
        else:
            value = stripped
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raise ConfigError if a parsed value is out of its range or not among its choices."""
        if self.minimum is not None and value < self.minimum:
            raise self.refused(value, f"it must be at least {self.minimum}{self._unit()}")
        if self.maximum is not None and value > self.maximum:
            raise self.refused(value, f"it must be at most {self.maximum}{self._unit()}")
        items = value if isinstance(value, tuple) else (value,)
        for item in items:
            if self.choices and text_of(item) not in self.choices:
                why = f". {self.doc}" if len(self.choices) == 1 else ""
                raise self.refused(value, f"it must be {' or '.join(self.choices)}{why}")
            if self.pattern and not re.fullmatch(self.pattern, item):
                raise self.refused(value, f"it must match {self.pattern}")

    def scaled(self, text: str) -> Any:
        """The value in the unit of the target; a negative number of hours or minutes is no limit."""
        value = self.parse(text)
        if self.factor == 1:
            return value
        return value * self.factor if value >= 0 else -1

    def value_of(self, text: str) -> Any:
        """The value that the program uses."""
        return self.convert(self.scaled(text))

    def refused(self, value: object, remedy: str) -> ConfigError:
        """The error for a value of this setting."""
        return ConfigError(f"{self.name}={text_of(value)}: {remedy}")

    def _whole(self, text: str) -> int:
        bits = _BITS[self.type]
        value = int(text) if _WHOLE.fullmatch(text) and len(text) <= 20 else None
        if value is None or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self.refused(text, f"it must be a whole number of {bits} bits{self._unit()}")
        return value

    def _unit(self) -> str:
        return f" ({self.unit})" if self.unit else ""


Table = Mapping[str, Setting]


def table(rows: Iterable[Setting]) -> dict[str, Setting]:
    """Rows by name, in their order."""
    return {row.name: row for row in rows}


def text_of(value: Any) -> str | None:
    """A value as Kafka writes it in DescribeConfigs; None for a setting that is not set."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    if isinstance(value, tuple):
        return ",".join(value)
    return None if value is None else str(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
