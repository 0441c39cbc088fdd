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
format = "parquet"                    parquet, delta, iceberg, landing (raw, never in the JVM), topic, console
path = "tables/orders"
partition_by = ["date"]               columns; date is made of the rows' time if there is no such column
compact_after = 16                    small batches that are put together; 0 for never
options = { topic = "totals" }        of topic: those of format("ottla"). Of landing: compression. Of iceberg:
                                      catalog and table, and what pyiceberg takes for the catalog

[dead_letters]                        where records go that cannot be decoded, with the reason
path = "tables/orders-bad"            a table of the sink's kind, or parquet
topic = "orders-bad"                  or a topic
options = { rowIdentity = true }      of topic: those of format("ottla")

# Several [[source]], each with a name for [transform] sql, a [source.decode] if [decode] does not fit, and a
# watermark for joins. Several [[sink]], each with sql = "select … from records" if it does not get all rows.
# [transform] deduplicate_by = ["id"] keeps one row of each id: of those that are at most watermark =
# "10 minutes" apart by time = "timestamp", a column of the rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ottla.model.errors import ConfigError
from ottla.spark.locations import check_scheme
from ottla.spark.pipeline.decode_form import Decoding, decode_of
from ottla.spark.pipeline.sections import Section, choice
from ottla.spark.pipeline.sink_form import (
    TABLES,
    WITH_PATH,
    SinkForm,
    SinkFormat,
    dead_letters_of,
    shown_sink,
    sink_of,
)
from ottla.spark.pipeline.source_form import VIEW, SourceForm, sources_of


class Emit(StrEnum):
    """When a window's row is written."""

    UPDATES = "updates"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Transform:
    """[transform]: what is done with rows."""

    arrow: str = ""
    arrow_schema: str = ""
    sql: str = ""
    python: str = ""
    deduplicate_by: tuple[str, ...] = ()
    watermark: str = ""
    time: str = ""


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
class PipelineForm:
    """A checked declaration. An empty text means that the setting was not given."""

    sources: tuple[SourceForm, ...]
    sinks: tuple[SinkForm, ...]
    transform: Transform = Transform()
    window: Window | None = None
    dead_letters: SinkForm | None = None
    checkpoint: str = ""

    @property
    def source(self) -> Mapping[str, str]:
        """The options of the only or the first source: its cluster is that of topics that are written."""
        return self.sources[0].options

    @property
    def source_options(self) -> list[Mapping[str, str]]:
        """The options of each source."""
        return [source.options for source in self.sources]

    @property
    def sink(self) -> SinkForm:
        """The only sink, or the first."""
        return self.sinks[0]

    @property
    def can_fail(self) -> bool:
        """Whether there may be records that cannot be decoded."""
        return bool(self.transform.arrow) or any(source.decode.can_fail for source in self.sources)

    @property
    def is_sent(self) -> bool:
        """Whether rows go to a topic only: then Spark writes the stream itself."""
        return not self.window and [sink.format for sink in self.sinks] == [SinkFormat.TOPIC]

    @property
    def keeps_state(self) -> bool:
        """Whether rows depend on records of earlier batches: in joins, and where repeats are left out."""
        return len(self.sources) > 1 or bool(self.transform.deduplicate_by)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file. Raises ConfigError with its name."""
        try:
            return cls.of(tomllib.loads(Path(path).read_text()))
        except (OSError, tomllib.TOMLDecodeError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Check a dictionary with the content of such a file. Raises ConfigError."""
        top = Section("the pipeline", given)
        sections = {name: top.section(name) for name in _SECTIONS}
        sinks = tuple(sink_of(sink) for sink in _several(top, "sink"))
        decode = decode_of(sections["decode"])
        form = cls(
            checkpoint=top.text("checkpoint"),
            sources=sources_of(_several(top, "source"), decode),
            transform=_transform(sections["transform"]),
            window=_window(sections["window"]) if "window" in given else None,
            sinks=sinks,
            dead_letters=(
                dead_letters_of(sections["dead_letters"], sinks[0]) if "dead_letters" in given else None
            ),
        )
        for section in (top, *sections.values()):
            section.check_all_known()
        form.check()
        return form

    def check(self) -> None:
        """Raise ConfigError for settings that contradict each other."""
        if not self.source:
            raise ConfigError("[source] is empty: give bootstrap and topics")
        for path in (self.checkpoint, self.dead_letters.path if self.dead_letters else ""):
            check_scheme(path)
        for sink in self.sinks:
            check_scheme(sink.path)
            self._check_sink(sink)
        paths = [sink.path for sink in (*self.sinks, self.dead_letters) if sink is not None and sink.path]
        for path in paths:
            if paths.count(path) > 1:
                raise ConfigError(f"path={path}: two sinks cannot share a table")
        self._check_rows()
        if self.dead_letters and not self.can_fail:
            kinds = " and ".join(sorted({source.decode.format for source in self.sources}))
            raise ConfigError(f"[dead_letters] is for records that cannot be decoded, and {kinds} always can")
        by_offsets = TABLES & {
            *(sink.format for sink in self.sinks if not self.window),
            self.dead_letters and self.dead_letters.format,
        }
        if by_offsets and any(source.options.get("failOnDataLoss") == "false" for source in self.sources):
            raise ConfigError(
                "failOnDataLoss=false: a table could not tell a topic from one that was made anew under its"
                " name; after a loss, begin with a new checkpoint and another path"
            )

    def _check_sink(self, sink: SinkForm) -> None:
        is_named = sink.format is SinkFormat.ICEBERG and "catalog" in sink.options
        if (sink.format in WITH_PATH) != bool(sink.path) and not is_named:
            need = "needs a path" if sink.format in WITH_PATH else "has no path: leave it out"
            raise ConfigError(f"[sink] format={sink.format} {need}")
        is_raw = (
            all(source.decode.format is Decoding.BINARY for source in self.sources)
            and self.transform == Transform()
            and not (self.window or sink.sql)
        )
        if sink.format is SinkFormat.LANDING and not is_raw:
            raise ConfigError(
                "[sink] format=landing is raw: without decode, transform and window; or use parquet"
            )
        if sink.format is SinkFormat.LANDING and (len(self.sinks) > 1 or len(self.sources) > 1):
            raise ConfigError(
                "[sink] format=landing is for one source and is the only sink: give it a pipeline of its own"
            )
        if self.window and sink.sql:
            raise ConfigError("[sink] sql: totals of windows are written as they are; leave it out")
        if self.window and sink.format in TABLES:
            free = set(sink.partition_by) - {*self.window.group_by, "date"}
            if free:
                raise ConfigError(
                    f"[sink] partition_by={sorted(free)}: totals are partitioned by date and group_by"
                )

    def _check_rows(self) -> None:
        """Raise ConfigError for sources, transform and window that do not go together."""
        transform, window = self.transform, self.window
        if len(self.sources) > 1 and not transform.sql:
            names = ", ".join(source.name for source in self.sources)
            raise ConfigError(f"[transform] sql is missing: it says what becomes of {names}, such as a join")
        if len(self.sources) > 1 and transform.arrow:
            raise ConfigError("[transform] arrow is for one source: use sql and python")
        if bool(transform.deduplicate_by) != bool(transform.watermark):
            raise ConfigError(
                "[transform] deduplicate_by and watermark go together: it says how long an id is remembered"
            )
        late = [*(source.watermark for source in self.sources), transform.watermark]
        if window and window.emit is Emit.CLOSED and not any((*late, window.watermark)):
            raise ConfigError(
                '[window] emit=closed needs a watermark ("10 minutes"): it says when one is closed'
            )
        if transform.watermark and window and window.watermark:
            raise ConfigError("[window] watermark: the one of [transform] holds for windows too; give one")

    def steps(self) -> list[str]:
        """A line for each thing that the pipeline does."""
        lines = [line for source in self.sources for line in _read(source)]
        transform, window = self.transform, self.window
        lines += [f"arrow    {transform.arrow} gives {transform.arrow_schema}"] if transform.arrow else []
        lines += [f"sql      {' '.join(transform.sql.split())}"] if transform.sql else []
        lines += [f"python   {transform.python}"] if transform.python else []
        if transform.deduplicate_by:
            by = ", ".join(transform.deduplicate_by)
            lines.append(f"once     by {by}, within {transform.watermark} of {transform.time}")
        if window:
            slide = f" every {window.slide}" if window.slide else ""
            by = f" by {', '.join(window.group_by)}" if window.group_by else ""
            late = f", rows up to {window.watermark} late" if window.watermark else ""
            lines.append(f"window   {window.duration}{slide} of {window.time}{by}{late}, {window.emit}")
            lines += [f"         {aggregate}" for aggregate in window.aggregates]
        lines += [f"write    {shown_sink(sink)}" for sink in self.sinks]
        lines += [f"refused  {shown_sink(self.dead_letters)}"] if self.dead_letters else []
        return lines


def _read(source: SourceForm) -> list[str]:
    what = {k: v for k, v in source.options.items() if "password" not in k and "jaas" not in k}
    late = f", up to {source.watermark} late" if source.watermark else ""
    name = "" if source.name == VIEW else f"{source.name}: "
    lines = [f"read     {name}{', '.join(f'{name}={value}' for name, value in what.items())}{late}"]
    decode = source.decode
    if decode.format is not Decoding.BINARY:
        known = decode.message or " ".join(decode.schema.split()) or decode.schema_file
        lines.append(f"decode   value as {decode.format} {known or '(schema inferred once)'}".rstrip())
    return lines


# --- sections

_SECTIONS = ("decode", "transform", "window", "dead_letters")


def _several(top: Section, name: str) -> Sequence[Mapping[str, Any]]:
    """The sections of this name: [name] or every [[name]]. Raises ConfigError."""
    value = top.value(name, {})
    sections = value if isinstance(value, list) else [value]
    if not sections or not all(isinstance(section, Mapping) for section in sections):
        raise ConfigError(f"{name}={value!r:.100}: a section [{name}], or several [[{name}]], is wanted")
    return sections


def _transform(given: Section) -> Transform:
    names = given.names("deduplicate_by")
    made = Transform(
        given.text("arrow"),
        given.text("arrow_schema"),
        given.text("sql"),
        given.text("python"),
        deduplicate_by=names,
        watermark=given.text("watermark"),
        time=given.text("time") or ("timestamp" if names else ""),
    )
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
    return made
