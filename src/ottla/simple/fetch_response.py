"""What a fetch brought, partition by partition: messages or Arrow, errors, and whether the size was enough.

What becomes of a first message that is larger than fetch_size depends on the version of Fetch:

    0 to 2    the broker cuts: so many bytes of it, of which nothing can be decoded; brokers since 0.11,
              which convert for such clients, may send nothing at all
    3, later  the first partition with data gets its first batch whole; those behind it get nothing at all

`remark` tells which it was, in a sentence, and `bytes_needed` what to ask for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from ottla.fetching import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, CorruptRecord, KafkaError, RemoteProtocolError
from ottla.records.messages import MessageAndOffset, MessageSet, to_messages
from ottla.records.reader import Decoded, decode
from ottla.simple.fetch_request import FetchRequest, PartitionFetchInfo
from ottla.wire.api import fetch as wire

WHOLE_SINCE = 3
"""Since this version of Fetch (Kafka 0.10.1, KIP-74) a first batch comes whole, however large it is."""
ENTRY_OVERHEAD = 12
_SIZE_AT = 8
_SIZE = struct.Struct(">i")


class FetchedMessageSet(MessageSet):
    """The messages of one partition, from the offset on that was asked for; decoded when they are iterated.

    `size_in_bytes` is what came, with a cut last message, and `valid_bytes` what of it is whole.
    """

    def __init__(self, fetched: FetchedPartition) -> None:
        super().__init__(fetched.records)
        self._fetched = fetched

    def __iter__(self) -> Iterator[MessageAndOffset]:
        """Brokers send whole batches: what lies below the asked offset is left out."""
        return to_messages(self._fetched.decoded.batch)


class FetchedPartition:
    """What was asked of one partition, and what came."""

    def __init__(
        self,
        topic_partition: TopicAndPartition,
        asked: PartitionFetchInfo,
        answer: wire.FetchPartitionResponse,
        version: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.asked = asked
        self.error_code = answer.error_code
        self.high_watermark = answer.high_watermark
        self.records = memoryview(answer.records or b"")
        self._version = version

    @property
    def context(self) -> str:
        """How messages begin."""
        return f"{self.topic_partition} at offset {self.asked.offset}"

    @cached_property
    def decoded(self) -> Decoded:
        """The columns. Raises KafkaError, CorruptRecord."""
        if self.error_code != Code.NONE:
            raise KafkaError(self.error_code, self.context)
        try:
            return decode(self.records, from_offset=self.asked.offset, headers=True)
        except CorruptRecord as damage:
            after = damage.next_offset
            behind = after if after is not None and after > self.asked.offset else self.asked.offset + 1
            raise CorruptRecord(
                f"{self.context}: {damage}; a fetch from offset {behind} passes over it",
                offset=damage.offset,
                next_offset=behind,
            ) from damage

    @property
    def bytes_needed(self) -> int:
        """The size of a first entry that was cut; 0 if it is whole, or if nothing came."""
        count = len(self.records)
        if not count:
            return 0
        if count < ENTRY_OVERHEAD:
            return ENTRY_OVERHEAD  # so much tells the size
        size = ENTRY_OVERHEAD + int(_SIZE.unpack_from(self.records, _SIZE_AT)[0])
        return size if size > count else 0

    def remark(self, *, others_got_data: bool) -> str:
        """What there is to say of the size; "" if nothing."""
        size, version = self.asked.fetch_size, self._version
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
        is_behind = self.error_code == Code.NONE and self.asked.offset < self.high_watermark
        if is_behind and not self.records and (version < WHOLE_SINCE or others_got_data):
            first = "" if version < WHOLE_SINCE else "add this partition first to the request, or "
            return (
                f"{self.context}: the log goes on to offset {self.high_watermark}, and nothing came. The "
                f"first batch does not fit into fetch_size {size} or max_bytes: {first}ask for more bytes"
            )
        return ""


class FetchResponse:
    """The answer to a FetchRequest. Asking for a partition that was not in it is a ConfigError."""

    def __init__(self, request: FetchRequest, response: wire.FetchResponse, version: int) -> None:
        self.request = request
        self.version = version
        told = {
            TopicAndPartition(topic.topic, row.partition_index): row
            for topic in response.responses
            for row in topic.partitions
        }
        missing = [f"{place}" for place in request.request_info if place not in told]
        if missing:
            raise RemoteProtocolError(f"asked for {', '.join(missing)}, Fetch answers without")
        self._partitions = {
            place: FetchedPartition(place, asked, told[place], version)
            for place, asked in request.request_info.items()
        }

    @property
    def has_error(self) -> bool:
        """Whether any partition has an error."""
        return any(one.error_code != Code.NONE for one in self._partitions.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Kafka's code, 0 for none; compares with `ottla.model.error_codes.Code`."""
        return self._of(topic, partition).error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """The offset behind the last message that consumers may see; -1 with an error."""
        return self._of(topic, partition).high_watermark

    def message_set(self, topic: str, partition: int) -> FetchedMessageSet:
        """The messages, one by one. Iterating raises KafkaError where the partition has an error.

        Raises CorruptRecord if the first ones are damaged. Damage further on ends the set before it, and
        the fetch from `next_offset` raises.
        """
        return FetchedMessageSet(self._of(topic, partition))

    def batch(self, topic: str, partition: int) -> pa.RecordBatch:
        """The same as Arrow: offset, timestamp, timestamp_type, key, value, headers. Raises alike."""
        return self._of(topic, partition).decoded.batch

    def next_offset(self, topic: str, partition: int) -> int:
        """Where to go on. Not always the last message's: batches that nobody sees have offsets too."""
        return self._of(topic, partition).decoded.next_offset

    def bytes_needed(self, topic: str, partition: int) -> int:
        """The fetch_size that the first message needs, if it was cut (before Fetch 3); 0 otherwise."""
        return self._of(topic, partition).bytes_needed

    def remark(self, topic: str, partition: int) -> str:
        """What a too small fetch_size has done to this partition, and what helps; "" if all is well."""
        asked = self._of(topic, partition)
        others = any(one.records for one in self._partitions.values() if one is not asked)
        return asked.remark(others_got_data=others)

    def _of(self, topic: str, partition: int) -> FetchedPartition:
        place = TopicAndPartition(topic, partition)
        found = self._partitions.get(place)
        if found is None:
            there = ", ".join(f"{one}" for one in self._partitions)
            raise ConfigError(f"{place} is not in this fetch response; there are {there}")
        return found
