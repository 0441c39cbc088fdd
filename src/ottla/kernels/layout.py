"""Numbers that kernels share: the entry table, status codes, places in state arrays.

The byte positions of the record formats are in `ottla.model.record_layout`.
"""

from __future__ import annotations

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

# What a kernel answers. Anything but OK, FULL and LEFT is damage.
OK = 0
FULL = 1  # the entry table is full: call again from where it stopped
BAD_SIZE = 2
BAD_MAGIC = 3
BAD_CRC = 4
BAD_FIELD = 5
BAD_RECORD = 6
BAD_HEADER = 7
LEFT = 8  # an entry is left to the caller: call again after it

REASONS = {
    BAD_SIZE: "its size is smaller than its format allows",
    BAD_MAGIC: "its format number is none of 0, 1, 2",
    BAD_CRC: "its checksum does not match its bytes",
    BAD_FIELD: "its header holds impossible numbers",
    BAD_RECORD: "a record's lengths do not fit its bytes",
    BAD_HEADER: "a record's headers do not fit its bytes",
}

# What a decompressor answers instead of a position: the library decides, and says what is wrong.
GIVEN_UP = -1

# Places in the state array of `expand_entries`, which is carried from one call to the next.
EXPANDED_ENTRIES = 0  # entries that are done
EXPANDED_ROWS = 1  # rows that they have become
EXPANDED_BYTES = 2  # bytes that the arena holds
EXPANSION_STATE_SIZE = 3
# The 32-bit numbers, at first zeros, that decompressors keep their tables in.
SCRATCH_SIZE = 4096

# How many blocks a snappy stream may have: so many, and one more for so many bytes. Writers that flush early
# make small blocks; millions of tiny ones are made to keep a reader busy.
SNAPPY_BLOCKS_SPARE = 1024
SNAPPY_BLOCK_BYTES_USUAL_MIN = 64

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
