"""Numbers, times, bytes and values as people read them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

SHOWN_MAX = 4000
UNKNOWN = "\N{EN DASH}"


def short(value: float | None) -> str:
    """Return a number with at most four digits: 950, 1.2k, 35M."""
    if value is None:
        return UNKNOWN
    for factor, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{suffix}"
    return f"{value:.3g}" if value != int(value) else str(int(value))


def exact(value: int | None) -> str:
    """Return a number with commas; a dash if it is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def size(count: int | None) -> str:
    """Return bytes in binary units."""
    if count is None:
        return UNKNOWN
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def seconds(value: float | None) -> str:
    """Return a duration: 0 s, 42 s, 3 min, 2.5 h; a dash if it is not known."""
    if value is None:
        return UNKNOWN
    if value < 90:
        return f"{value:.0f} s"
    if value < 5400:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if value < 172_800 else f"{value / 86_400:.1f} d"


def moment(time_ms: int | None) -> str:
    """Return a time in UTC; a dash if there is none."""
    if time_ms is None or time_ms < 0:
        return UNKNOWN
    try:
        return (
            datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.")
            + f"{time_ms % 1000:03d}"
        )
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """Bytes as text: `kind` is null, empty, json, text or bytes; `is_cut` if only the beginning is there."""

    kind: str
    text: str
    is_cut: bool = False


def shown(data: bytes | None, limit: int = SHOWN_MAX, indent: int | None = 2) -> ShownBytes:
    """JSON is indented, or on one line; what is not text is written in hexadecimal digits."""
    if data is None:
        return ShownBytes("null", "null")
    if not data:
        return ShownBytes("empty", "(empty)")
    is_cut = len(data) > limit
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ShownBytes("bytes", data[: limit // 3].hex(" "), is_cut=len(data) > limit // 3)
    kind = "text"
    if not is_cut and text[:1] in "{[":
        try:
            text = json.dumps(json.loads(text), indent=indent, ensure_ascii=False)
            kind = "json"
        except (ValueError, RecursionError):
            pass
    return ShownBytes(kind, text[:limit], is_cut)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record of a page."""

    partition: int
    offset: int
    time: str
    key: ShownBytes
    value: ShownBytes
    headers: list[tuple[str, ShownBytes]]
    bytes: int


Decoded = Callable[[bytes | None, str], bytes | None]
"""Bytes of a subject (TOPIC-key or TOPIC-value), decoded by their schema if they have one."""


def shown_record(
    row: Mapping[str, object], topic: str, decoded: Decoded, limit: int = 600, indent: int | None = None
) -> ShownRecord:
    """A row of a scan with headers, from `plain_rows`: in a list, or with a larger limit alone."""
    key, value, at = row["key"], row["value"], row["timestamp"]
    assert isinstance(key, bytes | None)
    assert isinstance(value, bytes | None)
    assert isinstance(at, int | None)
    headers = row.get("headers") or []
    assert isinstance(headers, list)
    return ShownRecord(
        int(str(row["partition"])),
        int(str(row["offset"])),
        moment(at),
        shown(decoded(key, f"{topic}-key"), 400),
        shown(decoded(value, f"{topic}-value"), limit, indent),
        [(header["key"], shown(header["value"], 400)) for header in headers[:50]],
        len(key or b"") + len(value or b""),
    )
