"""What users write for "where in a partition"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from ottla import ConfigError
from ottla.model.offset_spec import EARLIEST, LATEST, OffsetOrTime, OffsetSpec, parse_offset_spec

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, OffsetOrTime(0)),
        (17, OffsetOrTime(17)),
        (np.int64(17), OffsetOrTime(17)),
        ("oldest", OffsetOrTime(time=EARLIEST)),
        ("earliest", OffsetOrTime(time=EARLIEST)),
        (" Latest", OffsetOrTime(time=LATEST)),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), OffsetOrTime(time=1000)),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), OffsetOrTime(time=1000)),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), OffsetOrTime(time=1)),
        (datetime(1960, 1, 1, tzinfo=UTC), OffsetOrTime(time=0)),
        ("1970-01-01T00:00:01Z", OffsetOrTime(time=1000)),
        (timedelta(seconds=5), OffsetOrTime(time=NOW_MS - 5000)),
        (timedelta(days=100_000), OffsetOrTime(time=0)),
    ],
)
def test_specs_are_offsets_words_and_times(given: OffsetSpec, wanted: OffsetOrTime) -> None:
    assert parse_offset_spec(given, NOW_MS) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (-1, "offset=-1: give a number from 0 on"),
        (True, "offset=True: give a number"),
        (None, "offset=None: give a number"),
        ("yesterday", "offset='yesterday': neither 'earliest' nor"),
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001
        ("2026-01-01", "no time zone"),
    ],
)
def test_anything_else_is_refused(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_offset_spec(given, NOW_MS)  # type: ignore[arg-type]
