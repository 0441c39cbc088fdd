"""The records of a batch of format 2, checked for what `validation` cannot see in the header.

A few records are checked at once. More of them, or more bytes than AT_ONCE_BYTES when decompressed, or many
headers take too long for an event loop: then `LongCheck` is raised, unless the caller has the time.
"""

from __future__ import annotations

from ottla.log.batch_header import BatchHeader
from ottla.log.log_config import LogConfig
from ottla.log.record_walk import walked_records
from ottla.log.refusals import records_refused, refused, timestamp_fault
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import BATCH_OVERHEAD
from ottla.records.record_bytes import read_varint

DECOMPRESSED_BYTES_MAX = 256 << 20  # as for a reader: what no reader could read must not be stored
RECORDS_MAX = 1_000_000
"""Records of a batch: librdkafka's largest batch.num.messages. Java's producer stays far below it."""
AT_ONCE_BYTES = 1 << 20
AT_ONCE_RECORDS = 4096
AT_ONCE_LEGACY_BYTES = 32 << 10  # old messages are checked and converted one by one
AT_ONCE_HEADERS = 2048  # of all records: they are walked one by one, and may have two bytes each
COLUMNS_FROM = 64  # records: about where both ways take the same time
WALKED_BYTES = 16 << 10  # more are not walked at once: that may be thousands of headers
FAULTS_MAX = 10_000
"""How many records of a batch are refused by name; the answer must not become larger than the batch."""
RECORD_BYTES_MIN = 7  # size, attributes, time, offset, no key, no value, no headers: a byte each

# How many bytes one compressed byte can become at most, and how a compressed set begins, by codec.
EXPANSION_MAX = (1, 1032, 22, 256, 32_768)
_GZIP, _LZ4, _ZSTD = b"\x1f\x8b", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"
_OPENINGS = {1: _GZIP, 3: _LZ4, 4: _ZSTD}
_SNAPPY_OF_JAVA = b"\x82SNAPPY\0"
_SNAPPY_KIND, _SNAPPY_LITERAL = 3, 0  # raw snappy: a size, then an element of a kind; a copy cannot be first

_KEYLESS = "a compacted topic takes no record without a key"


def opening_fault(content: memoryview, codec: int, count: int) -> str | None:
    """Why the content of a batch cannot be `count` records, judged by its first bytes; None if it can.

    Takes bounded time and decompresses nothing, where Kafka decodes every record. It finds text and other
    files that were sealed with a right checksum, and counts that cannot be.
    """
    if count * RECORD_BYTES_MIN > min(len(content) * EXPANSION_MAX[codec], DECOMPRESSED_BYTES_MAX):
        return f"{count:,} records in {len(content):,} bytes"
    try:
        if not codec:
            return _first_record_fault(content, count)
        is_compressed = _is_snappy(content, count) if codec == 2 else _starts(content, _OPENINGS[codec])
    except (IndexError, CorruptRecord):
        return "it ends within its first record"
    return None if is_compressed else f"the records are not compressed with codec {codec}"


def _starts(content: memoryview, opening: bytes) -> bool:
    return content[: len(opening)] == opening


def _is_snappy(content: memoryview, count: int) -> bool:
    if _starts(content, _SNAPPY_OF_JAVA):
        return True
    size = at = 0
    while content[at] >= 0x80 and at < 4:
        size |= (content[at] & 0x7F) << 7 * at
        at += 1
    size |= content[at] << 7 * at
    is_possible = count * RECORD_BYTES_MIN <= size <= len(content) * EXPANSION_MAX[2]
    return is_possible and content[at + 1] & _SNAPPY_KIND == _SNAPPY_LITERAL


def _first_record_fault(content: memoryview, count: int) -> str | None:
    size, start = read_varint(content, 0)
    end = start + size
    room = len(content) - end
    if size < RECORD_BYTES_MIN - 1 or room < (count - 1) * RECORD_BYTES_MIN or (room and count == 1):
        return f"{count:,} records in {len(content):,} bytes, the first of {size:,}"
    _, at = read_varint(content, start + 1)  # after the attributes
    number, _ = read_varint(content, at)
    return f"the first record has the number {number}" if number else None


class LongCheck(Exception):
    """The check of a record set would take long: a thread should do it."""


def check_count(header: BatchHeader) -> None:
    """Raise KafkaError if a batch has more records than any reader should have to take at once.

    The code makes Java's producer split the batch and send it again.
    """
    if header.record_count > RECORDS_MAX:
        what = f"{header.record_count:,} records are above {RECORDS_MAX:,}; send them in several batches"
        raise refused(Code.MESSAGE_TOO_LARGE, header.position, what)


def check_records(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, *, at_once: bool = False
) -> None:
    """Raise KafkaError unless all records are sound, numbered 0 to count-1, and allowed in the topic.

    With `at_once` raise LongCheck if that would take more than about a millisecond.
    """
    if at_once and header.record_count > AT_ONCE_RECORDS:
        raise LongCheck(f"{header.record_count:,} records")
    try:
        content = content_of(batch, header, AT_ONCE_BYTES if at_once else DECOMPRESSED_BYTES_MAX)
    except CorruptRecord as error:
        if at_once:
            raise LongCheck(str(error)) from error  # damaged, or larger than that
        raise refused(Code.INVALID_RECORD, header.position, str(error)) from error
    try:
        faults = _faults(content, header, config, now_ms, AT_ONCE_HEADERS if at_once else None)
    except CorruptRecord as error:
        raise refused(Code.INVALID_RECORD, header.position, str(error)) from error
    if faults:
        # Kafka answers with the code of timestamps if any of the records has a wrong one.
        code = Code.INVALID_TIMESTAMP if any(faults.values()) else Code.INVALID_RECORD
        errors = {number: late or _KEYLESS for number, late in faults.items()}
        raise records_refused(code, header.position, errors)


def _faults(
    content: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, headers_max: int | None
) -> dict[int, str]:
    """The records that are refused: what is wrong with the timestamp, "" for one that lacks its key.

    Raises CorruptRecord if the content is not the records of the batch, LongCheck for more headers.
    """
    faults: dict[int, str] = {}
    base = header.base_timestamp

    def judge(number: int, offset_delta: int, time: int, *, is_keyless: bool) -> None:
        if offset_delta != number:
            raise CorruptRecord(f"record {number} has the number {offset_delta}")
        is_keyless = is_keyless and config.is_compacted
        late = "" if is_keyless else timestamp_fault(base + time, config, now_ms)
        if (is_keyless or late) and len(faults) < FAULTS_MAX:
            faults[number] = late

    if header.record_count < COLUMNS_FROM and len(content) <= WALKED_BYTES:
        for number, record in enumerate(walked_records(content, header.record_count)):
            judge(number, record.offset_delta, record.timestamp_delta, is_keyless=record.key is None)
        return faults
    from ottla.log.record_columns import record_columns  # here, since it loads NumPy

    first = 0
    for fields in record_columns(content, header.record_count, headers_max):
        numbers, times = fields.offset_delta, fields.timestamp_delta
        wrong = numbers != range(first, first + len(numbers))
        if config.is_compacted:
            wrong |= fields.key_size < 0
        if any(timestamp_fault(base + int(time), config, now_ms) for time in (times.min(), times.max())):
            wrong[:] = True
        for row in wrong.nonzero()[0].tolist():
            judge(first + row, int(numbers[row]), int(times[row]), is_keyless=bool(fields.key_size[row] < 0))
        first += len(numbers)
    return faults


def content_of(batch: memoryview, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """The records of a batch, decompressed. Raises CorruptRecord, also for more than `limit` bytes."""
    if not header.codec:
        return batch[BATCH_OVERHEAD:]
    from ottla.records.compression import Codec, decompress  # here, since it loads NumPy

    return decompress(Codec(header.codec), batch[BATCH_OVERHEAD:], limit=limit, magic=2).data
