"""[sink] and [dead_letters] of a pipeline: where rows and refused records go. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.sections import Section, choice, texts

COMPACT_AFTER = 16


class SinkFormat(StrEnum):
    """Where rows go."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
    LANDING = "landing"
    TOPIC = "topic"
    CONSOLE = "console"


TABLES = {SinkFormat.PARQUET, SinkFormat.DELTA, SinkFormat.ICEBERG}
WITH_PATH = {*TABLES, SinkFormat.LANDING}


@dataclass(frozen=True, slots=True)
class SinkForm:
    """Where rows go; `sql` chooses what of them."""

    format: SinkFormat
    path: str = ""
    partition_by: tuple[str, ...] = ()
    compact_after: int = COMPACT_AFTER
    options: Mapping[str, str] = field(default_factory=dict)
    sql: str = ""


def shown_sink(sink: SinkForm) -> str:
    """The sink in a few words."""
    by = f" by {', '.join(sink.partition_by)}" if sink.partition_by else ""
    rows = f": {' '.join(sink.sql.split())}" if sink.sql else ""
    named = sink.options.get("topic", "") or sink.options.get("table", "")
    return f"{sink.format} {sink.path or named}{by}".rstrip() + rows


def sink_of(settings: Mapping[str, Any]) -> SinkForm:
    """Check one [sink] of a file. Raises ConfigError."""
    given = Section("[sink]", settings)
    made = SinkForm(
        choice(SinkFormat, given.text("format"), "[sink] format"),
        given.text("path"),
        given.names("partition_by"),
        given.number("compact_after", COMPACT_AFTER),
        texts(given.section("options").others()),
        given.text("sql"),
    )
    given.check_all_known()
    return made


def dead_letters_of(given: Section, sink: SinkForm) -> SinkForm:
    """[dead_letters] of a file; a table is of the kind of `sink`. Raises ConfigError."""
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
