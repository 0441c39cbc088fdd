"""A range of versions of one API."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions of one API, both ends included."""

    oldest: int
    newest: int

    def __contains__(self, version: int) -> bool:
        return self.oldest <= version <= self.newest

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}"
