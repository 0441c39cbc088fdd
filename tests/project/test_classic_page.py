"""docs/classic.md has every setting of the classic consumer, with the default that the code has."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from ottla.consumer.classic.classic_config import CLASSIC_PROPERTIES

PAGE = (Path(__file__).parents[2] / "docs" / "classic.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z.]+)` \| (.+?) \| ", PAGE.partition("## Settings")[2], re.MULTILINE))
PROPERTIES = {name: row for row in CLASSIC_PROPERTIES for name in (row.name, *row.synonyms)}
SECURITY = ("security.", "ssl.", "sasl.")
"""They are the same for all clients and stand in docs/reference/settings.md."""


def test_every_setting_is_there() -> None:
    assert ROWS.keys() <= PROPERTIES.keys()
    for row in CLASSIC_PROPERTIES:
        if not row.name.startswith(SECURITY):
            assert ROWS.keys() & {row.name, *row.synonyms}, row.name


@pytest.mark.parametrize("name", ROWS)
def test_the_default_is_what_it_says(name: str) -> None:
    default = PROPERTIES[name].default
    if default in ("", 0, None, ()) and not isinstance(default, bool):
        assert not re.fullmatch(r"`(-?\d+|true|false)`", ROWS[name]), "it follows from others: say from which"
        return
    shown = default.value if isinstance(default, Enum) else default
    assert ROWS[name] == f"`{str(shown).lower()}`"
