"""Parses command lines as Kafka's tools do, which use joptsimple.

--topic orders   --topic=orders   -topic orders   --to orders (if only one flag begins so)
--time -1        what follows a flag that needs a value is its value, whatever it looks like
--state          a value that may be left out is taken if it does not begin with a dash
--               the words after it are no flags
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Value(Enum):
    """Whether a flag takes a value."""

    NONE = "none"
    NEEDED = "needed"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, without its dashes. With `is_number` values are whole numbers."""

    name: str
    doc: str
    value: Value = Value.NEEDED
    is_number: bool = False


class Usage(NamedTuple):
    """A tool's description, its flags, and the beginning of its error messages."""

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
    """The parsed command line. Asking for a flag that the tool does not declare raises KeyError."""

    given: dict[str, list[str]]
    known: dict[str, Flag]
    rest: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether a flag was given, with or without a value."""
        return self.known[name].name in self.given

    def any_of(self, *names: str) -> list[str]:
        """Return the flags among these that were given."""
        return [name for name in names if self.has(name)]

    def values(self, name: str) -> list[str]:
        """All values of a flag, in order."""
        return self.given.get(self.known[name].name, [])

    def value(self, name: str) -> str | None:
        """The only value of a flag; None if there is none."""
        values = self.values(name)
        if len(values) > 1:
            raise WrongFlags(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def text(self, name: str, default: str = "") -> str:
        """The value, or the default."""
        value = self.value(name)
        return default if value is None else value

    def whole(self, name: str, default: int = -1) -> int:
        """The value of a flag that takes a number."""
        value = self.value(name)
        return default if value is None else int(value)


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
        flag = _flag_named(name, known)
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


def _flag_named(name: str, known: dict[str, Flag]) -> Flag:
    if name in known:
        return known[name]
    begun = [flag for flag in known if name and flag.startswith(name)]
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
