"""The table of settings in docs/partition-consumer.md is what the consumer reads."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from ottla.client.config import CLIENT_PROPERTIES
from ottla.client.properties import Property
from ottla.partition.config import PARTITION_PROPERTIES

PAGE = Path(__file__).parents[2] / "docs" / "partition-consumer.md"


def shown(row: Property) -> str:
    """A default as a user would write it."""
    if isinstance(row.default, Enum):
        return row.default.name.lower()
    return str(row.default).lower()


def table(rows: Iterable[Property]) -> str:
    head = "| property | default | meaning |\n|---|---|---|\n"
    return head + "".join(f"| `{row.name}` | {shown(row)} | {row.doc} |\n" for row in rows)


def test_the_page_has_every_setting() -> None:
    wanted = table(row for row in PARTITION_PROPERTIES if row not in CLIENT_PROPERTIES)
    assert wanted in PAGE.read_text(), f"docs/partition-consumer.md should have:\n{wanted}"
