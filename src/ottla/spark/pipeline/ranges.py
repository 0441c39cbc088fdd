"""Start and end of a range as users write them → options of a query. Pure.

earliest, latest, group             start or end of the logs, the group's committed offsets
{"orders": {"0": 23}}               offsets
2026-01-31, 2026-01-31T12:00:00Z    a time; without a zone it is UTC
1767225600000                       a time in milliseconds
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ottla.model.errors import ConfigError

_EDGES = ("earliest", "latest", "group")
_NUMBER = re.compile(r"\d{1,18}")


def time_ms(text: str) -> int | None:
    """A time as milliseconds since 1970; None if the text is not a time."""
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def starting(text: str, what: str = "--from") -> dict[str, str]:
    """The options for a query's start. Raises ConfigError."""
    at = time_ms(text.strip())
    if at is not None:
        return {"startingTimestamp": str(at), "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": _offsets(text.strip(), what)}


def ending(text: str, what: str = "--to") -> dict[str, str]:
    """The options for a query's end, which is excluded. Raises ConfigError."""
    at = time_ms(text.strip())
    return {"endingOffsets": _offsets(text.strip(), what)} if at is None else {"endingTimestamp": str(at)}


def _offsets(text: str, what: str) -> str:
    if text in _EDGES or text.startswith("{"):
        return text
    raise ConfigError(
        f"{what}={text!r}: a time (2026-01-31T12:00:00Z, or milliseconds), offsets as JSON"
        f' ({{"orders": {{"0": 23}}}}), or {", ".join(_EDGES)} is wanted'
    )
