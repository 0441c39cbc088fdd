"""Dead-letter queues of share groups (KIP-1191): records that a group has given up go to a topic of its own.

Headers of a dead letter say where the original record is and why it was given up; key and value are copied if
the group is set so. It is written after the group has given up the record, so a crash in between may lose it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from ottla.broker.share_groups.core.record_state import RecordEvent
from ottla.broker.share_groups.core.records import ShareKey
from ottla.broker.share_groups.core.share_partition import DeadLetters
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.record_batches import StoredRecord, batches_of
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.log.batch_header import header_at
from ottla.log.file_system import Buffer
from ottla.log.plain_batch import HeadedRecord, Header, headed_body, sealed_batch
from ottla.log.reading import ColdRead
from ottla.log.validation import CheckedSet
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, StorageError

log = logging.getLogger(__name__)

ENABLE = "errors.deadletterqueue.group.enable"
READ_BYTES = 1 << 20
RECORDS_AT_ONCE = 500
"""The largest number of dead letters in one batch."""

REASONS = {
    RecordEvent.REJECTED: b"Offset rejected by client.",
    RecordEvent.EXHAUSTED: b"Offset delivery count exceeded the threshold.",
}


class DeadLetterQueue:
    """Writes dead letters of all groups. Owned by the loop."""

    def __init__(self, store: TopicStore, runtime: Runtime, topics: TopicChanges) -> None:
        self._store = store
        self._runtime = runtime
        self._topics = topics

    def add(self, key: ShareKey, topic: str, dead: list[DeadLetters], *, copies: bool) -> None:
        """Write records that a group has given up to its topic. Failures are logged."""
        if copies:
            self._runtime.loop.create_task(self._copy(key, topic, dead))
            return
        try:
            self._write(key, topic, dead, {})
        except (KafkaError, StorageError) as error:
            _log(key, topic, error)

    async def _copy(self, key: ShareKey, topic: str, dead: list[DeadLetters]) -> None:
        try:
            partition = self._source(key)
            copied: dict[int, StoredRecord] = {}
            for item in dead:
                offset = item.first
                while offset <= item.last and partition.log is not None:
                    data = partition.log.read_cached(offset, READ_BYTES)
                    run = self._runtime.loop.run_in_executor
                    records = await run(self._runtime.readers, _records, data, offset, item.last)
                    if not records:
                        break
                    copied |= {record.offset: record for record in records}
                    offset = records[-1].offset + 1
            self._write(key, topic, dead, copied)
        except (KafkaError, StorageError, CorruptRecord) as error:
            _log(key, topic, error)

    def _source(self, key: ShareKey) -> Partition:
        return self._store.partition(self._store.topic_name(key.topic_id), key.partition)

    def _write(
        self, key: ShareKey, topic: str, dead: list[DeadLetters], copied: Mapping[int, StoredRecord]
    ) -> None:
        source = self._source(key)
        target = self._target(topic, key.partition)
        now_ms = self._runtime.now_ms()
        stored = target.led_log(target.leader)
        records = [
            _letter(key, source, item, offset, copied.get(offset), now_ms)
            for item in dead
            for offset in range(item.first, item.last + 1)
        ]
        for batch in _batches(records, stored.config.max_message_bytes):
            stored.append(batch, now_ms, target.leader_epoch)
            self._runtime.turn.stage(target)

    def _target(self, name: str, source_partition: int) -> Partition:
        """Return the partition for dead letters. Raises KafkaError if the topic does not take them."""
        config = self._store.config.shares
        prefix = config.dead_letter_prefix
        if name.startswith("__") or not name.startswith(prefix):
            reason = f"topic {name!r}: dead letters go to topics whose names begin with {prefix!r}"
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, reason)
        if name not in self._store.partitions and config.dead_letter_auto_create:
            self._topics.create(name, self._topics.spread(-1, -1), {ENABLE: "true"})
        topic = self._store.topic(name)
        if topic.overrides.get(ENABLE) != "true":
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"topic {name!r}: {ENABLE} is not true")
        partitions = self._store.partitions[name]
        return partitions[source_partition % len(partitions)]


def _letter(
    key: ShareKey, source: Partition, item: DeadLetters, offset: int, record: StoredRecord | None, now_ms: int
) -> HeadedRecord:
    headers: tuple[Header, ...] = (
        (b"__dlq.errors.topic", source.topic.encode()),
        (b"__dlq.errors.partition", b"%d" % key.partition),
        (b"__dlq.errors.offset", b"%d" % offset),
        (b"__dlq.errors.group", key.group_id.encode()),
        (b"__dlq.errors.delivery.count", b"%d" % item.delivery_count),
        (b"__dlq.errors.message", REASONS[item.event]),
    )
    copied = (None, None) if record is None else (record.key, record.value)
    return HeadedRecord(now_ms, *copied, headers)


def _batches(records: list[HeadedRecord], bytes_max: int) -> Iterator[CheckedSet]:
    """Yield batches of at most `bytes_max`; a single record may be larger."""
    while records:
        count = min(len(records), RECORDS_AT_ONCE)
        data = sealed_batch(headed_body(records[:count]))
        while len(data) > bytes_max and count > 1:
            count //= 2
            data = sealed_batch(headed_body(records[:count]))
        header = header_at(data, 0, 0)
        assert header is not None
        yield CheckedSet(memoryview(data), (header,))
        records = records[count:]


def _records(data: Buffer | ColdRead, first: int, last: int) -> list[StoredRecord]:
    """Read and decode in a thread; returns the records within the bounds. Raises CorruptRecord."""
    read = data.read() if isinstance(data, ColdRead) else data
    decoded = [record for _, records in batches_of(read) for record in records]
    return [record for record in decoded if first <= record.offset <= last]


def _log(key: ShareKey, topic: str, error: Exception) -> None:
    text = "share group %r: records that it gave up are not in the dead-letter queue %r: %s"
    log.error(text, key.group_id, topic, error)
