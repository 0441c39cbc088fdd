"""Appending a record set to a partition: every check that a produce request must pass, then one stage.

Both ways of a produce request end here: `handlers.produce` and `serving.express_lane`. So do markers, which
end transactions, and what the broker itself writes in a producer's transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.broker.settings.topic_settings import TopicConfig
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.open_transactions import NotAdmitted
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.producer_memory import ProducerMemory
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.storage.turn import Failures
from ottla.log.batch_header import BatchHeader, named
from ottla.log.end_markers import EndMarker, marker_batch
from ottla.log.file_system import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.recompression import recompressed
from ottla.log.up_conversion import in_format_2
from ottla.log.validation import ZSTD, CheckedSet, checked
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.record_layout import TRANSACTIONAL
from ottla.model.topic_partition import INTERNAL_TOPICS

ACKS_ALL = -1
ZSTD_SINCE = 7
"""The first version of Produce that may carry zstd."""


class AppendedRecords(NamedTuple):
    """A record set that has its offsets and is written at the end of the turn."""

    partition: Partition
    base_offset: int
    append_time_ms: int
    start_offset: int


MarkerListener = Callable[[Partition, EndMarker], None]


class Appender:
    """Appends for one broker. Owned by the loop. `marker_listeners` are called with markers once written."""

    __slots__ = ("_broker_id", "_leaders", "_memory", "_runtime", "_store", "_turn", "marker_listeners")

    def __init__(
        self, broker_id: int, store: TopicStore, leaders: Leaders, runtime: Runtime, memory: ProducerMemory
    ) -> None:
        self._broker_id = broker_id
        self._memory = memory
        self._store = store
        self._leaders = leaders
        self._runtime = runtime
        self._turn = runtime.turn
        self.marker_listeners: list[MarkerListener] = []

    def append(
        self,
        topic: str,
        index: int,
        records: Buffer,
        version: int,
        acks: int,
        checked_set: CheckedSet | None = None,
        *,
        is_admitted: bool = False,
    ) -> AppendedRecords:
        """Check a record set and stage it. Raises KafkaError or StorageError; then nothing is staged.

        Raises LongCheck where the check takes long: a thread does it (`check_later`), and then the set comes
        again as `checked_set`. A batch that an idempotent producer sends again gets its first offsets. Raises
        NotAdmitted for the first batch of a transaction, unless its coordinator has admitted it.
        """
        partition = self._store.partition(topic, index)
        log = partition.led_log(self._broker_id)
        if acks == ACKS_ALL and partition.settings.min_insync_replicas > 1:
            self._check_replicas(partition)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own")
        now_ms = self._runtime.now_ms()
        if checked_set is None:
            checked_set = checked(records, log.config, now_ms, at_once=True)
            batches = checked_set.batches
            settings = partition.settings
            if (
                version < ZSTD_SINCE
                or len(batches) != 1
                or batches[0].magic != 2
                or settings.codec not in (None, batches[0].codec)
            ):
                checked_set = _accepted(checked_set, version, settings, at_once=True)
        batches = checked_set.batches
        if not batches:
            self._turn.stage(partition)  # nothing to write, but the answer is sent at the end of the turn
            return AppendedRecords(partition, -1, -1, log.start_offset)
        header = batches[0]
        if header.producer_id < 0 and not header.attributes & TRANSACTIONAL:
            self._turn.stage(partition)
            base_offset, _, append_time_ms = log.append(checked_set, now_ms, partition.leader_epoch)
            if header.magic < 2 or partition.legacy_run is not None:
                partition.note_format(base_offset, max(batch.magic for batch in batches))
            return named(AppendedRecords, (partition, base_offset, append_time_ms, log.start_offset))
        duplicate = partition.producers.check(header)
        if duplicate is not None:
            self._turn.stage(partition)
            # Its first copy may still be on the way to the disk: it is acknowledged with the next write.
            return AppendedRecords(
                partition, duplicate.base_offset, duplicate.append_time_ms, log.start_offset
            )
        if header.attributes & TRANSACTIONAL and not is_admitted:
            self._check_open(partition, header)
        return self._stage(partition, log, checked_set, now_ms)

    def _check_open(self, partition: Partition, header: BatchHeader) -> None:
        if header.producer_id < 0:
            raise KafkaError(Code.INVALID_RECORD, "a transactional batch without a producer id")
        if not partition.producers.is_open(header.producer_id, header.producer_epoch):
            raise NotAdmitted(header.producer_id, header.producer_epoch)

    def _stage(
        self, partition: Partition, log: PartitionLog, checked_set: CheckedSet, now_ms: int
    ) -> AppendedRecords:
        """Stage the batch of a producer. Raises KafkaError or StorageError."""
        header = checked_set.batches[0]
        self._turn.stage(partition)
        base_offset, _, append_time_ms = log.append(checked_set, now_ms, partition.leader_epoch)
        if partition.producers.stage(header, base_offset, append_time_ms):
            self._memory.count_one()
        partition.legacy_run = None
        return named(AppendedRecords, (partition, base_offset, append_time_ms, log.start_offset))

    def append_own(self, partition: Partition, own: CheckedSet) -> AppendedRecords:
        """Stage a batch of the broker's own in a producer's transaction: offsets that are committed with it.

        The batch has the producer's id and epoch and no sequence. Raises KafkaError or StorageError.
        """
        log = partition.led_log(self._broker_id)
        partition.producers.check_own(own.batches[0])
        return self._stage(partition, log, own, self._runtime.now_ms())

    def end_transaction(self, partition: Partition, marker: EndMarker) -> AppendedRecords:
        """Stage the marker that ends a producer's transaction in a partition.

        It is written with the turn; `marker_listeners` are called then. Raises KafkaError or StorageError.
        """
        log = partition.led_log(self._broker_id)
        producers = partition.producers
        producers.check_marker(marker)
        now_ms = self._runtime.now_ms()
        aborted = producers.aborted_by(marker, log.next_offset)
        appended = log.append(marker_batch(marker, now_ms), now_ms, partition.leader_epoch, aborted)
        if producers.stage_marker(marker, now_ms):
            self._memory.count_one()
        partition.legacy_run = None
        self._turn.stage(partition)
        if self.marker_listeners:
            self._turn.then(partial(self._marker_written, partition, marker))
        return AppendedRecords(partition, appended.base_offset, appended.append_time_ms, log.start_offset)

    def _marker_written(self, partition: Partition, marker: EndMarker, failures: Failures) -> None:
        if partition not in failures:
            for listener in self.marker_listeners:
                listener(partition, marker)

    def check_later(self, topic: str, index: int, records: Buffer, version: int) -> Callable[[], CheckedSet]:
        """Return the check of a record set, to be called in a thread. Raises KafkaError or StorageError."""
        partition = self._store.partition(topic, index)
        partition.led_log(self._broker_id)
        return partial(_checked_later, records, partition.settings, self._runtime.now_ms(), version)

    def _check_replicas(self, partition: Partition) -> None:
        alive = len(self._leaders.alive(partition.replicas))
        wanted = partition.settings.min_insync_replicas
        if alive < wanted:
            reason = f"{partition}: {alive} replicas, min.insync.replicas is {wanted}"
            raise KafkaError(Code.NOT_ENOUGH_REPLICAS, reason)


def _checked_later(records: Buffer, settings: TopicConfig, now_ms: int, version: int) -> CheckedSet:
    return _accepted(checked(records, settings.log, now_ms), version, settings)


def _accepted(
    checked_set: CheckedSet, version: int, settings: TopicConfig, *, at_once: bool = False
) -> CheckedSet:
    """Return the set as it is stored. Raises KafkaError for one that a version of Produce may not carry.

    With `at_once` raises LongCheck for one that takes long to compress anew. Without it, a compressed message
    of an old format is taken for a large one, and becomes format 2 in any topic.
    """
    batches = checked_set.batches
    _check_batches(batches, version)
    # A compressed message of an old format is opened again when its offsets are known: on the loop.
    is_large = not at_once and len(batches) == 1 and batches[0].codec
    if batches and batches[0].magic < 2 and (is_large or not settings.keeps_old_formats):
        checked_set = in_format_2(checked_set, settings.log)
    if settings.codec is None or not checked_set.batches or checked_set.batches[0].magic < 2:
        return checked_set
    return recompressed(checked_set, settings.codec, settings.codec_level, settings.log, at_once=at_once)


def _check_batches(batches: tuple[BatchHeader, ...], version: int) -> None:
    """Raise KafkaError for batches that a version of Produce may not carry."""
    if version >= 3 and (len(batches) != 1 or batches[0].magic != 2):
        formats = sorted({batch.magic for batch in batches})
        reason = f"Produce v{version} takes one batch of format 2, not {len(batches)} of {formats}"
        raise KafkaError(Code.INVALID_RECORD, reason)
    if len(batches) > 1 and any(batch.magic == 2 for batch in batches):
        raise KafkaError(Code.INVALID_RECORD, f"{len(batches)} entries with a batch of format 2 among them")
    if version < ZSTD_SINCE and any(batch.codec == ZSTD for batch in batches):
        reason = f"zstd in Produce v{version}, below {ZSTD_SINCE}"
        raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, reason)
