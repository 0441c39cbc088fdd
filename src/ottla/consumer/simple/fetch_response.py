"""The answer to a fetch, for each partition: messages or Arrow, errors, and whether fetch_size was enough.

What happens to a first message that is larger than fetch_size depends on the version of Fetch:

    0 to 2    the broker sends the first fetch_size bytes of it, which cannot be decoded. Brokers since 0.11,
              which convert for such clients, send an overflow entry (offset -1) or nothing
    3, later  the first partition with data gets its first batch whole; the partitions after it get nothing

`remark` says in a sentence what happened, and `bytes_needed` which fetch_size is enough.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from ottla.consumer.simple.fetch_request import FetchRequest, PartitionFetchInfo
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, CorruptRecord, KafkaError, RemoteProtocolError
from ottla.model.record_layout import ENTRY_OVERHEAD, SIZE, SIZE_AT
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndOffset, MessageSet, to_messages
from ottla.records.reader import Decoded, decode
from ottla.wire.api import fetch as wire

OVERFLOW_OFFSET = -1
_OFFSET = struct.Struct(">q")
WHOLE_SINCE = 3
"""Since this version of Fetch (Kafka 0.10.1, KIP-74) a first batch comes whole, however large it is."""


class FetchedMessageSet(MessageSet):
    """The messages of one partition from the requested offset on, decoded while they are iterated.

        >>> from ottla import FetchRequestBuilder, SimpleConsumer
        >>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
        ...     response = consumer.fetch(FetchRequestBuilder().add_fetch("orders", 0, 1, 100_000).build())
        >>> [(offset, message.value) for message, offset in response.message_set("orders", 0)]
        [(1, b'coffee'), (2, b'cake')]

    `size_in_bytes` counts all bytes, including a cut last message; `valid_bytes` counts whole messages only.
    """

    def __init__(self, fetched: FetchedPartition) -> None:
        super().__init__(fetched.records)
        self._fetched = fetched

    def __iter__(self) -> Iterator[MessageAndOffset]:
        """Iterate over the messages. Brokers send whole batches: messages below the requested offset are
        left out."""
        return to_messages(self._fetched.decoded.batch)


class FetchedPartition:
    """The request and the answer for one partition."""

    def __init__(
        self,
        topic_partition: TopicAndPartition,
        requested: PartitionFetchInfo,
        answer: wire.FetchPartitionResponse,
        version: int,
        *,
        reads_committed: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.requested = requested
        self.error_code = answer.error_code
        self.high_watermark = answer.high_watermark
        self.records = memoryview(answer.records or b"")
        self._version = version
        self._aborted = answer.aborted_transactions if reads_committed else None
        # Where readers have to stop; brokers before 0.11 have no transactions, and say nothing.
        self._end = answer.high_watermark
        if reads_committed and answer.last_stable_offset >= 0:
            self._end = answer.last_stable_offset

    @property
    def context(self) -> str:
        """The beginning of error texts and remarks."""
        return f"{self.topic_partition} at offset {self.requested.offset}"

    @cached_property
    def decoded(self) -> Decoded:
        """The records as columns. Raises KafkaError, CorruptRecord."""
        if self.error_code != Code.NONE:
            raise KafkaError(self.error_code, self.context)
        try:
            return decode(
                self.records, from_offset=self.requested.offset, headers=True, aborted=self._aborted
            )
        except CorruptRecord as damage:
            after = max(damage.next_offset or 0, self.requested.offset + 1)
            raise CorruptRecord(
                f"{self.context}: {damage}; a fetch from offset {after} passes over it",
                offset=damage.offset,
                next_offset=after,
            ) from damage

    @property
    def bytes_needed(self) -> int:
        """The size of a first entry that was cut; 0 if it is whole, or its size is not known."""
        count = len(self.records)
        if not count or self._is_overflow:
            return 0
        if count < ENTRY_OVERHEAD:
            return ENTRY_OVERHEAD  # enough to see the size
        size = ENTRY_OVERHEAD + int(SIZE.unpack_from(self.records, SIZE_AT)[0])
        return size if size > count else 0

    @property
    def _is_overflow(self) -> bool:
        """Whether the answer is the entry that converting brokers send when the first batch does not fit.

        It has offset -1 and claims more bytes than there are; its size says nothing about the message.
        """
        return len(self.records) >= ENTRY_OVERHEAD and _OFFSET.unpack_from(self.records)[0] == OVERFLOW_OFFSET

    def remark(self, *, others_got_data: bool) -> str:
        """Return what to say about fetch_size; "" if it was enough."""
        size, version = self.requested.fetch_size, self._version
        needed = self.bytes_needed
        if needed:
            at_least = "at least " if needed == ENTRY_OVERHEAD else ""
            return (
                f"{self.context}: fetch_size {size} is too small. The message takes {at_least}{needed} "
                f"bytes, and this broker cuts what is larger (Fetch {version}): "
                f"fetch again with fetch_size={needed}"
            )
        if version >= WHOLE_SINCE and len(self.records) > size:
            return (
                f"{self.context}: fetch_size {size} is too small. The first batch came whole all the same, "
                f"with {len(self.records)} bytes, as brokers do since Kafka 0.10.1 (Fetch {version})"
            )
        is_behind = self.error_code == Code.NONE and self.requested.offset < self._end
        is_empty = not self.records or self._is_overflow
        if is_behind and is_empty and (version < WHOLE_SINCE or others_got_data):
            first = "" if version < WHOLE_SINCE else "add this partition first to the request, or "
            return (
                f"{self.context}: the log goes on to offset {self._end}, and nothing came. The "
                f"first batch does not fit into fetch_size {size} or max_bytes: {first}ask for more bytes"
            )
        return ""


class FetchResponse:
    """The answer to a FetchRequest. Methods raise ConfigError for a partition that was not requested.

    >>> from ottla import FetchRequestBuilder, SimpleConsumer
    >>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
    ...     response = consumer.fetch(FetchRequestBuilder().add_fetch("orders", 0, 1, 100_000).build())
    >>> response.batch("orders", 0)["value"].to_pylist(), response.next_offset("orders", 0)
    ([b'coffee', b'cake'], 3)
    """

    def __init__(self, request: FetchRequest, response: wire.FetchResponse, version: int) -> None:
        self.request = request
        self.version = version
        answers = {
            TopicAndPartition(topic.topic, row.partition_index): row
            for topic in response.responses
            for row in topic.partitions
        }
        missing = [str(each) for each in request.request_info if each not in answers]
        if missing:
            raise RemoteProtocolError(f"asked for {', '.join(missing)}, which the Fetch response lacks")
        self._partitions = {
            topic_partition: FetchedPartition(
                topic_partition,
                info,
                answers[topic_partition],
                version,
                reads_committed=request.reads_committed,
            )
            for topic_partition, info in request.request_info.items()
        }

    @property
    def has_error(self) -> bool:
        """Whether any partition has an error."""
        return any(fetched.error_code != Code.NONE for fetched in self._partitions.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Return Kafka's error code, 0 for none; compare it with `ottla.model.error_codes.Code`."""
        return self._of(topic, partition).error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the offset after the last message that consumers may see; -1 with an error."""
        return self._of(topic, partition).high_watermark

    def message_set(self, topic: str, partition: int) -> FetchedMessageSet:
        """Return the messages of a partition, to be iterated.

        Iterating raises KafkaError if the partition has an error, and CorruptRecord if its first messages
        are damaged. Later damage ends the set before it; a fetch from `next_offset` then raises.
        """
        return FetchedMessageSet(self._of(topic, partition))

    def batch(self, topic: str, partition: int) -> pa.RecordBatch:
        """Return the messages as an Arrow batch (offset, timestamp, timestamp_type, key, value, headers).

        Raises KafkaError, CorruptRecord.
        """
        return self._of(topic, partition).decoded.batch

    def next_offset(self, topic: str, partition: int) -> int:
        """Return the offset for the next fetch: use it instead of the last message's offset + 1, because
        transaction markers and compacted batches have offsets too."""
        return self._of(topic, partition).decoded.next_offset

    def bytes_needed(self, topic: str, partition: int) -> int:
        """Return the fetch_size that the first message needs if it was cut (Fetch 0 to 2), else 0.

        0 also if the broker converted and sent an overflow entry: then its size is not known.
        """
        return self._of(topic, partition).bytes_needed

    def remark(self, topic: str, partition: int) -> str:
        """Return what a too small fetch_size did to this partition and what helps; "" if it was enough."""
        fetched = self._of(topic, partition)
        others = any(other.records for other in self._partitions.values() if other is not fetched)
        return fetched.remark(others_got_data=others)

    def _of(self, topic: str, partition: int) -> FetchedPartition:
        topic_partition = TopicAndPartition(topic, partition)
        fetched = self._partitions.get(topic_partition)
        if fetched is None:
            known = ", ".join(map(str, self._partitions))
            raise ConfigError(f"{topic_partition} is not in this fetch response, which has {known}")
        return fetched
