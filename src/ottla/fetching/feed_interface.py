"""A partition's feed as the pure core sees it: what its reader wants, and where results go."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from ottla.fetching.chunk_queue import FetchedDataChunk, Room
from ottla.fetching.fetch_errors import PartitionError, Reaction
from ottla.fetching.partition_info import BrokerAndInitialOffset
from ottla.model.topic_partition import TopicAndPartition

BY_RESET_POLICY = -3
"""Instead of an offset: begin where auto.offset.reset says, as for a group that has committed nothing."""


class Want(Enum):
    """What a fetcher has to do about a partition."""

    FETCH = "fetch"
    FULL = "wait for the reader"
    PARKED = "wait until the reader has taken all"
    IDLE = "nothing: paused"
    CLOSED = "forget it"


WANT_BY_ROOM = {Room.OPEN: Want.FETCH, Room.FULL: Want.FULL, Room.PARKED: Want.PARKED}


class Wanted(NamedTuple):
    """`start` is where a new generation begins: an offset, LATEST, EARLIEST or BY_RESET_POLICY."""

    want: Want
    generation: int
    start: int


class Attendant(Protocol):
    """The thread that fetches a partition. Called under the feed's lock, so the methods only set flags."""

    def room_was_made(self) -> None:
        """Note that the reader has taken a chunk."""

    def orders_changed(self) -> None:
        """Note that the reader paused, resumed, made a seek or closed the feed."""


class NoAttendant:
    """The attendant of a partition that is not fetched at present.

    The next fetcher looks at the reader's orders first.
    """

    def room_was_made(self) -> None:
        """Do nothing: no fetcher waits."""

    def orders_changed(self) -> None:
        """Do nothing: no fetcher waits."""


NO_ATTENDANT = NoAttendant()


class Feed(Protocol):
    """The fetcher's side of a PartitionFeed. What is reported for an older generation is ignored."""

    @property
    def topic_partition(self) -> TopicAndPartition:
        """The partition."""

    @property
    def stop_offset(self) -> int:
        """The offset at which reading stops."""

    @property
    def generation(self) -> int:
        """The number of seeks."""

    @property
    def start(self) -> int:
        """Where the last seek went."""

    @property
    def high_watermark(self) -> int:
        """The log's end in the last response."""

    @property
    def queued_bytes(self) -> int:
        """The bytes that wait for the reader."""

    @property
    def failure(self) -> Exception | None:
        """The error that stopped the partition; None if it is not stopped."""

    @property
    def trouble(self) -> PartitionError | None:
        """Why the partition cannot be read at present."""

    @property
    def is_closed(self) -> bool:
        """Whether the reader has closed the feed."""

    def attach(self, attendant: Attendant, source: BrokerAndInitialOffset | None = None) -> None:
        """Have another thread fetch the partition from now on."""

    def wanted(self, *, share_bytes: int, expected_bytes: int, pending_bytes: int) -> Wanted:
        """Return what to do about the partition now."""

    def started(self, generation: int, offset: int) -> bool:
        """Note the offset where a generation begins."""

    def deliver(self, generation: int, chunk: FetchedDataChunk) -> bool:
        """Queue a chunk."""

    def passed(self, generation: int, next_offset: int, high_watermark: int) -> bool:
        """Note that the offsets before `next_offset` have no records for the reader."""

    def report(self, error: Exception, reaction: Reaction, offset: int) -> PartitionError:
        """Report an error and what is done about it; returns it with the number of repetitions."""

    def stop(self, generation: int, error: Exception) -> bool:
        """Stop the partition: the reader gets the error after the last chunk."""

    def recovered(self, generation: int) -> bool:
        """Note that the partition can be read again. Returns whether it was stopped."""
