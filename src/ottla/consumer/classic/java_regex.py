"""Java's regular expressions for topic names as Python's: every member evaluates the patterns of all members.

A topic name can only have 65 different characters. So a class of characters, with Java's unions,
intersections and properties, is evaluated here and written as the list of characters that it allows. The rest
of the syntax is kept where both languages agree, and translated or refused where they do not.

    a\\.\\p{Digit}+        →  a\\.[0123456789]+
    [a-z&&[^x]](?<n>b)    →  [abc…wyz](?P<n>b)
    \\Qa.b\\E              →  a\\.b
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from ottla.model.errors import ConfigError

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters of topic names."""


def _only(characters: str) -> frozenset[str]:
    return ALPHABET & set(characters)


_LETTERS, _DIGITS = _only(string.ascii_letters), _only(string.digits)
_UPPER, _LOWER = _only(string.ascii_uppercase), _only(string.ascii_lowercase)
_PUNCTUATION = _only("._-")

_PROPERTIES = {
    "lower": _LOWER,
    "upper": _UPPER,
    "ascii": ALPHABET,
    "alpha": _LETTERS,
    "digit": _DIGITS,
    "alnum": _LETTERS | _DIGITS,
    "punct": _PUNCTUATION,
    "graph": ALPHABET,
    "print": ALPHABET,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "space": frozenset[str](),
    "xdigit": _only(string.hexdigits),
    "javalowercase": _LOWER,
    "javauppercase": _UPPER,
    "javawhitespace": frozenset[str](),
    "javamirrored": frozenset[str](),
    "l": _LETTERS,
    "lu": _UPPER,
    "ll": _LOWER,
    "lt": frozenset[str](),
    "n": _DIGITS,
    "nd": _DIGITS,
    "p": _PUNCTUATION,
    "pc": _only("_"),
    "pd": _only("-"),
    "po": _only("."),
    "alphabetic": _LETTERS,
    "uppercase": _UPPER,
    "lowercase": _LOWER,
    "latin": _LETTERS,
    "basic_latin": ALPHABET,
    "basiclatin": ALPHABET,
}
_CLASSES = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | _only("_"),
    "s": frozenset[str](),
    "h": frozenset[str](),
    "v": frozenset[str](),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"A": r"\A", "z": r"\Z", "Z": r"\Z", "b": r"\b", "B": r"\B"}
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")


def compile_java(pattern: str) -> re.Pattern[str]:
    """Return the pattern for `fullmatch` on topic names. Raises ConfigError for syntax that Python does not
    have."""
    try:
        return re.compile(_Translation(pattern).result(), re.ASCII)
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from None


class _Translation:
    """Translates one pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignores_case = False

    def result(self) -> str:
        """The whole pattern."""
        return self._alternatives(depth=0)

    def _alternatives(self, depth: int) -> str:
        """Translate up to the parenthesis that ends a group. Flags that begin inside it end with it."""
        out = ""
        wraps = 0
        outer = self._ignores_case
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == ")" and depth:
                break
            if character == "(":
                opened, piece = self._group(depth)
                wraps += opened
                out += piece
            elif character == "|" and wraps:
                # Java's flag holds for all later alternatives too; Python's group ends with the alternative.
                out += ")" * wraps + "|" + "(?i:" * (1 if self._ignores_case else 0)
                wraps = 1 if self._ignores_case else 0
                self._at += 1
            else:
                out += self._atom(character)
        self._ignores_case = outer
        return out + ")" * wraps

    def _atom(self, character: str) -> str:
        if character == "\\":
            return self._escape()
        if character == "[":
            self._at += 1
            return _written(self._character_class())
        self._at += 1
        return character

    def _group(self, depth: int) -> tuple[int, str]:
        """Translate a group up to its closing parenthesis.

        Flags for the rest of the pattern, such as `(?i)`, become a group that the caller closes.
        """
        flags = _FLAGS.match(self._pattern, self._at)
        if flags and (flags[1] or flags[2] or flags[3] == ")"):
            self._at = flags.end()
            ignores_case = self._flagged(flags[1], flags[2] or "")
            if flags[3] == ")":
                self._ignores_case = ignores_case
                return (1, "(?i:" if ignores_case else "(?-i:")
            outer, self._ignores_case = self._ignores_case, ignores_case
            inner = self._alternatives(depth + 1)
            self._ignores_case = outer
            return 0, ("(?i:" if ignores_case else "(?-i:") + inner + self._end()
        opening = "("
        for java, python in (("(?<=", "(?<="), ("(?<!", "(?<!"), ("(?<", "(?P<"), ("(?", "(?")):
            if self._pattern.startswith(java, self._at):
                opening = python
                self._at += len(java)
                break
        else:
            self._at += 1
        if opening == "(?":
            opening += self._pattern[self._at : self._at + 1]
            self._at += 1
        elif opening == "(?P<":
            end = self._pattern.find(">", self._at)
            opening += self._pattern[self._at : end + 1]
            self._at = end + 1
        return 0, opening + self._alternatives(depth + 1) + self._end()

    def _end(self) -> str:
        if self._at >= len(self._pattern):
            raise ConfigError(f"{self._pattern!r} is not a regular expression: a '(' is not closed")
        self._at += 1
        return ")"

    def _flagged(self, on: str, off: str) -> bool:
        unknown = set(on + off) - set("imsud")
        if unknown:
            raise self._refused(f"the flag {sorted(unknown)[0]!r}")
        if "i" in on:
            return True
        return self._ignores_case and "i" not in off

    def _escape(self) -> str:
        """Translate an escape that is not inside a character class."""
        following = self._pattern[self._at + 1 : self._at + 2]
        if following in _ANCHORS and following:
            self._at += 2
            return _ANCHORS[following]
        if following == "Q":
            return re.escape(self._quoted())
        if following == "k":
            end = self._pattern.find(">", self._at)
            name = self._pattern[self._at + 3 : end]
            self._at = end + 1
            return f"(?P={name})"
        if following in "123456789" and following:
            self._at += 2
            return f"(?:\\{following})"
        if following in {"G", "X", "R", "N"}:
            raise self._refused(f"\\{following}")
        characters = self._escaped_set()
        return _written(characters) if len(characters) != 1 else re.escape(next(iter(characters)))

    def _quoted(self) -> str:
        begin = self._at + 2
        end = self._pattern.find("\\E", begin)
        self._at = len(self._pattern) if end < 0 else end + 2
        return self._pattern[begin:] if end < 0 else self._pattern[begin:end]

    def _escaped_set(self) -> frozenset[str]:
        """Return the characters that an escape stands for, including those that no topic name has."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if letter.lower() in _CLASSES and letter:
            characters = _CLASSES[letter.lower()]
            return ALPHABET - characters if letter.isupper() else characters
        if letter in {"p", "P"}:
            characters = self._property()
            return ALPHABET - characters if letter == "P" else characters
        return frozenset({self._escaped_character(letter)})

    def _escaped_character(self, letter: str) -> str:
        numbered: dict[str, Callable[[], str]] = {
            "x": lambda: self._number(r"\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2})", 16),
            "u": lambda: self._number(r"([0-9a-fA-F]{4})", 16),
            "0": lambda: self._number(r"([0-3]?[0-7]{1,2})", 8),
            "c": lambda: chr(ord(self._take()) ^ 64),
        }
        if letter in numbered:
            return numbered[letter]()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if not letter or (letter.isascii() and letter.isalpha()):
            raise self._refused(f"\\{letter}")
        return letter

    def _number(self, digits: str, base: int) -> str:
        match = re.compile(digits).match(self._pattern, self._at)
        if match is None or int(match[match.lastindex or 0], base) > 0x10FFFF:
            raise self._refused("an escape without its number")
        self._at = match.end()
        return chr(int(match[match.lastindex or 0], base))

    def _property(self) -> frozenset[str]:
        match = re.compile(r"\{\^?([A-Za-z_0-9=]+)\}|([A-Za-z])").match(self._pattern, self._at)
        name = (match[1] or match[2]) if match else ""
        plain = name.rpartition("=")[2].lower()
        known = _PROPERTIES.get(plain) or _PROPERTIES.get(plain.removeprefix("is").removeprefix("in"))
        if match is None or (known is None and plain not in _PROPERTIES):
            raise self._refused(f"\\p{{{name}}}")
        self._at = match.end()
        return known or frozenset()

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise ConfigError(f"{self._pattern!r} is not a regular expression: it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _character_class(self) -> frozenset[str]:
        """Read a character class, from after the opening bracket to the closing bracket."""
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        result: frozenset[str] | None = None
        current: frozenset[str] = frozenset()
        is_first = True
        while True:
            if self._pattern.startswith("&&", self._at):
                self._at += 2
                if not is_first:  # Java takes "[&&a]" for "[a]"
                    result, current = current if result is None else result & current, frozenset()
                continue
            character = self._take()
            if character == "]" and not is_first:
                break
            is_first = False
            if character == "[":
                current |= self._character_class()
            else:
                current |= self._item(character)
        allowed = self._folded(current if result is None else result & current)
        return ALPHABET - allowed if negated else allowed

    def _item(self, character: str) -> frozenset[str]:
        """Return the characters of one item of a class: a character, an escape, a quotation or a range."""
        if character == "\\":
            self._at -= 1
            if self._pattern.startswith("\\Q", self._at):
                return frozenset(self._quoted())
            characters = self._escaped_set()
            if len(characters) != 1:
                return characters
            (character,) = characters
        is_range = re.compile(r"-(?![\]\[]|&&)").match(self._pattern, self._at)
        if is_range is None:
            return frozenset({character})
        self._at += 1
        last = self._take()
        if last == "\\":
            self._at -= 1
            ends = self._escaped_set()
            if len(ends) != 1:
                return ends | {character, "-"}
            (last,) = ends
        if last < character:
            raise ConfigError(f"{self._pattern!r} is not a regular expression: no range {character}-{last}")
        return frozenset(each for each in ALPHABET if character <= each <= last)

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        """Add the other case of each letter. Do this before a negation: Java folds the listed characters."""
        if not self._ignores_case:
            return characters
        return characters | {each.swapcase() for each in characters}

    def _refused(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._pattern!r}: {what} of Java's regular expressions is not available here; "
            "write the characters themselves"
        )


def _written(characters: frozenset[str]) -> str:
    """Return the characters as a Python character class; if there are none, a pattern that never matches."""
    allowed = "".join(sorted(characters & ALPHABET))
    if not allowed:
        return "(?!)"
    return "[" + allowed.replace("-", r"\-") + "]"
