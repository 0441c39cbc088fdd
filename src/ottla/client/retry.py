"""How long to wait before the next try. Pure. What is tried again at all is in `ottla.client.reactions`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.model.chance import Chance


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from `first_ms` to `most_ms`. Each is up to a fifth shorter or longer, so that
    clients that lost the same broker do not reconnect all at once."""

    first_ms: float
    most_ms: float
    jitter: float = 0.2

    def pause_ms(self, failures: int, chance: Chance) -> float:
        """Return how long to wait after `failures` failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        doubled = self.first_ms * 2.0 ** min(failures - 1, 30)
        spread = chance.uniform(1.0 - self.jitter, 1.0 + self.jitter)
        return min(doubled, max(self.first_ms, self.most_ms)) * spread
