"""The memory that clients can make the brokers of one process hold: one budget, with shares.

    requests    received and not answered, also in part       a half       large senders are not read
    answers     written and not taken by the peer             an eighth    fetches get less; stalled peers go
    groups      what members joined with, their assignments   an eighth    large joins are refused
    producers   last batches of idempotent producers          an eighth    the oldest are forgotten
    sessions    what fetch sessions remember of partitions    a 32nd       clients get no session

The rest is for Python's own objects around these bytes. A share is what may be used before the broker acts,
not a reservation: one request or one batch may exceed it. Small clients are served at the limit too, so that
a few greedy ones cannot shut out the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Protocol

log = logging.getLogger(__name__)

SMALL_BYTES = 64 << 10
"""What a client may hold or get even when a limit is reached."""
STALLED_S = 1.0
"""A peer that has taken none of its answers for this many seconds may be cut when memory is short."""
LOOK_S = 0.1
"""How often the connections are looked through, at most."""


class Answers(Protocol):
    """The answers of a connection that its peer has not taken whole.

    waiting_bytes    of memory that they hold
    stalled_since    the loop's time when the peer last took something
    """

    waiting_bytes: int
    stalled_since: float

    def count(self) -> None:
        """Bring `waiting_bytes` up to date."""


class Holder(Protocol):
    """A connection, as the budget sees it.

    partial_bytes    of a request that has not come whole
    is_cut           `abort` was called; what waits is freed soon
    """

    peer_host: str
    is_cut: bool

    @property
    def answers(self) -> Answers:
        """The answers that the peer has not taken."""

    @property
    def partial_bytes(self) -> int:
        """The bytes of a request that has not arrived whole."""

    def abort(self) -> None:
        """Cut the connection."""


class Share:
    """A part of the budget. `refused` counts what the limit has cost: requests, connections, producers."""

    __slots__ = ("limit", "refused", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refused = 0

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self.used >= self.limit


class MemoryBudget:
    """Owned by the loop. `connections` are those of all brokers of the process."""

    def __init__(
        self, total: int, requests_max: int, request_max: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.requests = Share(max(min(requests_max, total // 2), request_max))
        self.answers = Share(total // 8)
        self.groups = Share(total // 8)
        self.producers = Share(total // 8)
        self.sessions = Share(total // 32)
        self.connections: list[Collection[Holder]] = []
        self._loop = loop
        self._looked_at = 0.0
        self._is_watching = False

    @property
    def shares(self) -> dict[str, Share]:
        """All shares by name."""
        names = ("requests", "answers", "groups", "producers", "sessions")
        return {name: getattr(self, name) for name in names}

    def _holders(self) -> Iterable[Holder]:
        for connections in self.connections:
            yield from connections

    # --- answers

    def count_answers(self, change: int) -> None:
        """Note that unsent answers have changed by `change` bytes.

        While they are too many, stalled peers are cut.
        """
        self.answers.used += change
        if self.answers.is_full and not self._is_watching:
            self._is_watching = True
            self._loop.call_later(STALLED_S, self._watch)

    def _watch(self) -> None:
        self._is_watching = False
        self._make_room()
        self.count_answers(0)

    def answer_room(self) -> int:
        """Return how large an answer may become now: never below SMALL_BYTES."""
        answers = self.answers
        if answers.used + SMALL_BYTES > answers.limit:
            self._make_room()
        return max(answers.limit - answers.used, SMALL_BYTES)

    def _make_room(self) -> None:
        """Count what peers have taken meanwhile, and cut those that take nothing, the longest
        stalled first.
        """
        now, answers = self._loop.time(), self.answers
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        waiting = [holder for holder in self._holders() if holder.answers.waiting_bytes]
        for holder in waiting:
            holder.answers.count()
        too_much = answers.used - answers.limit // 4 * 3
        too_much -= sum(holder.answers.waiting_bytes for holder in waiting if holder.is_cut)
        uncut = [holder for holder in waiting if not holder.is_cut]
        stalled = [holder for holder in uncut if now - holder.answers.stalled_since >= STALLED_S]
        stalled.sort(key=lambda holder: holder.answers.stalled_since)
        for holder in stalled:
            if too_much <= 0:
                break
            too_much -= holder.answers.waiting_bytes
            self._cut(holder, f"{holder.answers.waiting_bytes:,} bytes of answers wait for it", answers)

    # --- requests

    def free_requests(self) -> None:
        """Cut the largest incomplete requests: the complete ones do not free enough."""
        requests = self.requests
        holders = sorted(self._holders(), key=lambda holder: holder.partial_bytes, reverse=True)
        for holder in holders:
            if requests.used <= requests.limit // 2 or holder.partial_bytes <= SMALL_BYTES:
                break
            self._cut(holder, f"{holder.partial_bytes:,} bytes of its request came, and no end", requests)

    def _cut(self, holder: Holder, why: str, share: Share) -> None:
        share.refused += 1
        log.warning("cutting the connection from %s: memory is short, and %s", holder.peer_host, why)
        holder.abort()
