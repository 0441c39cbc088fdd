"""Errors of one partition: what is done about them, and what its reader gets. Pure.

Every error is reported to the partition's channel. `ottla.client.reactions` says what else happens: the
partition is requested again, moves to another broker, gets another offset, or stops. A stopped partition is
a state: its reader shows it until a skip, a seek or a retry ends it, or a later try succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.client.reactions import Action, Call, action_for
from ottla.client.retry import Backoff
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AuthenticationFailed,
    ConfigError,
    CorruptRecord,
    KafkaError,
    LocalProtocolError,
    MessageSizeTooLarge,
    OttlaError,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.primitives import Buffer


class Reaction(Enum):
    """What is done about an error."""

    RETRY = "tried again later"
    MOVE = "looked for at another broker"
    RESET = "moved to another offset"
    SKIP = "gone on behind it"
    STOP = "stopped until skip(), seek() or retry(), or until a later try succeeds"


_INCURABLE = (AuthenticationFailed, LocalProtocolError, ConfigError)
_REACTIONS = {
    Action.RETRY: Reaction.RETRY,
    Action.REFRESH: Reaction.MOVE,
    Action.RESET: Reaction.RESET,
    Action.FAIL: Reaction.STOP,
}


def reaction_to(code: int, call: Call = Call.FETCH) -> Reaction:
    """Return what is done about an error code in a Fetch, ListOffsets or Metadata response."""
    return _REACTIONS[action_for(code, call)]


def reaction_about(error: Exception) -> Reaction:
    """Return what is done if a broker cannot be read from, or no leader is found.

    MOVE (look for a leader again), or STOP if that cannot help.
    """
    if isinstance(error, KafkaError):
        is_final = reaction_to(error.code, Call.METADATA) is Reaction.STOP
        return Reaction.STOP if is_final else Reaction.MOVE
    is_curable = isinstance(error, OttlaError) and not isinstance(error, _INCURABLE)
    return Reaction.MOVE if is_curable else Reaction.STOP


OFFSET_BYTES = 8
STOPPED_BACKOFF = Backoff(1_000.0, 300_000.0)
"""The pauses between two tries of a stopped partition. Each failed try is logged."""
LOGGED_AGAIN = 16
LOGGED_EACH = 256
"""A repeated error is logged the 1st, 16th, 32nd, 64th … time, and then every 256th time."""


@dataclass(frozen=True, slots=True)
class PartitionError:
    """What happened at which offset, and what was done. `times` counts repetitions in a row."""

    topic_partition: TopicAndPartition
    error: Exception
    reaction: Reaction
    offset: int
    times: int = 1

    def __str__(self) -> str:
        often = f", {self.times} times" if self.times > 1 else ""
        return f"{self.topic_partition} at offset {self.offset}: {self.error}; {self.reaction.value}{often}"

    @property
    def is_logged(self) -> bool:
        """Whether this repetition is logged: the first one, then less and less often, for ever."""
        is_power = self.times >= LOGGED_AGAIN and not self.times & (self.times - 1)
        return self.times == 1 or is_power or not self.times % LOGGED_EACH

    def repeats(self, other: PartitionError) -> bool:
        """Whether the other report is about the same error, so that it is enough to count it."""
        return (self.reaction, self.offset, type(self.error), str(self.error)) == (
            other.reaction,
            other.offset,
            type(other.error),
            str(other.error),
        )


def refused(topic_partition: TopicAndPartition, offset: int, code: int) -> OttlaError:
    """Return the error that the partition's reader gets for a broker's error code."""
    if code == Code.CORRUPT_MESSAGE:
        return CorruptRecord(
            f"{topic_partition}: the broker finds its records damaged at offset {offset}; skip() or retry()",
            offset=offset,
        )
    context = f"{topic_partition} at offset {offset}"
    if code == Code.OFFSET_OUT_OF_RANGE:
        context += ", and auto.offset.reset is none; seek() to an offset that the log has"
    return KafkaError(code, context)


def damaged(
    topic_partition: TopicAndPartition, position: int, high_watermark: int, damage: CorruptRecord
) -> CorruptRecord:
    """Return the decoder's error, with the partition and with an offset to continue at.

    Offsets in damaged bytes may be anything, so an offset outside the log is ignored.
    """
    after = damage.next_offset
    behind = after if after is not None and position < after <= high_watermark else position + 1
    return CorruptRecord(
        f"{topic_partition} at offset {position}: {damage}; skip() goes on at offset {behind}",
        offset=position,
        next_offset=behind,
    )


def too_large(
    topic_partition: TopicAndPartition, position: int, high_watermark: int, limit: int, records: Buffer
) -> MessageSizeTooLarge:
    """Return the error for a message that arrived cut.

    Its first bytes have its offset, which for a set of messages is that of the last one.
    """
    last = int.from_bytes(bytes(records[:OFFSET_BYTES]), "big", signed=True)
    behind = last + 1 if position <= last < high_watermark else position + 1
    return MessageSizeTooLarge(
        f"{topic_partition} at offset {position}: a message is larger than the {limit} bytes of "
        f"fetch.message.max.bytes; raise that, or skip() the message: that goes on at offset {behind}",
        next_offset=behind,
    )
