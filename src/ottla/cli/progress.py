"""A line on a terminal that tells how far something is; nothing where nobody watches.

    with Progress(total=1_000_000, unit="records") as progress:
        for batch in batches:
            progress.update(batch.num_rows, "orders-3")

    ━━━━━━━━━━╸            48%  480,000 of 1,000,000 records  96,000/s  0:05  orders-3

Without a total there is no bar. It is written to standard error, so that it never mixes with an answer, and
only there if that is a terminal. NO_COLOR and TERM=dumb are respected.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

BAR_COLUMNS = 20
SHOWN_EVERY_S = 0.1
_DONE, _HALF, _LEFT = "━", "╸", " "
_COLOR, _PLAIN, _CLEAR = "\033[36m", "\033[0m", "\r\033[K"


class Progress:
    """Belongs to one thread. Its line is gone when it is left."""

    def __init__(
        self,
        total: int | None = None,
        unit: str = "",
        *,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._text = ""
        self._started = now()
        self._shown_at: float | None = None
        self._is_seen = self._stream.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown_at is not None:
            self._write(_CLEAR)

    def update(self, count: int = 0, text: str | None = None) -> None:
        """`count` more are done; `text` stays at the end of the line until another one is given."""
        self.done += count
        if text is not None:
            self._text = text
        now = self._now()
        if self._is_seen and (self._shown_at is None or now - self._shown_at >= SHOWN_EVERY_S):
            self._shown_at = now
            width = shutil.get_terminal_size().columns - 1
            self._write(_CLEAR + self._painted(self.line()[:width]))

    def line(self) -> str:
        """What is shown now, without colours."""
        seconds = self._now() - self._started
        count = f"{self.done:,}" if self._total is None else f"{self.done:,} of {self._total:,}"
        parts = [f"{count} {self._unit}".rstrip()]
        if self._total:
            share = min(1.0, self.done / self._total)
            parts = [f"{_bar(share)} {share:4.0%}", *parts]
        if seconds > 0:
            parts.append(f"{self.done / seconds:,.0f}/s")
        parts.append(f"{int(seconds) // 60}:{int(seconds) % 60:02d}")
        return "  ".join([*parts, self._text] if self._text else parts)

    def _painted(self, line: str) -> str:
        if not self._total or os.environ.get("NO_COLOR"):
            return line
        return f"{_COLOR}{line[:BAR_COLUMNS]}{_PLAIN}{line[BAR_COLUMNS:]}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _bar(share: float) -> str:
    halves = int(share * BAR_COLUMNS * 2)
    return (_DONE * (halves // 2) + _HALF * (halves % 2)).ljust(BAR_COLUMNS, _LEFT)
