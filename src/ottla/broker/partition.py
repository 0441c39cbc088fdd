"""A partition as the brokers of this process share it: its log, who leads it, and who waits for its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.epoch_ends import NOT_KNOWN, end_of, led_epochs
from ottla.broker.producers import ProducerStates
from ottla.broker.topic_settings import TopicConfig
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code

NO_LEADER = -1

WriteListener = Callable[["Partition", int], None]


class LegacyRun(NamedTuple):
    """From an offset to the end of the log nothing is newer than a format: old readers need no check."""

    start_offset: int
    magic: int


class Partition:
    """Owned by the broker's loop.

    `log` is None while the log is damaged or offline: the partition exists, and answers a storage error.
    `listeners` are told of every write: the partition and how many bytes came.
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
        self.was_led = False  # in this process: a first leader goes on with the epoch that was stored
        self.producers = ProducerStates()
        self.legacy_run: LegacyRun | None = None
        self.listeners: set[WriteListener] = set()

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    def note_format(self, base_offset: int, magic: int) -> None:
        """Records of a format were appended."""
        run = self.legacy_run
        if magic > 1:
            self.legacy_run = None
        elif run is None:
            self.legacy_run = LegacyRun(base_offset, magic)
        elif magic > run.magic:
            self.legacy_run = LegacyRun(run.start_offset, magic)

    def wake(self, size: int) -> None:
        """Tell the listeners that so many bytes were written, or that something else changed."""
        for listener in list(self.listeners):
            listener(self, size)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch not above `epoch`, the offset where it ended); (-1, -1) if it is not known."""
        if self.log is None:
            return NOT_KNOWN
        end = self.log.high_watermark
        return end_of(epoch, led_epochs(self.log.epochs.entries, self.leader_epoch, end), end)

    def epoch_error(self, client_epoch: int) -> Code:
        """What a client is told that believes in another leader epoch; -1 means that it does not say."""
        if client_epoch < 0 or client_epoch == self.leader_epoch:
            return Code.NONE
        return Code.FENCED_LEADER_EPOCH if client_epoch < self.leader_epoch else Code.UNKNOWN_LEADER_EPOCH
