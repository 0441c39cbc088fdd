"""MemberTimes: when a member has to speak up, by what happened and when. No clock: the present is given."""

from __future__ import annotations

from collections.abc import Callable

from ottla.grouped.config import MemberConfig


class MemberTimes:
    """`pause_ms` tells how long to wait after so many failures in a row."""

    def __init__(self, config: MemberConfig, pause_ms: Callable[[int], float]) -> None:
        self._config = config
        self._pause_ms = pause_ms
        self._failures = 0
        self._heartbeat_at_ms = 0.0
        self._answered_at_ms = 0.0  # the last heartbeat, join or sync
        self._synced_at_ms = 0.0
        self._polled_at_ms: float | None = None
        self.retry_at_ms = 0.0

    # --- the coordinator

    def answered(self, now_ms: float) -> None:
        """It took a heartbeat, a join or a sync: the session begins anew."""
        self._failures = 0
        self.retry_at_ms = 0.0
        self._answered_at_ms = now_ms
        self._heartbeat_at_ms = now_ms + self._config.heartbeat_interval_ms

    def synced(self) -> None:
        """The last answer was the one to a sync."""
        self._synced_at_ms = self._answered_at_ms

    def failed(self, now_ms: float) -> None:
        """It did not: later, and later each time."""
        self._failures += 1
        self.retry_at_ms = now_ms + self._pause_ms(self._failures)

    def is_heartbeat_due(self, now_ms: float) -> bool:
        """Whether it is time to tell that the member lives."""
        return now_ms >= self._heartbeat_at_ms

    def heartbeat_patience_ms(self, now_ms: float) -> float:
        """How long an answer may take: what is left of the session, and time for one at least."""
        left_ms = self._answered_at_ms + self._config.session_timeout_ms - now_ms
        return max(left_ms, float(self._config.heartbeat_interval_ms))

    def has_lasted_a_session(self, now_ms: float) -> bool:
        """Whether the generation is so old that all who died before it are known to be dead."""
        return now_ms - self._synced_at_ms >= self._config.session_timeout_ms

    @property
    def plan_by_ms(self) -> float:
        """Until when a leader that assigns waits for fresh counts: nothing else tells that it lives."""
        return self._answered_at_ms + self._config.session_timeout_ms / 3

    @property
    def beat_at_ms(self) -> float:
        """When a member that sends heartbeats has something to do: one of them, or to leave."""
        beat_ms = max(self._heartbeat_at_ms, self.retry_at_ms)
        if self._polled_at_ms is None:
            return beat_ms
        return min(beat_ms, self._polled_at_ms + self._config.max_poll_interval_ms)

    # --- the application

    def polled(self, now_ms: float) -> None:
        """It asks for records, so it is alive."""
        self._polled_at_ms = now_ms

    @property
    def is_polled(self) -> bool:
        """Whether it does so; not before the first time, nor while it is too slow."""
        return self._polled_at_ms is not None

    def too_slow_ms(self, now_ms: float) -> float:
        """How long it has not polled, once, if that is longer than it may take; else 0."""
        if self._polled_at_ms is None or now_ms - self._polled_at_ms < self._config.max_poll_interval_ms:
            return 0.0
        took_ms, self._polled_at_ms = now_ms - self._polled_at_ms, None
        return took_ms
