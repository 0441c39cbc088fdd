"""Sections of a TOML file, read by name: what nobody asked for is an error with the nearest name. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from ottla.model.errors import ConfigError

T = TypeVar("T", bound=StrEnum)


class Section:
    """One section. It notes which names were asked for."""

    def __init__(self, where: str, given: Mapping[str, Any]) -> None:
        self._where = where
        self._given = given
        self._known: set[str] = set()
        self._takes_others = False

    def section(self, name: str) -> Section:
        """A section within it; empty if it is not there."""
        found = self._value(name, {})
        if not isinstance(found, Mapping):
            raise ConfigError(f"{name}={found!r:.100}: a section [{name}] is wanted")
        return Section(f"[{name}]", found)

    def text(self, name: str) -> str:
        """Empty if it is not there."""
        found = self._value(name, "")
        if not isinstance(found, str | int | float):
            raise ConfigError(f"{self._where} {name}={found!r:.100}: a text is wanted")
        return str(found)

    def names(self, name: str) -> tuple[str, ...]:
        """Texts; one text alone is one of them."""
        found = self._value(name, [])
        if isinstance(found, str):
            return (found,)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ConfigError(f"{self._where} {name}={found!r:.100}: a list of texts is wanted")
        return tuple(found)

    def number(self, name: str, default: int = 0) -> int:
        """A whole number that is not negative."""
        found = self._value(name, default)
        if type(found) is not int or found < 0:
            raise ConfigError(f"{self._where} {name}={found!r:.100}: a whole number from 0 on is wanted")
        return found

    def others(self, *names: str) -> dict[str, Any]:
        """What is there besides these; all of it is known then."""
        self._takes_others = True
        return {name: value for name, value in self._given.items() if name not in names}

    def _value(self, name: str, default: Any) -> Any:
        self._known.add(name)
        return self._given.get(name, default)

    def check_all_known(self) -> None:
        """Raise ConfigError for a name that was not asked for."""
        for name in self._given:
            if name not in self._known and not self._takes_others:
                close = difflib.get_close_matches(name, self._known, n=1)
                known = ", ".join(sorted(self._known))
                hint = f"did you mean {close[0]}?" if close else f"there are {known}"
                raise ConfigError(f"{self._where} has {name}; {hint}")


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark wants them: true and 5 are texts there, and kafka.acks is one name."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": text for key, text in texts(value).items()}
        else:
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def choice(kind: type[T], value: str, what: str) -> T:
    """One of an enumeration. Raises ConfigError with all of them."""
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{what}={value!r}: it must be {' or '.join(kind)}") from None
