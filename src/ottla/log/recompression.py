"""A produced batch of format 2 with the codec that its topic wants: `compression.type`. Pure.

The records keep their bytes; length, attributes and checksum of the batch change. Offsets are given later.
"""

from __future__ import annotations

import struct

from ottla.log.batch_header import header_at
from ottla.log.log_config import LogConfig
from ottla.log.record_checks import LongCheck, content_of
from ottla.log.refusals import refused
from ottla.log.validation import CheckedSet
from ottla.model.checksums import crc32c
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    ENTRY_OVERHEAD,
    SIZE,
    SIZE_AT,
)

AT_ONCE_BYTES = 4096
"""A larger batch is compressed by a thread: gzip takes some 20 microseconds for each KB."""

_ATTRIBUTES = struct.Struct(">h")


def recompressed(
    checked: CheckedSet, codec: int, level: int | None, config: LogConfig, *, at_once: bool = False
) -> CheckedSet:
    """Return the set with its one batch compressed by `codec`; the same set if it is already.

    Raises KafkaError 87 for records that cannot be decompressed and 10 if the batch becomes too large, and
    with `at_once` LongCheck for what a thread should do instead.
    """
    header = checked.batches[0]
    if header.codec == codec:
        return checked
    if at_once and (header.codec or checked.size > AT_ONCE_BYTES):
        raise LongCheck(f"{checked.size:,} bytes to compress")
    try:
        content = content_of(checked.data, header)
    except CorruptRecord as error:
        raise refused(Code.INVALID_RECORD, header.position, str(error)) from error
    from ottla.records.compression import Codec, compress  # here, since it loads NumPy

    batch = bytearray(checked.data[:BATCH_OVERHEAD])
    batch += compress(Codec(codec), content, level=level)
    if len(batch) > config.max_message_bytes:
        what = f"{len(batch):,} bytes, as the topic compresses, are above {config.max_message_bytes:,}"
        raise refused(Code.MESSAGE_TOO_LARGE, header.position, what)
    SIZE.pack_into(batch, SIZE_AT, len(batch) - ENTRY_OVERHEAD)
    _ATTRIBUTES.pack_into(batch, BATCH_ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    CRC.pack_into(batch, BATCH_CRC_AT, crc32c(memoryview(batch)[BATCH_ATTRIBUTES_AT:]))
    stored = header_at(batch, 0, 0)
    assert stored is not None
    return CheckedSet(memoryview(batch), (stored,))
