"""Command lines as Kafka's tools take them, which is as joptsimple reads them.

--topic orders   --topic=orders   -topic orders   --to orders (if only one flag begins so)
--time -1        what follows a flag that needs a value is its value, whatever it looks like
--state          a value that may be left out is taken if it does not begin with a dash
--               behind it are no flags
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Value(Enum):
    """Whether a flag has a value."""

    NONE = "none"
    NEEDED = "needed"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, without its dashes. Values are whole numbers if `is_number`."""

    name: str
    doc: str
    value: Value = Value.NEEDED
    is_number: bool = False


class Usage(NamedTuple):
    """What help says of a tool, its flags, and how its errors begin."""

    name: str
    about: str
    flags: tuple[Flag, ...]
    errors_begin: str = ""


def switch(name: str, doc: str) -> Flag:
    """A flag without a value."""
    return Flag(name, doc, Value.NONE)


def number(name: str, doc: str) -> Flag:
    """A flag whose value is a whole number."""
    return Flag(name, doc, is_number=True)


class WrongFlags(Exception):
    """The command line is wrong; the text is Kafka's."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was given. Names that are no flag of the tool are a mistake of the tool, and raise KeyError."""

    given: dict[str, list[str]]
    known: dict[str, Flag]
    rest: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether a flag was given, with or without a value."""
        return self.known[name].name in self.given

    def any_of(self, *names: str) -> list[str]:
        """Those of the flags that were given."""
        return [name for name in names if self.has(name)]

    def values(self, name: str) -> list[str]:
        """All values of a flag, in order."""
        return self.given.get(self.known[name].name, [])

    def value(self, name: str) -> str | None:
        """The only value of a flag; None if there is none."""
        found = self.values(name)
        if len(found) > 1:
            raise WrongFlags(f"Found multiple arguments for option {name}, but you asked for only one")
        return found[0] if found else None

    def text(self, name: str, default: str = "") -> str:
        """The value, or what it is if it is not given."""
        found = self.value(name)
        return default if found is None else found

    def whole(self, name: str, default: int = -1) -> int:
        """The value of a flag that takes a number."""
        found = self.value(name)
        return default if found is None else int(found)


def parse(flags: Iterable[Flag], arguments: Sequence[str]) -> Options:
    """Read a command line. Raises WrongFlags."""
    known = {flag.name: flag for flag in flags}
    options = Options({}, known)
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            options.rest.extend(words)
            break
        if not word.startswith("-") or word == "-":
            options.rest.append(word)
            continue
        name, separator, value = word.lstrip("-").partition("=")
        flag = _found(name, known)
        values = options.given.setdefault(flag.name, [])
        if separator:
            values.append(_checked(flag, value))
        elif flag.value is Value.NEEDED:
            if not words:
                raise WrongFlags(f"Option {flag.name} requires an argument")
            values.append(_checked(flag, words.pop(0)))
        elif flag.value is Value.OPTIONAL and words and not words[0].startswith("-"):
            values.append(_checked(flag, words.pop(0)))
    return options


def _found(name: str, known: dict[str, Flag]) -> Flag:
    if name in known:
        return known[name]
    begun = [one for one in known if name and one.startswith(name)]
    if len(begun) != 1:
        raise WrongFlags(f"{name} is not a recognized option")
    return known[begun[0]]


def _checked(flag: Flag, value: str) -> str:
    if flag.value is Value.NONE:
        raise WrongFlags(f"Option {flag.name} does not take an argument")
    if flag.is_number:
        try:
            int(value)
        except ValueError:
            raise WrongFlags(f"Cannot parse argument '{value}' of option {flag.name}") from None
    return value
