"""MemberTimes: when a member has to send something. It has no clock: callers pass the present time."""

from __future__ import annotations

from collections.abc import Callable

from ottla.consumer.coordinated.member_config import MemberConfig

FAILURES_UNLOGGED = 4
"""Failures in a row that are not logged: coordinators refuse requests for a moment while they load or move.
"""
YOUNG_MS = 100.0
"""The first heartbeat of a new member comes after this time.

Later pauses are as long as the member's age, up to heartbeat.interval.ms.
"""


class MemberTimes:
    """`pause_ms(failures)` is the pause after that many failures in a row."""

    def __init__(self, config: MemberConfig, pause_ms: Callable[[int], float]) -> None:
        self._config = config
        self.interval_ms = config.heartbeat_interval_ms  # between two heartbeats
        self._pause_ms = pause_ms
        self._failures = 0
        self._heartbeat_at_ms = 0.0
        self._answered_at_ms = 0.0  # the last heartbeat, join or sync
        self._synced_at_ms = 0.0
        self._member_since_ms: float | None = None
        self._polled_at_ms: float | None = None
        self.retry_at_ms = 0.0

    # --- the coordinator

    def answered(self, now_ms: float) -> None:
        """Note that the coordinator accepted a heartbeat, a join or a sync: the session starts again."""
        self._failures = 0
        self.retry_at_ms = 0.0
        self._answered_at_ms = now_ms
        self._heartbeat_at_ms = now_ms + self._next_heartbeat_ms()

    def synced(self) -> None:
        """Note that the last answer was the answer to a sync."""
        self._synced_at_ms = self._answered_at_ms
        if self._member_since_ms is None:
            self._member_since_ms = self._answered_at_ms
        self._heartbeat_at_ms = self._answered_at_ms + self._next_heartbeat_ms()

    def _next_heartbeat_ms(self) -> float:
        """Return the pause between an answer and the next heartbeat.

        Members of a group often start together, and the first one learns of the others only by a heartbeat.
        So a new member sends heartbeats more often than every heartbeat.interval.ms.
        """
        if self._member_since_ms is None:
            return self.interval_ms
        return min(max(self._answered_at_ms - self._member_since_ms, YOUNG_MS), self.interval_ms)

    def failed(self, now_ms: float) -> None:
        """Note a failed request. The next try comes after a pause, which grows with each failure in a row."""
        self._failures += 1
        self.retry_at_ms = now_ms + self._pause_ms(self._failures)

    @property
    def is_failure_logged(self) -> bool:
        """Whether to log the last of several failures in a row: the 4th, 8th, 16th and so on."""
        return self._failures >= FAILURES_UNLOGGED and not self._failures & (self._failures - 1)

    def is_heartbeat_due(self, now_ms: float) -> bool:
        """Whether it is time for a heartbeat."""
        return now_ms >= self._heartbeat_at_ms

    def heartbeat_timeout_ms(self, now_ms: float) -> float:
        """How long to wait for the answer to a heartbeat: the rest of the session, at least one interval."""
        left_ms = self._answered_at_ms + self._config.session_timeout_ms - now_ms
        return max(left_ms, float(self.interval_ms))

    def is_session_over(self, now_ms: float) -> bool:
        """Whether the session is over: the coordinator accepted no request within it, so others may own the
        partitions.
        """
        return now_ms - self._answered_at_ms >= self._config.session_timeout_ms

    def has_lasted_a_session(self, now_ms: float) -> bool:
        """Whether the generation is older than a session: members that died before it began are expired by
        now.
        """
        return now_ms - self._synced_at_ms >= self._config.session_timeout_ms

    @property
    def plan_by_ms(self) -> float:
        """Until when an assigning leader waits for partition counts: it sends no heartbeats meanwhile."""
        return self._answered_at_ms + self._config.session_timeout_ms / 3

    @property
    def beat_at_ms(self) -> float:
        """When a member that sends heartbeats has to act: to send one, or to leave the group."""
        beat_ms = max(self._heartbeat_at_ms, self.retry_at_ms)
        if self._polled_at_ms is None:
            return beat_ms
        return min(beat_ms, self._polled_at_ms + self._config.max_poll_interval_ms)

    # --- the application

    def polled(self, now_ms: float) -> None:
        """Note that the application polls, so it is alive."""
        self._polled_at_ms = now_ms

    @property
    def is_polled(self) -> bool:
        """Whether the application polls; false before the first poll and after it was too slow."""
        return self._polled_at_ms is not None

    def too_slow_ms(self, now_ms: float) -> float:
        """Return the time since the last poll if that exceeds max.poll.interval.ms, once for each delay;
        otherwise 0.
        """
        if self._polled_at_ms is None or now_ms - self._polled_at_ms < self._config.max_poll_interval_ms:
            return 0.0
        took_ms, self._polled_at_ms = now_ms - self._polled_at_ms, None
        return took_ms
