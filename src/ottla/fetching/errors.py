"""What goes wrong with one partition: what is done about it, and what its reader learns.

Every error is reported to the partition's own channel. The table says what else happens: the partition is
asked for again, moves to another broker, gets another offset, or stops until its reader decides.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from ottla.client.retry import Action, action_for
from ottla.fetching.places import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AuthenticationFailed,
    ConfigError,
    CorruptRecord,
    KafkaError,
    LocalProtocolError,
    OttlaError,
)

REPORTS_MAX = 256


class MessageSizeTooLarge(OttlaError):
    """A message is larger than fetch.message.max.bytes, and the broker is too old to send it anyway."""


class Reaction(Enum):
    """What is done about an error."""

    RETRY = "asked for again later"
    MOVE = "looked for at another broker"
    RESET = "moved to another offset"
    SKIP = "gone on behind it"
    STOP = "stopped"


_OWN = {
    Code.OFFSET_OUT_OF_RANGE: Reaction.RESET,
    # Kafka calls it retriable, but a broker that finds damage on its disk finds it again.
    Code.CORRUPT_MESSAGE: Reaction.STOP,
}
_INCURABLE = (AuthenticationFailed, LocalProtocolError, ConfigError)
_REACTIONS = {Action.RETRY: Reaction.RETRY, Action.REFRESH: Reaction.MOVE, Action.FAIL: Reaction.STOP}


def reaction_to(code: int) -> Reaction:
    """What is done about a code of a Fetch or ListOffsets answer."""
    return _OWN.get(Code.of(code)) or _REACTIONS.get(action_for(code), Reaction.STOP)


def reaction_about(error: Exception) -> Reaction:
    """What is done when nothing can be read from a broker at all, or no leader be found: MOVE, which is to
    look for a leader again, unless that cannot help."""
    if isinstance(error, KafkaError):
        return Reaction.STOP if reaction_to(error.code) is Reaction.STOP else Reaction.MOVE
    is_curable = isinstance(error, OttlaError) and not isinstance(error, _INCURABLE)
    return Reaction.MOVE if is_curable else Reaction.STOP


@dataclass(frozen=True, slots=True)
class PartitionError:
    """One report: what happened at which offset, and what is done. `times` counts the same in a row."""

    topic_partition: TopicAndPartition
    error: Exception
    reaction: Reaction
    offset: int
    times: int = 1

    def __str__(self) -> str:
        often = f", {self.times} times" if self.times > 1 else ""
        return f"{self.topic_partition} at offset {self.offset}: {self.error}; {self.reaction.value}{often}"

    def repeats(self, other: PartitionError) -> bool:
        """Whether the other one says the same, so that counting is enough."""
        return (self.reaction, self.offset, type(self.error), str(self.error)) == (
            other.reaction,
            other.offset,
            type(other.error),
            str(other.error),
        )


class ErrorChannel:
    """Reports that nobody has taken yet. Any thread may report and take.

    The same error again only counts, so a broker that is away for hours is one report. Above REPORTS_MAX the
    oldest go, and `lost` tells how many.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._reports: deque[PartitionError] = deque()
        self._is_closed = False
        self.lost = 0

    def __len__(self) -> int:
        return len(self._reports)

    def report(self, report: PartitionError) -> None:
        """Add one."""
        with self._changed:
            if self._reports and self._reports[-1].repeats(report):
                self._reports[-1] = replace(self._reports[-1], times=self._reports[-1].times + 1)
                return
            self._reports.append(report)
            if len(self._reports) > REPORTS_MAX:
                self._reports.popleft()
                self.lost += 1
            self._changed.notify_all()

    def poll(self, timeout_ms: float | None = 0) -> PartitionError | None:
        """Take the oldest; waits for one so long, None is without end. None when closed."""
        with self._changed:
            seconds = None if timeout_ms is None else timeout_ms / 1000
            self._changed.wait_for(lambda: self._reports or self._is_closed, seconds)
            return self._reports.popleft() if self._reports else None

    def close(self) -> None:
        """No more will come."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def refused(topic_partition: TopicAndPartition, offset: int, code: int) -> OttlaError:
    """A broker's error code as what the reader of the partition gets."""
    if code == Code.CORRUPT_MESSAGE:
        return CorruptRecord(
            f"{topic_partition}: the broker finds its records damaged at offset {offset}; skip() or seek()",
            offset=offset,
        )
    context = f"{topic_partition} at offset {offset}"
    if code == Code.OFFSET_OUT_OF_RANGE:
        context += ", and auto.offset.reset is none; seek() to an offset that the log has"
    return KafkaError(code, context)


def damaged(
    topic_partition: TopicAndPartition, position: int, high_watermark: int, damage: CorruptRecord
) -> CorruptRecord:
    """A decoder's finding with the place that it is of, and a place to go on that the log can have.

    Offsets in damaged bytes may be anything: one outside the log is not believed.
    """
    after = damage.next_offset
    behind = after if after is not None and position < after <= high_watermark else position + 1
    return CorruptRecord(
        f"{topic_partition} at offset {position}: {damage}; skip() goes on at offset {behind}",
        offset=position,
        next_offset=behind,
    )
