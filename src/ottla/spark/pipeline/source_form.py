"""[source] of a pipeline, once or several times: what is read, by which name, and how it is decoded. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.decode_form import Decode, decode_of
from ottla.spark.pipeline.ranges import starting
from ottla.spark.pipeline.sections import Section, texts

VIEW = "records"
_OWN = ("bootstrap", "topics", "start", "name", "watermark", "decode")
_WILDCARD = re.compile(r"[*?]")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class SourceForm:
    """Topics of one cluster. `name` is the view that SQL reads, `options` are those of format("ottla")."""

    name: str
    options: Mapping[str, str]
    decode: Decode = field(default_factory=Decode)
    watermark: str = ""
    topics: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The section's name in errors."""
        return "[source]" if self.name == VIEW else f"[[source]] {self.name}:"

    def unmatched(self, there: Iterable[str]) -> list[str]:
        """Its names and wildcards that match none of these topics."""
        names = list(there)
        return [
            topic for topic in self.topics if not any(re.fullmatch(_pattern(topic), name) for name in names)
        ]


def sources_of(given: Sequence[Mapping[str, Any]], decode: Decode) -> tuple[SourceForm, ...]:
    """[source] or every [[source]]; `decode` is for those without one of their own. Raises ConfigError."""
    made = tuple(_source(Section("[source]", section), decode, is_only=len(given) == 1) for section in given)
    names = [source.name for source in made]
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise ConfigError(f"[[source]] name={sorted(double)[0]!r} is there twice: SQL needs different names")
    return made


def _source(given: Section, decode: Decode, *, is_only: bool) -> SourceForm:
    name = given.text("name") or (VIEW if is_only else "")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"[[source]] name={name!r}: each of several sources needs a name for SQL, such as orders"
        )
    own = given.section("decode")
    how = decode_of(own) if given.value("decode", None) is not None else decode
    own.check_all_known()
    return SourceForm(name, source_options(given), how, given.text("watermark"), given.names("topics"))


def source_options(given: Section) -> dict[str, str]:
    """[source] as options of format("ottla"). Raises ConfigError."""
    options = texts(given.others(*_OWN))
    bootstrap, start = given.text("bootstrap"), given.text("start")
    if bootstrap:
        options["kafka.bootstrap.servers"] = bootstrap
    topics = given.names("topics")
    if any(_WILDCARD.search(name) for name in topics):
        options["subscribePattern"] = f"^({'|'.join(_pattern(name) for name in topics)})$"
    elif topics:
        options["subscribe"] = ",".join(topics)
    return {**options, **(starting(start, "[source] start") if start else {})}


def _pattern(name: str) -> str:
    """A regular expression for a wildcard: * stands for anything, ? for one character."""
    parts = {"*": ".*", "?": ".", ".": r"\."}
    return "".join(parts.get(letter, letter) for letter in name)
