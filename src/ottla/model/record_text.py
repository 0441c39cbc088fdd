"""Keys, values and headers of a record as text for people and programs. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

Headers = list[dict[str, str | None]]


def record_texts(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> tuple[str | None, str | None, Headers, str]:
    """Key, value and headers as text if all are UTF-8, else all in base64; and which of both it is."""
    pairs = list(headers)

    def written(text: Callable[[bytes | None], str | None]) -> tuple[str | None, str | None, Headers]:
        return text(key), text(value), [{"key": name, "value": text(content)} for name, content in pairs]

    try:
        return *written(_decoded), "utf-8"
    except UnicodeDecodeError:
        return *written(_base64), "base64"


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
