"""The random numbers that pure code needs: given by the caller, so that a test can seed them."""

from __future__ import annotations

from typing import Protocol


class Chance(Protocol):
    """The methods of `random.Random` that are used."""

    def random(self) -> float:
        """A number from 0 to below 1."""

    def uniform(self, a: float, b: float) -> float:
        """A number from `a` to `b`."""
