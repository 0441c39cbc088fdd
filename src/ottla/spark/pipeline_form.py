"""What a pipeline is declared by: a TOML file or a dictionary, checked once. Pure.

[source]                              options of format("ottla")
"kafka.bootstrap.servers" = "127.0.0.1:9092"
subscribe = "orders"

[decode]                              optional: what values are
format = "json"                       binary (as they are), string or json
schema = "id long, amount double"     of json

[transform]                           optional
sql = "select value.id, value.amount, date(timestamp) as day from records"
python = "module:function"            a DataFrame in, a DataFrame out; after the sql

[sink]
format = "parquet"                    parquet, topic, console, or landing (raw, never in the JVM)
path = "tables/orders"                of parquet and landing
partition_by = ["day"]                of parquet
options = { topic = "totals" }        of topic: those of format("ottla")

[dead_letters]                        optional: where values go that do not decode
path = "tables/orders-bad"
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from ottla.model.errors import ConfigError


class Decoding(StrEnum):
    """What values are."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"


class SinkFormat(StrEnum):
    """Where rows go."""

    PARQUET = "parquet"
    TOPIC = "topic"
    CONSOLE = "console"
    LANDING = "landing"


T = TypeVar("T", bound=StrEnum)

_KEYS: Mapping[str, tuple[str, ...]] = {
    "decode": ("format", "schema"),
    "transform": ("sql", "python"),
    "sink": ("format", "path", "partition_by", "options"),
    "dead_letters": ("path",),
}
_SECTIONS = ("source", *_KEYS)
_WITH_PATH = {SinkFormat.PARQUET, SinkFormat.LANDING}


@dataclass(frozen=True, slots=True)
class PipelineForm:
    """Checked. Empty texts are what was not given."""

    source: Mapping[str, str]
    sink: SinkFormat
    decoding: Decoding = Decoding.BINARY
    schema: str = ""
    sql: str = ""
    python: str = ""
    path: str = ""
    partition_by: tuple[str, ...] = ()
    sink_options: Mapping[str, str] | None = None
    dead_letters: str = ""

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Of a TOML file. Raises ConfigError with its name."""
        try:
            return cls.of(tomllib.loads(Path(path).read_text()))
        except (OSError, tomllib.TOMLDecodeError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Of what such a file holds. Raises ConfigError."""
        _check_names("the pipeline", given, _SECTIONS)
        for name, keys in _KEYS.items():
            _check_names(f"[{name}]", _section(given, name), keys)
        source, sink = _section(given, "source"), _section(given, "sink")
        decode, transform = _section(given, "decode"), _section(given, "transform")
        form = cls(
            source=_texts(source),
            sink=_choice(SinkFormat, sink.get("format", ""), "[sink] format"),
            decoding=_choice(Decoding, decode.get("format", Decoding.BINARY), "[decode] format"),
            schema=decode.get("schema", ""),
            sql=transform.get("sql", ""),
            python=transform.get("python", ""),
            path=sink.get("path", ""),
            partition_by=tuple(sink.get("partition_by", ())),
            sink_options=_texts(sink.get("options", {})),
            dead_letters=_section(given, "dead_letters").get("path", ""),
        )
        form.check()
        return form

    def check(self) -> None:
        """Raise ConfigError for what does not fit together."""
        if not self.source:
            raise ConfigError("[source] is empty: give kafka.bootstrap.servers and subscribe")
        if (self.sink in _WITH_PATH) != bool(self.path):
            need = "needs a path" if self.sink in _WITH_PATH else "has no path: leave it out"
            raise ConfigError(f"[sink] format={self.sink} {need}")
        if (self.decoding is Decoding.JSON) != bool(self.schema):
            raise ConfigError("[decode] schema is what json needs, and nothing else: name the values' fields")
        if self.dead_letters and self.decoding is not Decoding.JSON:
            raise ConfigError("[dead_letters] is for values that do not decode, and only json can fail to")
        if self.python.count(":") != (1 if self.python else 0):
            raise ConfigError(f"[transform] python={self.python!r}: module:function is wanted")
        if self.sink is SinkFormat.LANDING and (
            self.sql or self.python or self.decoding is not Decoding.BINARY
        ):
            raise ConfigError("[sink] format=landing is raw: without decode and transform; or use parquet")

    def steps(self) -> list[str]:
        """What it does, a line each."""
        what = {k: v for k, v in self.source.items() if "password" not in k}
        lines = [f"read     {', '.join(f'{name}={value}' for name, value in what.items())}"]
        if self.decoding is not Decoding.BINARY:
            lines.append(f"decode   value as {self.decoding} {self.schema}".rstrip())
        lines += [f"sql      {' '.join(self.sql.split())}"] if self.sql else []
        lines += [f"python   {self.python}"] if self.python else []
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        lines.append(f"write    {self.sink} {self.path}{by}".rstrip())
        lines += [f"refused  {self.dead_letters}"] if self.dead_letters else []
        return lines


def _section(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"{name}={found!r:.100}: a section [{name}] is wanted")
    return found


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark wants them: true and 5 are texts there."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()
    }


def _choice(kind: type[T], value: str, what: str) -> T:
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{what}={value!r}: it must be {' or '.join(kind)}") from None


def _check_names(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, list(known), n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise ConfigError(f"{where} has {name}; {hint}")
