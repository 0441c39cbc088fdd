r"""The syntax of server.properties, as `java.util.Properties` reads it.

    # or ! begins a comment            key=value   key:value   key value   key
    a\                                 a backslash at the end of a line: the next line continues, without its
      b                                leading blanks
    \t \n \r \f \u00e9 \= \: \\        escapes; a backslash before anything else is dropped

Files are ISO 8859-1, other letters are escaped: a file must mean the same to Kafka and to us.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ottla.model.errors import ConfigError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.|$)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path | str) -> dict[str, str]:
    """Return the properties of a file. Raises ConfigError that names the file."""
    try:
        text = Path(path).read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return parse_properties_text(text)
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from error


def parse_properties_text(text: str) -> dict[str, str]:
    """Return the properties of a text; the last of several with the same key counts."""
    properties = {}
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        separator = _SEPARATOR.match(line, key.end() if key else 0)
        if key and separator:
            properties[_unescaped(key.group(), number)] = _unescaped(line[separator.end() :], number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments and empty lines; continued lines are joined.

    With the number of the first line.
    """
    pending, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            pending += line[:-1]
            continue
        if pending or line:
            yield first, pending + line
        pending, first = "", 0
    if pending:
        yield first, pending


def _unescaped(text: str, number: int) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise ConfigError(f"line {number}: \\u must be followed by four hexadecimal digits")
        return _ESCAPES.get(escape, escape)

    if "\\" not in text:
        return text
    # Java's escapes are UTF-16: two of them may be one character.
    pairs = _ESCAPE.sub(plain, text)
    return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
