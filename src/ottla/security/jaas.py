"""sasl.jaas.config of Java: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";

An option is `name=value`; a value with spaces or other signs is in quotes, with \\ before a quote in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ottla.model.errors import ConfigError

TEXT_MAX = 1 << 16
"""Above it the text is refused: it is no login module."""
FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s=;"']+)|([=;]))""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A Java class and its options. The options are secrets: they are not in the repr."""

    class_name: str
    options: dict[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        """The class without its package, as PlainLoginModule."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """Return the login module of a text. Raises ConfigError, which does not repeat the text."""
    tokens = _tokens(text, setting)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise ConfigError(f"{setting}: it must be: class of a login module, required, options, and a ';'")
    (class_name, _), (flag, _), *rest = tokens[:-1]
    if flag.lower() not in FLAGS:
        raise ConfigError(f"{setting}: after the class {class_name} there must be one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    for at in range(0, len(rest), 3):
        option = rest[at : at + 3]
        if len(option) < 3 or option[1] != ("=", True) or option[0][1] or option[2][1]:
            raise ConfigError(f'{setting}: the options of {class_name} must be name=value or name="value"')
        options[option[0][0]] = option[2][0]
    return LoginModule(class_name, options)


def _tokens(text: str, setting: str) -> list[tuple[str, bool]]:
    """The words and signs of a text; True marks a sign."""
    if len(text) > TEXT_MAX:
        raise ConfigError(f"{setting}: more than {TEXT_MAX} characters")
    tokens: list[tuple[str, bool]] = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError(f"{setting}: it cannot be read from character {at} on; is a quote missing?")
        double, single, word, sign = match.groups()
        inner = double if double is not None else single
        tokens.append((sign or word or _ESCAPE.sub(r"\1", inner or ""), bool(sign)))
        at = match.end()
    return tokens
