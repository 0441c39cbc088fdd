"""How many producers the partitions of a process remember: at the limit the oldest are forgotten.

A forgotten producer that writes again is taken for a new one, as after `producer.id.expiration.ms`: its
batches are accepted, only a repeated one is not recognized.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ottla.broker.producer_state.producer_states import ProducerStates
from ottla.broker.storage.memory import Share

log = logging.getLogger(__name__)

PRODUCER_BYTES = 1024
"""About what is kept of one producer in one partition."""


class ProducerMemory:
    """Owned by the loop. `states` returns those of all partitions."""

    def __init__(self, share: Share, states: Callable[[], Iterable[ProducerStates]]) -> None:
        self._share = share
        self._states = states

    def count_one(self) -> None:
        """Count a producer that a partition did not know before."""
        self._share.used += PRODUCER_BYTES
        if self._share.is_full:
            self.count_all()
            if self._share.is_full:
                self._forget_oldest()

    def count_all(self) -> None:
        """Count all again, because many have expired."""
        self._share.used = PRODUCER_BYTES * sum(map(len, self._states()))

    def _forget_oldest(self) -> None:
        """Forget a quarter of all producers that have no open transaction."""
        times = sorted(time for states in self._states() for time in states.timestamps())
        if not times:
            return
        limit = times[len(times) // 4]
        forgotten = sum(states.expire(limit, 0) for states in self._states())
        self._share.refused += forgotten
        log.warning("%d of %d producers are forgotten: memory is short", forgotten, len(times))
        self.count_all()
