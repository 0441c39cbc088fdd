"""The tables of settings in docs/producer.md are those that the producer reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.client.config import CLIENT_PROPERTIES
from ottla.client.properties import Property
from ottla.producer.config import PRODUCER_PROPERTIES
from ottla.records.compression import Codec

PAGE = Path(__file__).parents[2] / "docs" / "producer.md"


def shown(row: Property) -> str:
    """A default as a user would write it."""
    if row.name == "acks":
        return "all"
    if isinstance(row.default, Codec):
        return row.default.label
    if isinstance(row.default, bool):
        return str(row.default).lower()
    return "" if row.default in (None, "", ()) else str(row.default)


def table(rows: Iterable[Property]) -> str:
    head = "| property | default | meaning |\n|---|---|---|\n"
    return head + "".join(f"| `{row.name}` | {shown(row)} | {row.doc} |\n" for row in rows)


OWN = [row for row in PRODUCER_PROPERTIES if row not in CLIENT_PROPERTIES]


@pytest.mark.parametrize("rows", [OWN, CLIENT_PROPERTIES], ids=["own", "of every client"])
def test_the_page_has_every_setting(rows: list[Property]) -> None:
    assert table(rows) in PAGE.read_text(), f"docs/producer.md should have:\n{table(rows)}"
