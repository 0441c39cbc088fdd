"""Which files a partition's directory has, found by listing it once: a start may have 100,000 to look at."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from ottla.log.file_names import ABORTED_INDEX, LOG, STATES, SUFFIXES

_DIGITS = 20
_ALL_SUFFIXES = frozenset(suffix + state for suffix in SUFFIXES for state in STATES)
_NONE: set[str] = set()


class SegmentNames:
    """What a directory had when it was listed. `names`: all; `others`: those of other files."""

    __slots__ = ("_digits", "names", "others")

    def __init__(self, directory: str | Path) -> None:
        self.names = os.listdir(directory)
        by_suffix: dict[str, list[str]] = defaultdict(list)
        for name in self.names:
            by_suffix[name[_DIGITS:]].append(name[:_DIGITS])
        self._digits: dict[str, set[str]] = {}
        self.others: list[str] = []
        for suffix, texts in by_suffix.items():
            if suffix in _ALL_SUFFIXES:
                self._digits[suffix] = _numbers(texts)
            else:
                self.others += [text + suffix for text in texts]

    def bases(self, suffix: str = LOG) -> list[int]:
        """Base offsets of the segments that have a file with this suffix, in order."""
        return sorted(map(int, self._digits.get(suffix, ())))

    def aborts(self) -> set[int]:
        """Bases of segments that have a file for aborted transactions."""
        return set(map(int, self._digits.get(ABORTED_INDEX, ())))

    def complete(self) -> set[int]:
        """Bases of segments that have all their files, and none for aborted transactions."""
        logs, offsets, times, aborts = (self._digits.get(suffix, _NONE) for suffix in SUFFIXES)
        return set(map(int, (logs & offsets & times) - aborts))

    def leftovers(self) -> list[str]:
        """Names of what a crash left half done, and of indexes whose log file is gone."""
        names, logs = [name for name in self.others if name.endswith(".tmp")], self._digits.get(LOG, _NONE)
        for suffix, digits in self._digits.items():
            orphans = digits - logs if suffix in SUFFIXES else digits
            names += [text + suffix for text in orphans]
        return sorted(names)


def _numbers(texts: list[str]) -> set[str]:
    """Those that consist of digits: all of them, mostly."""
    joined = "".join(texts)
    if joined.isascii() and joined.isdecimal():
        return set(texts)
    return {text for text in texts if text.isascii() and text.isdecimal()}
