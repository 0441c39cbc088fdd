"""The byte layout of record sets: positions, sizes, attribute bits and structs, for all readers and writers.

An *entry* is what a record set consists of: a batch (format 2) or a message (formats 0 and 1). Both start
with ``offset i64 | size i32`` and have their format number ("magic") at byte 16. All numbers are big-endian.

    format 2   0 base offset | 8 size | 12 leader epoch | 16 magic | 17 crc32c | 21 attributes
               23 last offset delta | 27 base timestamp | 35 max timestamp | 43 producer id
               51 producer epoch | 53 base sequence | 57 record count | 61 records
    format 1   0 offset | 8 size | 12 crc32 | 16 magic | 17 attributes | 18 timestamp | 26 key, value
    format 0   0 offset | 8 size | 12 crc32 | 16 magic | 17 attributes | 18 key, value

The CRC-32C of a batch covers everything from its attributes on, the CRC-32 of a message everything from its
magic on. So no checksum covers offset, size and leader epoch. A key or value of formats 0 and 1 is a length
(i32, -1 for null) and its bytes. A record of format 2 has varints for all numbers but its attributes:

    size | attributes i8 | timestamp delta | offset delta | key size | key | value size | value
    header count | for each header: name size | name | value size | value

The integers are compiled into the kernels by Numba; with the structs a broker reads headers before it has
loaded NumPy or Numba.
"""

from __future__ import annotations

import struct

# Positions in every entry.
OFFSET_AT = 0
SIZE_AT = 8
MAGIC_AT = 16
ENTRY_OVERHEAD = 12  # offset and size, which `size` does not count

# Positions in a batch (format 2).
LEADER_EPOCH_AT = 12
BATCH_CRC_AT = 17
BATCH_ATTRIBUTES_AT = 21
BATCH_LAST_OFFSET_DELTA_AT = 23
BATCH_BASE_TIMESTAMP_AT = 27
BATCH_MAX_TIMESTAMP_AT = 35
BATCH_PRODUCER_ID_AT = 43
BATCH_PRODUCER_EPOCH_AT = 51
BATCH_SEQUENCE_AT = 53
BATCH_COUNT_AT = 57
BATCH_OVERHEAD = 61

# Positions in a message (formats 0 and 1).
LEGACY_CRC_AT = 12
LEGACY_ATTRIBUTES_AT = 17
LEGACY_TIMESTAMP_AT = 18  # format 1 only
LEGACY_BODY_AT_V0 = 18
LEGACY_BODY_AT_V1 = 26
LEGACY_BODY_AT = {0: LEGACY_BODY_AT_V0, 1: LEGACY_BODY_AT_V1}
LENGTH_BYTES = 4  # of a key or a value

# The smallest legal `size` of each format. Numba compiles no dict, hence the numbers of their own.
SIZE_MIN_V0 = 14
SIZE_MIN_V1 = 22
SIZE_MIN_V2 = BATCH_OVERHEAD - ENTRY_OVERHEAD
SIZE_MIN = {0: SIZE_MIN_V0, 1: SIZE_MIN_V1, 2: SIZE_MIN_V2}
ENTRY_BYTES_MIN = ENTRY_OVERHEAD + SIZE_MIN_V0

# A record takes at least: size, attributes, two deltas, two null lengths and a header count, a byte each.
RECORD_SIZE_MIN = 7
# What a record takes beside its key and value at most, with room to move it by a few bytes: varints of
# length, timestamp, offset, key, value and header count, and attributes (format 2); 34 bytes (format 1).
# A header takes less.
RECORD_OVERHEAD_MAX = 48
# The size of a record must fit 31 bits, and so must that of the batch around it.
SIZE_MAX = 0x7FFFFFFF - 2 * BATCH_OVERHEAD

# Attribute bits, the same in all formats that have them.
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base timestamp says when tombstones may be removed
CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD = range(1, 5)  # numbers of codecs
CODEC_LAST = CODEC_ZSTD

# Values that stand for "none".
NO_TIMESTAMP = -1
NO_TIMESTAMP_TYPE = -1
NO_LEADER_EPOCH = -1

BATCH = struct.Struct(">qiibIhiqqqhii")  # the fields of format 2 in order, up to the records
BATCH_PRODUCER = struct.Struct(">qhi")  # producer id, producer epoch, base sequence
MESSAGE_HEAD = struct.Struct(">qiI")  # offset, size and CRC of a message
OFFSET_AND_SIZE = struct.Struct(">qi")
OFFSET_SIZE_EPOCH = struct.Struct(">qii")
OFFSET = struct.Struct(">q")
SIZE = struct.Struct(">i")
LENGTH = struct.Struct(">i")
LEADER_EPOCH = struct.Struct(">i")
CRC = struct.Struct(">I")
CRC_MAGIC_ATTRIBUTES = struct.Struct(">IBB")  # of a message
BATCH_ATTRIBUTES = struct.Struct(">h")
LAST_OFFSET_DELTA = struct.Struct(">i")
TIMESTAMP = struct.Struct(">q")
