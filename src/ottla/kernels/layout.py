"""Numbers that kernels share: byte positions of the record formats, the entry table, status codes.

An *entry* is what a record set is made of: a batch (format 2) or a message (formats 0 and 1); both
start with ``offset i64 | size i32`` and have their format number ("magic") at byte 16.

    format 2   0 base offset | 8 size | 12 leader epoch | 16 magic | 17 crc32c | 21 attributes
               23 last offset delta | 27 base timestamp | 35 max timestamp | 43 producer id
               51 producer epoch | 53 base sequence | 57 record count | 61 records
    format 1   0 offset | 8 size | 12 crc32 | 16 magic | 17 attributes | 18 timestamp | 26 key, value
    format 0   0 offset | 8 size | 12 crc32 | 16 magic | 17 attributes | 18 key, value
"""

from __future__ import annotations

# Bytes.
ENTRY_OVERHEAD = 12
MAGIC_AT = 16
BATCH_OVERHEAD = 61
BATCH_CRC_AT = 17
BATCH_ATTRIBUTES_AT = 21
LEGACY_CRC_AT = 12
LEGACY_ATTRIBUTES_AT = 17
LEGACY_BODY_AT_V0 = 18
LEGACY_BODY_AT_V1 = 26
# Smallest legal `size` by magic: what follows the 12 bytes of overhead.
SIZE_MIN_V0 = 14
SIZE_MIN_V1 = 22
SIZE_MIN_V2 = BATCH_OVERHEAD - ENTRY_OVERHEAD
# length, attributes, two deltas, two null lengths, header count: a byte each.
RECORD_SIZE_MIN = 7

# What a record takes beside its key and value at most, with room to move it by a few bytes: varints of
# length, timestamp, offset, key, value and header count, and attributes (format 2); 34 bytes (format 1).
# A header takes less.
RECORD_OVERHEAD_MAX = 48
# A record must be within what 31 bits can say, and so must the batch around it.
SIZE_MAX = 0x7FFFFFFF - 2 * BATCH_OVERHEAD

# Attribute bits, the same in all formats.
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

# Timestamp types, as Kafka numbers them.
NO_TIMESTAMP_TYPE = -1
NO_TIMESTAMP = -1

# Columns of the entry table (int64, one row an entry).
ENTRY = 0  # position of the entry in the record set
START = 1  # where its records (format 2) or its key (formats 0, 1) begin, in its source
END = 2  # one past its last byte, in its source
SOURCE = 3  # 0: the record set itself, 1: the arena of decompressed bytes
MAGIC = 4
ATTRIBUTES = 5
BASE_OFFSET = 6
LAST_OFFSET = 7
BASE_TIMESTAMP = 8
MAX_TIMESTAMP = 9
COUNT = 10
PRODUCER_ID = 11
CRC = 12  # the CRC-32C that is left to the caller to check, -1: none
ENTRY_COLUMNS = 13

# What the scan does about checksums of batches.
VERIFY_NOTHING = 0
VERIFY_HERE = 1
VERIFY_LATER = 2  # note them in the table for the caller

# What a kernel answers. Anything but OK and FULL is damage.
OK = 0
FULL = 1  # the entry table is full: call again from where it stopped
BAD_SIZE = 2
BAD_MAGIC = 3
BAD_CRC = 4
BAD_FIELD = 5
BAD_RECORD = 6
BAD_HEADER = 7

REASONS = {
    BAD_SIZE: "its size is smaller than its format allows",
    BAD_MAGIC: "its format number is none of 0, 1, 2",
    BAD_CRC: "its checksum does not match its bytes",
    BAD_FIELD: "its header holds impossible numbers",
    BAD_RECORD: "a record's lengths do not fit its bytes",
    BAD_HEADER: "a record's headers do not fit its bytes",
}

# Where the columns of a record set begin in its slab (see `records.columns`).
OFFSETS_AT = 0
TIMESTAMPS_AT = 1
TIMESTAMP_TYPES_AT = 2
KEY_ENDS_AT = 3
KEY_VALID_AT = 4
KEY_DATA_AT = 5
VALUE_ENDS_AT = 6
VALUE_VALID_AT = 7
VALUE_DATA_AT = 8
# The same for a header column, whose list ends are at 0.
HEADER_KEY_ENDS_AT = 1
HEADER_KEY_DATA_AT = 3
HEADER_VALUE_ENDS_AT = 4
HEADER_VALUE_VALID_AT = 5
HEADER_VALUE_DATA_AT = 6

# Places in the state array of the decode kernels.
ROWS = 0
KEY_BYTES = 1
VALUE_BYTES = 2
KEY_NULLS = 3
VALUE_NULLS = 4
TIMESTAMPS_MISSING = 5
HEADERS = 6
FAILED_ROW = 7
STATE_SIZE = 8

# Beyond these, sums of 64-bit fields would wrap; no clock and no log gets there.
TIMESTAMP_LIMIT = 1 << 62
OFFSET_LIMIT = 1 << 62
# Half of it, so that the difference of two is a varint of 63 bits.
ENCODED_TIMESTAMP_LIMIT = 1 << 61

# Columns of the table that the encoder fills, one row a batch.
ENCODED_START = 0
ENCODED_END = 1
ENCODED_COLUMNS = 2

# Places in the encoder's state, which a batch is carried in from one call to the next.
ENCODED_BATCHES = 0  # written, with the open one only if this was the last call
ENCODED_ROW = 1  # of this call, that it got to
ENCODED_BEFORE = 2  # records of all calls so far
OPEN_START = 3  # the batch that is not closed yet: where it begins and ends,
OPEN_END = 4
OPEN_COUNT = 5  # its records so far, 0: there is none open,
OPEN_BASE_TIMESTAMP = 6  # and their times
OPEN_MAX_TIMESTAMP = 7
ENCODER_STATE_SIZE = 8

# What the encoder writes into batch headers.
STAMP_OFFSET = 0
STAMP_ATTRIBUTES = 1
STAMP_PRODUCER_ID = 2
STAMP_PRODUCER_EPOCH = 3
STAMP_SEQUENCE = 4

# Kafka's murmur2.
MURMUR_SEED = 0x9747B28C
MURMUR_MULTIPLIER = 0x5BD1E995
