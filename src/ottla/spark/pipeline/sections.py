"""Sections of a TOML file, read by name. Unknown names are errors that suggest the nearest one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError

T = TypeVar("T", bound=StrEnum)


class Section:
    """A section. It remembers which names were read."""

    def __init__(self, where: str, given: Mapping[str, Any]) -> None:
        self._where = where
        self._given = given
        self._known: set[str] = set()
        self._takes_others = False

    def section(self, name: str) -> Section:
        """A nested section; empty if it is missing."""
        value = self.value(name, {})
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name}={value!r:.100}: a section [{name}] is wanted")
        return Section(f"[{name}]", value)

    def text(self, name: str) -> str:
        """A text; empty if it is missing."""
        value = self.value(name, "")
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{self._where} {name}={value!r:.100}: a text is wanted")
        return str(value)

    def names(self, name: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        value = self.value(name, [])
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise ConfigError(f"{self._where} {name}={value!r:.100}: a list of texts is wanted")
        return tuple(value)

    def number(self, name: str, default: int = 0) -> int:
        """A whole number from 0 on."""
        value = self.value(name, default)
        if type(value) is not int or value < 0:
            raise ConfigError(f"{self._where} {name}={value!r:.100}: a whole number from 0 on is wanted")
        return value

    def others(self, *names: str) -> dict[str, Any]:
        """All other settings; they count as read."""
        self._takes_others = True
        return {name: value for name, value in self._given.items() if name not in names}

    def value(self, name: str, default: Any) -> Any:
        self._known.add(name)
        return self._given.get(name, default)

    def check_all_known(self) -> None:
        """Raise ConfigError for a name that was never read."""
        for name in self._given:
            if name not in self._known and not self._takes_others:
                others = f"; there are {', '.join(sorted(self._known))}"
                raise ConfigError(f"{self._where} has {name}{hint(name, self._known, otherwise=others)}")


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark wants them: values as text, nested tables as dotted names."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": text for key, text in texts(value).items()}
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


def choice(kind: type[T], value: str, what: str) -> T:
    """The member of an enumeration. Raises ConfigError that lists all of them."""
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{what}={value!r}: it must be {' or '.join(kind)}") from None
