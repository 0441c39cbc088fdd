"""Times on the command line: `2026-01-31`, `2026-01-31T12:00`, or a span before now: `90s`, `2h`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ottla.model.errors import ConfigError

MOMENTS = "a date or time (2026-01-31, 2026-01-31T12:00; UTC) or a span before now (90s, 2h, 7d)"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")


def parse_moment(flag: str, text: str, *words: str) -> str | datetime | timedelta:
    """Return one of `words`, a time with a zone, or a span before now. Raises ConfigError with `flag`."""
    plain = text.strip()
    if plain in words:
        return plain
    span = _SPAN.fullmatch(plain)
    if span is not None:
        return timedelta(**{_UNITS[span[2]]: float(span[1])})
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        accepted = ", ".join([*words, MOMENTS])
        raise ConfigError(f"{flag} {text!r:.100}: give {accepted}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
