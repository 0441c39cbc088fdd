"""The inputs and outputs of every coordinator of the broker: callers, replies, and records to store. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.model.error_codes import Code
from ottla.wire.schema import Response


class Record(NamedTuple):
    """A record of a coordinator's topic, to be appended or read."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request: the ticket that its reply must carry, the API version, its id and address."""

    ticket: Hashable
    version: int
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request that came with this ticket."""

    ticket: Hashable
    response: Response


@dataclass(frozen=True, slots=True)
class Append:
    """Records for one partition of the coordinator's topic: all of them or none.

    With a producer's id and epoch they are part of its transaction, and take effect when that is committed.
    """

    append_id: int
    partition: int
    records: tuple[Record, ...]
    producer: tuple[int, int] | None = None


# The error that a client gets if the coordinator's records could not be appended, by the log's own error.
# Retriable ones make it find the coordinator again, or retry. Codes that are not listed are passed on.
_CLIENT_ERRORS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.INVALID_FETCH_SIZE: Code.UNKNOWN_SERVER_ERROR,
}


def client_error(append_error: Code) -> Code:
    """Return the error of a request whose records could not be stored."""
    return _CLIENT_ERRORS.get(append_error, append_error)
