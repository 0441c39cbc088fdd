"""Print docs/reference/settings.md, made from the tables that the clients read their settings by."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

from ottla.admin.admin_config import ADMIN_PROPERTIES
from ottla.client.client_config import CLIENT_PROPERTIES
from ottla.consumer.classic.classic_config import CLASSIC_PROPERTIES
from ottla.consumer.coordinated.group_consumer_config import GROUP_PROPERTIES
from ottla.consumer.partition.partition_config import PARTITION_PROPERTIES
from ottla.consumer.share.share_config import SHARE_PROPERTIES
from ottla.consumer.simple.simple_settings import CONSUMER_TABLE
from ottla.fetching.fetch_config import FETCH_PROPERTIES
from ottla.model.property_table import INT_MAX, LONG_MAX, Property
from ottla.producer.producer_config import PRODUCER_PROPERTIES
from ottla.spark.options import LOG_OPTIONS, SINK_OPTIONS, SOURCE_OPTIONS

Table = Iterable[Property]

HEAD = """# Settings

Made by `python tools/settings_reference.py` from the tables that the code reads; a test keeps it current.

Every client takes its settings by these names: with dots in a mapping, or with underscores as keyword
arguments.

    Producer({"bootstrap.servers": "kafka:9092", "linger.ms": 20})
    Producer(bootstrap_servers="kafka:9092", linger_ms=20)

Values may be Python values or text, as in a properties file. Names that end in `.ms` are milliseconds.
An unknown name is a `ConfigError` that names the nearest known one.

| who | has |
|---|---|
"""
COLUMNS = """
| setting | type | default | meaning |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Section:
    """A heading with the settings below it. Those of `shared` tables are listed only where they differ."""

    title: str
    table: Table
    shared: tuple[str, ...] = ()
    intro: str = ""


EVERY_CLIENT, FETCHING = "Every client", "Fetching"
SECTIONS = (
    Section(
        EVERY_CLIENT,
        CLIENT_PROPERTIES,
        intro="Brokers, timeouts, TLS and SASL. Every client below has these as well.",
    ),
    Section(FETCHING, FETCH_PROPERTIES, intro="Everything that reads records has these as well."),
    Section("Producer", PRODUCER_PROPERTIES, (EVERY_CLIENT,)),
    Section("GroupConsumer", GROUP_PROPERTIES, (EVERY_CLIENT, FETCHING)),
    Section("ShareConsumer", SHARE_PROPERTIES, (EVERY_CLIENT,)),
    Section("PartitionConsumer and replay", PARTITION_PROPERTIES, (EVERY_CLIENT, FETCHING)),
    Section("ConsumerConnector (classic)", CLASSIC_PROPERTIES, (EVERY_CLIENT, FETCHING)),
    Section("SimpleConsumer", CONSUMER_TABLE, (EVERY_CLIENT,)),
    Section("Admin", ADMIN_PROPERTIES, (EVERY_CLIENT,)),
    Section(
        'Spark: reading, `format("ottla")`',
        SOURCE_OPTIONS,
        intro="Options of `spark.read` and `spark.readStream`. Settings of the client follow `kafka.`, for "
        "example `kafka.bootstrap.servers`.",
    ),
    Section('Spark: writing, `format("ottla")`', SINK_OPTIONS),
    Section('Spark: segment files, `format("ottla-log")`', LOG_OPTIONS),
)
BY_TITLE = {section.title: section for section in SECTIONS}


def page() -> str:
    """The whole page."""
    return HEAD + "".join(map(_summary, SECTIONS)) + "".join(map(_section, SECTIONS)) + FOOT


FOOT = """
The broker's settings and those of its topics: [broker-settings.md](../broker-settings.md). The tables of a
pipeline's TOML file: [pipeline.md](../pipeline.md).
"""


def _summary(section: Section) -> str:
    count = len(_rows(section))
    parts = [_link(title) for title in section.shared] + [
        f"{count} more" if section.shared else f"{count} settings"
    ]
    return f"| {_link(section.title)} | {', '.join(parts)} |\n"


def _link(title: str) -> str:
    anchor = "".join(
        letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_"
    )
    return f"[{title}](#{anchor})"


def _section(section: Section) -> str:
    links = " and ".join(_link(title) for title in section.shared)
    intro = section.intro or (
        f"Besides those of {links}; a row that stands there too has another default or meaning here."
        if links
        else ""
    )
    text = f"\n## {section.title}\n" + (f"\n{intro}\n" if intro else "")
    return text + COLUMNS + "".join(map(_row, _rows(section)))


def _rows(section: Section) -> list[Property]:
    shared = {row.key: row for title in section.shared for row in BY_TITLE[title].table}
    return [row for row in section.table if row != shared.get(row.key)]


def _row(row: Property) -> str:
    names = f"`{row.name}`" + "".join(f", `{name}`" for name in row.synonyms)
    return f"| {names} | {_type(row)} | {_default(row)} | {_escape(row.doc)} |\n"


def _type(row: Property) -> str:
    if row.choices:
        return " or ".join(f"`{choice}`" if choice else "empty" for choice in dict.fromkeys(row.choices))
    if row.minimum is None:
        return row.kind.name
    limit = "" if row.maximum in (None, INT_MAX, LONG_MAX) else f" to {row.maximum}"
    return f"{row.kind.name}, {row.minimum}{limit or ' or more'}"


def _default(row: Property) -> str:
    text = _text(row.default)
    return f"`{text}`" if text else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(_text(getattr(part, "name", part)) for part in value)
    return str(value)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
