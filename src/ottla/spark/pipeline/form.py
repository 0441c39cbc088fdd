"""The declaration of a pipeline: a TOML file or a dictionary, checked once. Pure.

checkpoint = "state/orders"           what survives a restart: offsets, an inferred schema, progress

[source]
bootstrap = "127.0.0.1:9092"
topics = ["orders", "returns-*"]      names, and wildcards
start = "earliest"                    of a new stream: see `ranges`
maxOffsetsPerTrigger = 100000         and any other option of format("ottla")

[decode]                              what values are; without it they are bytes
format = "json"                       binary, text, json, csv, msgpack, avro or protobuf
schema = "id long, amount double"     of json; without one it is inferred once. Of avro: the schema as JSON
registry = "http://registry:8081"     of avro and protobuf: values have a frame with the id of their schema
subject = "orders-value"              whose newest schema names the columns
key = "text"                          what keys are: a format, or a section [decode.key] like this one
schema_file = "order.avsc"            of avro, instead of schema; of protobuf: the descriptor set
message = "shop.Order"                of protobuf
skip_bytes = 5                        of avro and protobuf: what a schema registry's clients put in front

[transform]                           in this order; each is optional
arrow = "module:function"             a RecordBatch in, a RecordBatch out, in the executors
arrow_schema = "id long, size int"    of what it gives
sql = "select … from records"
python = "module:function"            a DataFrame in, a DataFrame out

[window]                              totals by time
time = "timestamp"                    a column
duration = "1 minute"
slide = "30 seconds"                  optional
watermark = "10 minutes"              optional: how late rows may be
group_by = ["kind"]                   optional
aggregates = ["count(*) as events", "sum(cents) as cents"]
emit = "updates"                      or "closed": a window once, when the watermark has passed it

[sink]
format = "parquet"                    parquet, delta, landing (raw, never in the JVM), topic, console
path = "tables/orders"
partition_by = ["date"]               columns; date is made of the rows' time if there is no such column
compact_after = 16                    small batches that are put together; 0 for never
options = { topic = "totals" }        of topic: those of format("ottla"). Of landing: compression

[dead_letters]                        where records go that cannot be decoded, with the reason
path = "tables/orders-bad"            a table of the sink's kind, or parquet
topic = "orders-bad"                  or a topic
options = { rowIdentity = true }      of topic: those of format("ottla")
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ottla.model.errors import ConfigError
from ottla.spark.locations import check_scheme
from ottla.spark.pipeline.decode_form import Decode, Decoding, decode_of
from ottla.spark.pipeline.ranges import starting
from ottla.spark.pipeline.sections import Section, choice, texts

COMPACT_AFTER = 16


class SinkFormat(StrEnum):
    """Where rows go."""

    PARQUET = "parquet"
    DELTA = "delta"
    LANDING = "landing"
    TOPIC = "topic"
    CONSOLE = "console"


class Emit(StrEnum):
    """When a window's row is written."""

    UPDATES = "updates"
    CLOSED = "closed"


TABLES = {SinkFormat.PARQUET, SinkFormat.DELTA}
_WITH_PATH = {*TABLES, SinkFormat.LANDING}


@dataclass(frozen=True, slots=True)
class Transform:
    """[transform]: what is done with rows."""

    arrow: str = ""
    arrow_schema: str = ""
    sql: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """[window]: totals by time."""

    time: str
    duration: str
    slide: str
    watermark: str
    group_by: tuple[str, ...]
    aggregates: tuple[str, ...]
    emit: Emit


@dataclass(frozen=True, slots=True)
class SinkForm:
    """Where rows go."""

    format: SinkFormat
    path: str = ""
    partition_by: tuple[str, ...] = ()
    compact_after: int = COMPACT_AFTER
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineForm:
    """A checked declaration. An empty text means that the setting was not given."""

    source: Mapping[str, str]
    sink: SinkForm
    decode: Decode = field(default_factory=Decode)
    transform: Transform = Transform()
    window: Window | None = None
    dead_letters: SinkForm | None = None
    checkpoint: str = ""

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file. Raises ConfigError with its name."""
        try:
            return cls.of(tomllib.loads(Path(path).read_text()))
        except (OSError, tomllib.TOMLDecodeError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From a dictionary with the content of such a file. Raises ConfigError."""
        top = Section("the pipeline", given)
        sections = {name: top.section(name) for name in _SECTIONS}
        sink = _sink(sections["sink"])
        form = cls(
            checkpoint=top.text("checkpoint"),
            source=source_options(sections["source"]),
            decode=decode_of(sections["decode"]),
            transform=_transform(sections["transform"]),
            window=_window(sections["window"]) if "window" in given else None,
            sink=sink,
            dead_letters=_dead_letters(sections["dead_letters"], sink) if "dead_letters" in given else None,
        )
        for section in (top, *sections.values()):
            section.check_all_known()
        form.check()
        return form

    def check(self) -> None:
        """Raise ConfigError for settings that contradict each other."""
        for path in (self.checkpoint, self.sink.path, self.dead_letters.path if self.dead_letters else ""):
            check_scheme(path)
        if not self.source:
            raise ConfigError("[source] is empty: give bootstrap and topics")
        if (self.sink.format in _WITH_PATH) != bool(self.sink.path):
            need = "needs a path" if self.sink.format in _WITH_PATH else "has no path: leave it out"
            raise ConfigError(f"[sink] format={self.sink.format} {need}")
        if self.dead_letters and not self.decode.can_fail and not self.transform.arrow:
            raise ConfigError(
                f"[dead_letters] is for records that cannot be decoded, and {self.decode.format} always can"
            )
        is_raw = self.decode.format is Decoding.BINARY and self.transform == Transform() and not self.window
        if self.sink.format is SinkFormat.LANDING and not is_raw:
            raise ConfigError(
                "[sink] format=landing is raw: without decode, transform and window; or use parquet"
            )
        by_offsets = TABLES & {
            None if self.window else self.sink.format,
            self.dead_letters and self.dead_letters.format,
        }
        if by_offsets and self.source.get("failOnDataLoss") == "false":
            raise ConfigError(
                "failOnDataLoss=false: a table could not tell a topic from one that was made anew under its"
                " name; after a loss, begin with a new checkpoint and another path"
            )
        if self.window and self.sink.format in TABLES:
            free = set(self.sink.partition_by) - {*self.window.group_by, "date"}
            if free:
                raise ConfigError(
                    f"[sink] partition_by={sorted(free)}: totals are partitioned by date and group_by"
                )

    def steps(self) -> list[str]:
        """A line for each thing that the pipeline does."""
        what = {k: v for k, v in self.source.items() if "password" not in k and "jaas" not in k}
        lines = [f"read     {', '.join(f'{name}={value}' for name, value in what.items())}"]
        decode, transform, window = self.decode, self.transform, self.window
        if decode.format is not Decoding.BINARY:
            known = decode.message or " ".join(decode.schema.split()) or decode.schema_file
            lines.append(f"decode   value as {decode.format} {known or '(schema inferred once)'}".rstrip())
        lines += [f"arrow    {transform.arrow} gives {transform.arrow_schema}"] if transform.arrow else []
        lines += [f"sql      {' '.join(transform.sql.split())}"] if transform.sql else []
        lines += [f"python   {transform.python}"] if transform.python else []
        if window:
            slide = f" every {window.slide}" if window.slide else ""
            by = f" by {', '.join(window.group_by)}" if window.group_by else ""
            late = f", rows up to {window.watermark} late" if window.watermark else ""
            lines.append(f"window   {window.duration}{slide} of {window.time}{by}{late}, {window.emit}")
            lines += [f"         {aggregate}" for aggregate in window.aggregates]
        lines.append(f"write    {_where(self.sink)}")
        lines += [f"refused  {_where(self.dead_letters)}"] if self.dead_letters else []
        return lines


def _where(sink: SinkForm) -> str:
    by = f" by {', '.join(sink.partition_by)}" if sink.partition_by else ""
    return f"{sink.format} {sink.path or sink.options.get('topic', '')}{by}".rstrip()


# --- sections

_SECTIONS = ("source", "decode", "transform", "window", "sink", "dead_letters")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_WILDCARD = re.compile(r"[*?]")


def source_options(given: Section) -> dict[str, str]:
    """[source] as options of format("ottla"). Raises ConfigError."""
    options = texts(given.others("bootstrap", "topics", "start"))
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


def _transform(given: Section) -> Transform:
    made = Transform(*(given.text(name) for name in ("arrow", "arrow_schema", "sql", "python")))
    for name, value in (("arrow", made.arrow), ("python", made.python)):
        if value.count(":") != (1 if value else 0):
            raise ConfigError(f"[transform] {name}={value!r}: module:function is wanted")
    if bool(made.arrow) != bool(made.arrow_schema):
        raise ConfigError("[transform] arrow and arrow_schema go together: name the columns that it gives")
    return made


def _window(given: Section) -> Window:
    made = Window(
        time=given.text("time") or "timestamp",
        duration=given.text("duration"),
        slide=given.text("slide"),
        watermark=given.text("watermark"),
        group_by=given.names("group_by"),
        aggregates=given.names("aggregates"),
        emit=choice(Emit, given.text("emit") or Emit.UPDATES, "[window] emit"),
    )
    if not made.duration or not made.aggregates:
        raise ConfigError('[window] needs a duration ("1 minute") and aggregates (["count(*) as events"])')
    if made.emit is Emit.CLOSED and not made.watermark:
        raise ConfigError('[window] emit=closed needs a watermark ("10 minutes"): it says when one is closed')
    return made


def _sink(given: Section) -> SinkForm:
    return SinkForm(
        choice(SinkFormat, given.text("format"), "[sink] format"),
        given.text("path"),
        given.names("partition_by"),
        given.number("compact_after", COMPACT_AFTER),
        texts(given.section("options").others()),
    )


def _dead_letters(given: Section, sink: SinkForm) -> SinkForm:
    path, topic = given.text("path"), given.text("topic")
    if bool(path) == bool(topic):
        raise ConfigError("[dead_letters] needs a path or a topic, one of them")
    options = texts(given.section("options").others())
    if topic:
        return SinkForm(SinkFormat.TOPIC, options={"topic": topic, **options})
    if options:
        raise ConfigError("[dead_letters] options are for a topic: leave them out")
    kind = sink.format if sink.format in TABLES else SinkFormat.PARQUET
    return SinkForm(kind, path, compact_after=sink.compact_after)
