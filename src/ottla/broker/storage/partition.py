"""A partition as the brokers of this process share it: its log, its leader, and fetches that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.producer_state import ProducerStates
from ottla.broker.settings.topic_settings import TopicConfig
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

NO_LEADER = -1

WriteListener = Callable[["Partition", int], None]


class LegacyRun(NamedTuple):
    """From `start_offset` to the log's end no format is newer than `magic`: old readers need no check."""

    start_offset: int
    magic: int


class Partition:
    """Owned by the broker's loop.

    `log` is None while the log is damaged or offline: requests then get a storage error. `listeners` are
    called after every write with the partition and the number of bytes.
    """

    __slots__ = (
        "index",
        "leader",
        "leader_epoch",
        "legacy_run",
        "listeners",
        "log",
        "producers",
        "replicas",
        "settings",
        "topic",
        "was_led",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: PartitionLog | None,
        replicas: tuple[int, ...],
        settings: TopicConfig,
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.replicas = replicas
        self.settings = settings
        self.leader = NO_LEADER
        self.leader_epoch = 0
        self.was_led = False  # in this process: a first leader continues with the epoch that was stored
        self.producers = ProducerStates()
        self.legacy_run: LegacyRun | None = None
        self.listeners: dict[WriteListener, None] = {}  # in the order in which they came

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    def note_format(self, base_offset: int, magic: int) -> None:
        """Note that records of a format were appended."""
        run = self.legacy_run
        if magic > 1:
            self.legacy_run = None
        elif run is None:
            self.legacy_run = LegacyRun(base_offset, magic)
        elif magic > run.magic:
            self.legacy_run = LegacyRun(run.start_offset, magic)

    def wake(self, size: int) -> None:
        """Call the listeners: `size` bytes were written, or with 0 something else changed."""
        for listener in list(self.listeners):
            listener(self, size)

    @property
    def last_stable_offset(self) -> int:
        """Below it all transactions are decided; -1 if the log is offline."""
        log, first = self.log, self.producers.first_unstable
        if log is None:
            return -1
        end = log.high_watermark
        return end if first < 0 else min(max(first, log.start_offset), end)

    def led_log(self, broker_id: int, client_epoch: int = -1) -> PartitionLog:
        """Return the log for a request that only the leader may serve.

        `client_epoch` is the leader epoch that the client assumes, -1 if none. Raises KafkaError if another
        broker leads or the epoch is another, StorageError if the log is damaged or offline.
        """
        if self.leader != broker_id:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(self))
        if client_epoch >= 0 and client_epoch != self.leader_epoch:
            is_old = client_epoch < self.leader_epoch
            raise KafkaError(Code.FENCED_LEADER_EPOCH if is_old else Code.UNKNOWN_LEADER_EPOCH, repr(self))
        if self.log is None:
            raise StorageError(f"{self} is offline")
        return self.log
