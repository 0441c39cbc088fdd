"""The records that a member of a share group holds, and its answer for each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.share_fetch import AcknowledgementBatch, AcquiredRecords


class Answer(IntEnum):
    """The answers of a member for a record, with Kafka's numbers.

    GAP: the fetched data had no record at this offset.
    """

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@dataclass(slots=True)
class HeldRecord:
    """A record that is locked for this member.

    `is_kept`: its lock was renewed, so the application answers later.
    """

    delivery_count: int
    answer: Answer | None = None
    is_kept: bool = False


class HeldRecords:
    """All held records, by partition and offset. Used by the polling thread only."""

    def __init__(self) -> None:
        self._held: dict[TopicAndPartition, dict[int, HeldRecord]] = {}

    def take(
        self, partition: TopicAndPartition, acquired: Iterable[AcquiredRecords], delivered: Iterable[int]
    ) -> None:
        """Note what a fetch has acquired. Offsets that were not delivered are answered as gaps at once."""
        there = set(delivered)
        held = self._held.setdefault(partition, {})
        for item in acquired:
            for offset in range(item.first_offset, item.last_offset + 1):
                answer = None if offset in there else Answer.GAP
                held[offset] = HeldRecord(item.delivery_count, answer)

    def answer(self, partition: TopicAndPartition, offsets: Iterable[int], answer: Answer) -> None:
        """Set the answer for records. Raises ConfigError if one of them is not held (any more)."""
        held = self._held.get(partition, {})
        for offset in offsets:
            record = held.get(offset)
            if record is None or record.answer is Answer.GAP:
                raise ConfigError(
                    f"{partition} offset {offset} is not held by this consumer: it was answered for already, "
                    "or its lock was lost"
                )
            record.answer = answer

    def delivery_count(self, partition: TopicAndPartition, offset: int) -> int:
        """Return which delivery of a record this is. Raises ConfigError if it is not held (any more)."""
        record = self._held.get(partition, {}).get(offset)
        if record is None:
            raise ConfigError(f"{partition} offset {offset} is not held by this consumer")
        return record.delivery_count

    def answer_rest(self, answer: Answer) -> None:
        """Set the same answer for all records that have none."""
        for _, _, record in self._unanswered():
            record.answer = answer

    def unanswered(self) -> int:
        """Return how many records the application still has to answer for; kept ones do not count."""
        return sum(1 for _, _, record in self._unanswered() if not record.is_kept)

    def _unanswered(self) -> Iterator[tuple[TopicAndPartition, int, HeldRecord]]:
        for partition, held in self._held.items():
            for offset, record in held.items():
                if record.answer is None:
                    yield partition, offset, record

    def due(self) -> list[TopicAndPartition]:
        """Return the partitions with answers that are not sent yet."""
        return [
            partition
            for partition, held in self._held.items()
            if any(record.answer is not None for record in held.values())
        ]

    def has_renewals(self, partitions: Iterable[TopicAndPartition]) -> bool:
        """Whether answers of these partitions renew locks: a request needs a flag for that."""
        records = (record for item in partitions for record in self._held.get(item, {}).values())
        return any(record.answer is Answer.RENEW for record in records)

    def batches(self, partition: TopicAndPartition) -> list[AcknowledgementBatch]:
        """Return the answers of a partition as batches of consecutive offsets."""
        answers = [
            (offset, record.answer)
            for offset, record in sorted(self._held.get(partition, {}).items())
            if record.answer is not None
        ]
        batches = []
        for _, group in groupby(enumerate(answers), key=lambda item: item[1][0] - item[0]):
            run = [item for _, item in group]
            types = [int(answer) for _, answer in run]
            batches.append(
                AcknowledgementBatch(
                    first_offset=run[0][0],
                    last_offset=run[-1][0],
                    acknowledge_types=types[:1] if len(set(types)) == 1 else types,
                )
            )
        return batches

    def sent(self, partition: TopicAndPartition) -> None:
        """Forget the answered records of a partition: the broker took the answers, or refused them for good.

        Renewed records are kept.
        """
        held = self._held.get(partition, {})
        for offset in [offset for offset, record in held.items() if record.answer is not None]:
            if held[offset].answer is Answer.RENEW:
                held[offset].answer, held[offset].is_kept = None, True
            else:
                del held[offset]

    def has(self, partition: TopicAndPartition) -> bool:
        """Whether this member still holds the records that it fetched of a partition."""
        return partition in self._held

    def lose(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Forget what these partitions held: the broker has given the records to others."""
        for partition in partitions:
            self._held.pop(partition, None)
