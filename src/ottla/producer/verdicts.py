"""What a Produce answer means for a batch, by its error code."""

from __future__ import annotations

from enum import Enum

from ottla.client.retry import Action, action_for
from ottla.model.error_codes import Code


class Verdict(Enum):
    """What happens to the batch."""

    STORED = "it is in the log"
    RETRY = "send it again later"
    MOVE = "send it again when the leader is known anew"
    SPLIT = "send it in two halves"
    OUT_OF_STEP = "its number is not the next: send it again, renumbered if it is the first"
    NEW_IDENTITY = "the broker does not take the producer's id: send it under another"
    FAIL = "tell the caller"


_VERDICTS = {
    Code.NONE: Verdict.STORED,
    Code.DUPLICATE_SEQUENCE_NUMBER: Verdict.STORED,
    Code.MESSAGE_TOO_LARGE: Verdict.SPLIT,
    Code.RECORD_LIST_TOO_LARGE: Verdict.SPLIT,
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_STEP,
    Code.UNKNOWN_PRODUCER_ID: Verdict.OUT_OF_STEP,
    Code.INVALID_PRODUCER_EPOCH: Verdict.NEW_IDENTITY,
    Code.INVALID_PRODUCER_ID_MAPPING: Verdict.NEW_IDENTITY,
}

MAY_BE_STORED = frozenset(
    {
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NETWORK_EXCEPTION,
        Code.KAFKA_STORAGE_ERROR,
        Code.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that come after the append, or may."""


def verdict_on(code: int) -> Verdict:
    """What an error code of a partition means; a number without a name fails."""
    known = Code.of(code)
    if known in _VERDICTS:
        return _VERDICTS[known]
    action = action_for(code)
    if action is Action.REFRESH:
        return Verdict.MOVE
    return Verdict.FAIL if action is Action.FAIL else Verdict.RETRY
