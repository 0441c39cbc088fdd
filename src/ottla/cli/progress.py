"""A progress line on a terminal; nothing if standard error is not a terminal.

    with ProgressLine(total=1_000_000, unit="records") as progress:
        for batch in batches:
            progress.update(batch.num_rows, "orders-3")

    ━━━━━━━━━━╸            48%  480,000 of 1,000,000 records  96,000/s  0:05  orders-3

Without a total there is no bar. The rate is that of the last seconds, and the line moves even if nothing is
done. It goes to standard error, so that it never mixes with output. NO_COLOR and TERM=dumb are respected.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Self, TextIO

BAR_COLUMNS = 20
SHOWN_EVERY_S = 0.1
TICK_S = 1.0
RATE_S = 5.0
"""The rate is measured over this many seconds."""
_DONE, _HALF, _LEFT = "━", "╸", " "
_COLOR, _PLAIN, _CLEAR = "\033[36m", "\033[0m", "\r\033[K"


class ProgressLine:
    """The line is erased at the end of the block, in which a thread repaints it every second.

    `count` returns the number done, if `update` is not called. With `is_shown=False` nothing is shown.
    """

    def __init__(
        self,
        total: int | None = None,
        unit: str = "",
        *,
        count: Callable[[], int] | None = None,
        is_shown: bool = True,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._total = total
        self._unit = unit
        self._count = count
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._text = ""
        self._started = now()
        self._shown_at: float | None = None
        self._samples = deque([(self._started, 0)])
        self._is_seen = is_shown and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._painting = threading.Lock()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._is_seen:
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._is_seen:
            self._ticker.join()
        if self._shown_at is not None:
            self._write(_CLEAR)

    def update(self, count: int = 0, text: str | None = None) -> None:
        """Add `count` to the number done. `text` stays at the end of the line until it is replaced."""
        self.done += count
        if text is not None:
            self._text = text
        if self._is_seen and (self._shown_at is None or self._now() - self._shown_at >= SHOWN_EVERY_S):
            self._paint()

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            if self._count is not None:
                self.done = self._count()
            self._paint()

    def _paint(self) -> None:
        with self._painting:
            self._shown_at = self._now()
            width = shutil.get_terminal_size().columns - 1
            self._write(_CLEAR + self._painted(self.line()[:width]))
            self._samples.append((self._shown_at, self.done))
            while len(self._samples) > 1 and self._samples[1][0] <= self._shown_at - RATE_S:
                self._samples.popleft()

    def line(self) -> str:
        """The current line without colours."""
        now = self._now()
        seconds = now - self._started
        since, done_then = self._samples[0]
        count = f"{self.done:,}" if self._total is None else f"{self.done:,} of {self._total:,}"
        parts = [f"{count} {self._unit}".rstrip()]
        if self._total:
            share = min(1.0, self.done / self._total)
            parts = [f"{_bar(share)} {share:4.0%}", *parts]
        if now > since:
            parts.append(f"{(self.done - done_then) / (now - since):,.0f}/s")
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
