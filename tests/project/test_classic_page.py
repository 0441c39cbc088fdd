"""docs/classic.md has every setting of the classic consumer, with the default that the code has."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from ottla.classic.config import CLASSIC_PROPERTIES
from ottla.client.config import CLIENT_PROPERTIES
from ottla.fetching import FETCH_PROPERTIES

PAGE = (Path(__file__).parents[2] / "docs" / "classic.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z.]+)` \| (.+?) \| ", PAGE.partition("## Settings")[2], re.MULTILINE))
PROPERTIES = {name: row for row in CLASSIC_PROPERTIES for name in (row.name, *row.synonyms)}
SHARED = {row.name for row in (*CLIENT_PROPERTIES, *FETCH_PROPERTIES)}
KAFKA_NAMES = {
    "client.id",
    "socket.timeout.ms",
    "socket.receive.buffer.bytes",
    "fetch.message.max.bytes",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "num.consumer.fetchers",
    "queued.max.message.chunks",
    "refresh.leader.backoff.ms",
    "auto.offset.reset",
}
"""Of Kafka's classic consumer, among the settings that it shares with others of ours."""


def test_every_setting_is_there() -> None:
    own = {row.name for row in CLASSIC_PROPERTIES} - SHARED
    assert own | KAFKA_NAMES <= ROWS.keys() <= PROPERTIES.keys()


@pytest.mark.parametrize("name", ROWS)
def test_the_default_is_what_it_says(name: str) -> None:
    default = PROPERTIES[name].default
    if default in ("", 0, None, ()) and not isinstance(default, bool):
        assert not re.fullmatch(r"`(-?\d+|true|false)`", ROWS[name]), "it follows from others: say from which"
        return
    shown = default.value if isinstance(default, Enum) else default
    assert ROWS[name] == f"`{str(shown).lower()}`"
