"""Which brokers give no usable answer, since when and why. All threads of a client share one NetworkErrors.

Pure.

Connections and the metadata report here. A caller that gives up waiting gets the cause here, so that its
timeout names it: an address that refuses, a peer that wants TLS, bytes that make no sense, a topic without
leaders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.model.errors import BrokerUnreachable, OttlaError

log = logging.getLogger(__name__)

TELL_AFTER_MS = 2_000.0
"""How long brokers may give no usable answer before a warning says so.

A restart of a broker often takes less.
"""
TELL_AGAIN_MS = 60_000.0
"""The pause before the same warning is repeated."""
SLOW_MS = 1_000.0
"""An answer that is due for longer than this explains why a caller waits."""

CLUSTER = "the cluster"
"""The subject of failures that concern all brokers: no broker has described the cluster."""
SHOWN_MAX = 3


def broker(broker_id: int) -> str:
    """Return the subject for failures of one broker."""
    return f"broker {broker_id}"


def topic(name: str) -> str:
    """Return the subject for failures of one topic: it is unknown, or has no leader."""
    return f"topic {name!r}"


class _Silence:
    """One subject without a usable answer."""

    __slots__ = ("error", "since_ms", "tell_at_ms")

    def __init__(self, error: OttlaError, since_ms: float) -> None:
        self.error = error
        self.since_ms = since_ms
        self.tell_at_ms = since_ms + TELL_AFTER_MS


class NetworkErrors:
    """Any thread may call it: each call is a few operations of dictionaries."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._silences: dict[str, _Silence] = {}
        self._due: dict[str, float] = {}  # peer → since when an answer is due
        self.last: OttlaError | None = None

    # --- reports

    def failed(self, subject: str, error: OttlaError, since_ms: float | None = None) -> None:
        """Note that a request made at `since_ms` has no usable answer. Warns if this lasts for
        TELL_AFTER_MS.
        """
        now_ms = self._now_ms()
        silence = self._silences.get(subject)
        if silence is None:
            began_ms = now_ms if since_ms is None else since_ms
            silence = self._silences[subject] = _Silence(error, began_ms)
        silence.error = self.last = error
        if now_ms >= silence.tell_at_ms:
            silence.tell_at_ms = now_ms + TELL_AGAIN_MS
            log.warning(
                "%s: no usable answer for %.0f s, still trying: %s",
                subject,
                (now_ms - silence.since_ms) / 1000.0,
                error,
            )

    def answered(self, subject: str) -> None:
        """Note that there is a usable answer."""
        if subject in self._silences:
            silence = self._silences.pop(subject, None)
            if silence is not None and silence.tell_at_ms > silence.since_ms + TELL_AFTER_MS:
                log.warning("%s answers again", subject)

    def forget(self, subject: str) -> None:
        """Forget the failures of a subject: no caller waits for its answer any more."""
        self._silences.pop(subject, None)

    def due_from(self, peer: str, in_ms: float = 0.0) -> None:
        """Note that the peer owes an answer from now on, or in `in_ms` if it may hold the answer back."""
        self._due[peer] = self._now_ms() + in_ms

    def not_due_from(self, peer: str) -> None:
        """Note that the peer owes no answer."""
        self._due.pop(peer, None)

    # --- causes

    def of(self, *subjects: str) -> OttlaError | None:
        """Return the error of the first of these subjects that has one; None if none has."""
        for subject in subjects:
            silence = self._silences.get(subject)
            if silence is not None:
                return silence.error
        return None

    def cause(self, *subjects: str) -> str:
        """Return why a caller waits, as the end of its own message; "" if no reason is known.

        These subjects come first, then the cluster, then any broker, then answers that are due.
        """
        error = self.of(*subjects, CLUSTER)
        if error is not None:
            return f": {error}"
        errors = [f"{silence.error}" for silence in list(self._silences.values())]
        if not errors:
            now_ms = self._now_ms()
            errors = [
                f"{peer} has not answered for {(now_ms - since_ms) / 1000.0:.0f} s"
                for peer, since_ms in list(self._due.items())
                if now_ms - since_ms >= SLOW_MS
            ]
        return f": {'; '.join(errors[:SHOWN_MAX])}" if errors else ""

    def problem(self) -> OttlaError | None:
        """Return why a caller waits, as an error; None if no reason is known."""
        error = self.of(CLUSTER)
        if error is not None:
            return error
        why = self.cause().removeprefix(": ")
        return BrokerUnreachable(why) if why else None
