"""Record sets of formats 0, 1 and 2, one entry after the other, in plain Python.

Written from the formats' description, not from the kernels; nothing here is fast. It shares these choices
of `ottla.records.reader` and its kernels, which the formats leave open:

* damage ends the set; what stands before is returned with it, and it is raised if that would not move
  `next_offset` beyond `from_offset`;
* a record's headers are looked at only when asked for, and only in records that are delivered;
* varints of more than nine bytes, offset deltas outside of 0 to 2**31 - 1, offsets and base timestamps
  beyond 2**62, and a header count of zero in more than one byte are damage;
* a compressed batch of more than RECORDS_MAX records is damage;
* batches that are hidden (markers, aborted transactions) are not looked into;
* the bytes behind a whole entry that do not make another one are left alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import crc32c

from ottla.model.errors import CorruptRecord
from ottla.records.compression import Codec, OverLimit, compress, decompress

LIMIT = 1 << 62
UNBOUNDED = 1 << 28
RECORDS_MAX = 4_000_000


@dataclass(frozen=True)
class Record:
    """What a consumer gets to see."""

    offset: int
    timestamp: int | None = None
    timestamp_type: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Damage(Exception):
    """An entry that cannot be read."""

    def __init__(self, offset: int, next_offset: int | None, reason: str) -> None:
        super().__init__(f"{reason} at offset {offset}, next {next_offset}")
        self.offset = offset
        self.next_offset = next_offset
        self.reason = reason


@dataclass
class Result:
    """As `reader.Decoded`."""

    records: list[Record]
    next_offset: int
    valid_bytes: int
    damage: Damage | None = None


class _Bad(Exception):
    """The entry at hand is damaged; its attributes are added where they are known."""


class _Stop(Exception):
    """The limit is reached behind some entries: the rest is for another call."""


# ---- varints


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Zig-zag varint of at most nine bytes: (value, position behind it)."""
    value = 0
    for index in range(9):
        if at + index >= end:
            raise _Bad("a varint is cut off")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value // 2 if value % 2 == 0 else -(value + 1) // 2), at + index + 1
    raise _Bad("a varint is too long")


def varint(number: int) -> bytes:
    """The shortest zig-zag varint."""
    rest = 2 * number if number >= 0 else -2 * number - 1
    out = []
    while rest >= 0x80:
        out.append(rest % 0x80 + 0x80)
        rest //= 0x80
    return bytes([*out, rest])


# ---- decode


@dataclass
class _Session:
    """One call of `decode`."""

    from_offset: int
    verify_crc: bool
    headers: bool
    limit: int
    pending: list[tuple[int, int]]
    open_producers: set[int] = field(default_factory=set)
    used: int = 0
    records: list[Record] = field(default_factory=list)
    next_offset: int = 0

    def inflate(self, codec: Codec, data: bytes, magic: int) -> bytes:
        try:
            inner = decompress(codec, data, limit=self.limit - self.used, magic=magic).tobytes()
        except OverLimit as error:
            if self.used:
                raise _Stop from error
            raise _Bad(f"too large: {error}") from error
        except CorruptRecord as error:
            raise _Bad(f"damaged compressed data: {error}") from error
        self.used += len(inner)
        return inner

    def deliver(self, record: Record) -> None:
        if record.offset >= self.from_offset:
            self.records.append(record)


def decode(
    data: bytes,
    *,
    from_offset: int = 0,
    verify_crc: bool = True,
    headers: bool = False,
    aborted: Iterable[tuple[int, int]] = (),
    limit: int = UNBOUNDED,
) -> Result:
    """Decode a record set; `aborted` are (first offset, producer id). Raises Damage where the reader does."""
    session = _Session(from_offset, verify_crc, headers, limit, sorted(aborted))
    at = 0
    damage = None
    while len(data) - at >= 12:
        offset, size = struct.unpack_from(">qi", data, at)
        if size > len(data) - at - 12:
            break
        entry = data[at : at + 12 + max(size, 0)]
        try:
            _decode_entry(entry, offset, size, session)
        except _Stop:
            break
        except Damage as found:
            damage = found
            break
        at += len(entry)
    next_offset = max(from_offset, session.next_offset)
    if damage is not None and next_offset <= from_offset:
        raise damage
    return Result(session.records, next_offset, at, damage)


def _decode_entry(entry: bytes, offset: int, size: int, session: _Session) -> None:
    magic = entry[16] if size >= 14 else None
    last = offset
    if magic == 2 and size >= 49 and 0 <= offset < LIMIT:
        last = offset + struct.unpack_from(">i", entry, 23)[0]
    known = last + 1 if last >= offset >= 0 else None
    try:
        if not 0 <= offset < LIMIT:
            raise _Bad("offset")
        if magic is None or (magic == 1 and size < 22) or (magic == 2 and size < 49):
            raise _Bad("size")
        if magic > 2:
            raise _Bad("format number")
        if magic == 2:
            _decode_batch(entry, offset, session)
        else:
            _decode_message(entry, offset, magic, session)
    except _Bad as bad:
        raise Damage(offset, known, str(bad)) from bad
    session.next_offset = max(session.next_offset, last + 1)


# -- format 2


def _decode_batch(entry: bytes, base_offset: int, session: _Session) -> None:
    (crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id, _, _, count) = (
        struct.unpack_from(">Ihiqqqhii", entry, 17)
    )
    body = entry[61:]
    if session.verify_crc and crc32c.crc32c(entry[21:]) != crc:
        raise _Bad("checksum")
    if last_delta < 0 or count < 0 or not -LIMIT < base_timestamp < LIMIT:
        raise _Bad("impossible numbers")
    if _is_hidden(attributes, base_offset + last_delta, producer_id, body, session):
        return
    codec = attributes % 8
    if codec and body:  # an empty batch has nothing to decompress
        if codec > 4:
            raise _Bad("codec")
        if count > RECORDS_MAX:
            raise _Bad("count")
        body = session.inflate(Codec(codec), body, 2)
    if count > len(body) // 7:
        raise _Bad("count")
    found: list[tuple[Record, bytes]] = []
    at = 0
    for _ in range(count):
        size, at = read_varint(body, at, len(body))
        if not 0 <= size <= len(body) - at:
            raise _Bad("record length")
        timestamp_delta, offset_delta, key, value, rest = _read_record(body[at : at + size])
        at += size
        append_time = attributes & 8 != 0
        timestamp = max_timestamp if append_time else base_timestamp + timestamp_delta
        present = None if timestamp == -1 else timestamp
        record = Record(base_offset + offset_delta, present, 1 if append_time else 0, key, value)
        found.append((record, rest))
    if at != len(body):
        raise _Bad("bytes behind the records")
    for record, rest in found:
        if session.headers and record.offset >= session.from_offset:
            record = Record(**{**vars(record), "headers": _read_headers(rest, record.offset, session)})
        session.deliver(record)


def _read_record(data: bytes) -> tuple[int, int, bytes | None, bytes | None, bytes]:
    timestamp_delta, at = read_varint(data, 1, len(data))
    offset_delta, at = read_varint(data, at, len(data))
    if not 0 <= offset_delta < 1 << 31:
        raise _Bad("offset delta")
    key, at = _read_value(data, at)
    value, at = _read_value(data, at)
    rest = data[at:]
    if rest != b"\0":
        count, at = read_varint(rest, 0, len(rest))
        if count <= 0 or 2 * count > len(rest) - at:
            raise _Bad("header count")
    return timestamp_delta, offset_delta, key, value, rest


def _read_value(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at, len(data))
    if size == -1:
        return None, at
    if not 0 <= size <= len(data) - at:
        raise _Bad("length")
    return data[at : at + size], at + size


def _read_headers(data: bytes, offset: int, session: _Session) -> tuple[tuple[str, bytes | None], ...]:
    try:
        count, at = read_varint(data, 0, len(data))
        headers = []
        for _ in range(count):
            key, at = _read_value(data, at)
            value, at = _read_value(data, at)
            if key is None:
                raise _Bad("header key is null")
            headers.append((key.decode("utf-8", "replace"), value))
        if at != len(data):
            raise _Bad("bytes behind the headers")
    except _Bad as bad:
        session.next_offset = offset
        raise Damage(offset, offset + 1, str(bad)) from bad
    return tuple(headers)


def _is_hidden(attributes: int, last_offset: int, producer_id: int, body: bytes, session: _Session) -> bool:
    control, transactional = attributes & 32 != 0, attributes & 16 != 0
    if control or transactional:
        while session.pending and session.pending[0][0] <= last_offset:
            session.open_producers.add(session.pending.pop(0)[1])
    if control:
        if _marker_type(body) == 0:
            session.open_producers.discard(producer_id)
        return True
    return transactional and producer_id in session.open_producers


def _marker_type(body: bytes) -> int | None:
    try:
        at = 0
        _, at = read_varint(body, at, len(body))
        _, at = read_varint(body, at + 1, len(body))
        _, at = read_varint(body, at, len(body))
        size, at = read_varint(body, at, len(body))
    except _Bad:
        return None
    if size < 4 or at + 4 > len(body):
        return None
    return int(struct.unpack_from(">h", body, at + 2)[0])


# -- formats 0 and 1


def _decode_message(entry: bytes, offset: int, magic: int, session: _Session) -> None:
    attributes, timestamp, body = _check_message(entry, magic, verify_crc=session.verify_crc)
    codec = attributes % 8
    if not codec:
        session.deliver(_message_record(offset, magic, attributes, timestamp, body))
        return
    if codec > 4:
        raise _Bad("codec")
    _, value = _read_sized(body)  # a wrapper's key means nothing
    if value is None:
        raise _Bad("a wrapper without a value")
    inner = _inner_messages(session.inflate(Codec(codec), value, magic), magic, session)
    _deliver_wrapped(inner, offset, magic, attributes, timestamp, session)


def _deliver_wrapped(
    inner: Sequence[tuple[int, int, int | None, bytes]],
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int | None,
    session: _Session,
) -> None:
    shift = 0
    if magic == 1 and inner and offset > 0:
        shift = offset - inner[-1][0]
        if shift < 0:
            raise _Bad("relative offsets beyond the wrapper's")
    for number, (inner_offset, inner_attributes, inner_timestamp, body) in enumerate(inner, 1):
        where = inner_offset + shift
        last = max(where, offset) if number == len(inner) else where
        if magic == 1 and attributes & 8:
            inner_attributes, inner_timestamp = inner_attributes | 8, timestamp
        try:
            session.deliver(_message_record(where, magic, inner_attributes, inner_timestamp, body))
        except _Bad as bad:
            raise Damage(where, last + 1, str(bad)) from bad
        session.next_offset = max(session.next_offset, where + 1)


def _inner_messages(data: bytes, magic: int, session: _Session) -> list[tuple[int, int, int | None, bytes]]:
    found = []
    at = 0
    while len(data) - at >= 12:
        offset, size = struct.unpack_from(">qi", data, at)
        if size > len(data) - at - 12:
            break
        if size < (14 if magic == 0 else 22) or not 0 <= offset < LIMIT:
            raise _Bad("size or offset inside a wrapper")
        entry = data[at : at + 12 + size]
        if entry[16] != magic:
            raise _Bad("another format inside a wrapper")
        attributes, timestamp, body = _check_message(entry, magic, verify_crc=session.verify_crc)
        if attributes % 8:
            raise _Bad("a wrapper inside a wrapper")
        found.append((offset, attributes, timestamp, body))
        at += 12 + size
    return found


def _check_message(entry: bytes, magic: int, *, verify_crc: bool) -> tuple[int, int | None, bytes]:
    """Attributes, timestamp, and the bytes of key and value."""
    if verify_crc and zlib.crc32(entry[16:]) != struct.unpack_from(">I", entry, 12)[0]:
        raise _Bad("checksum")
    if magic == 0:
        return entry[17], None, entry[18:]
    return entry[17], struct.unpack_from(">q", entry, 18)[0], entry[26:]


def _message_record(offset: int, magic: int, attributes: int, timestamp: int | None, body: bytes) -> Record:
    key, value = _read_sized(body)
    present = None if timestamp in (None, -1) else timestamp
    timestamp_type = -1 if magic == 0 else 1 if attributes & 8 else 0
    return Record(offset, present, timestamp_type, key, value)


def _read_sized(body: bytes) -> tuple[bytes | None, bytes | None]:
    values: list[bytes | None] = []
    at = 0
    for _ in range(2):
        if len(body) - at < 4:
            raise _Bad("length cut off")
        size = struct.unpack_from(">i", body, at)[0]
        at += 4
        if size < -1 or size > len(body) - at:
            raise _Bad("length")
        values.append(None if size == -1 else body[at : at + size])
        at += max(size, 0)
    if at != len(body):
        raise _Bad("bytes behind the value")
    return values[0], values[1]


# ---- encode


def record(
    offset_delta: int,
    key: bytes | None = None,
    value: bytes | None = None,
    *,
    timestamp_delta: int = 0,
    headers: Iterable[tuple[bytes, bytes | None]] = (),
    attributes: int = 0,
) -> bytes:
    """One record of format 2."""
    pairs = list(headers)
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta)
    body += _sized_varint(key) + _sized_varint(value) + varint(len(pairs))
    body += b"".join(_sized_varint(name) + _sized_varint(value) for name, value in pairs)
    return varint(len(body)) + body


def _sized_varint(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def batch(
    records: Sequence[bytes] = (),
    *,
    base_offset: int = 0,
    last_delta: int | None = None,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    attributes: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    leader_epoch: int = -1,
) -> bytes:
    """A batch of format 2 around encoded records."""
    body = b"".join(records)
    if codec is not Codec.NONE:
        body = bytes(compress(codec, body))
    header = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        len(records) - 1 if last_delta is None else last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    return sealed_batch(base_offset, header + body, leader_epoch)


def sealed_batch(base_offset: int, content: bytes, leader_epoch: int = -1) -> bytes:
    """A batch of format 2 from all that its checksum covers."""
    crc = crc32c.crc32c(content)
    return struct.pack(">qiibI", base_offset, 9 + len(content), leader_epoch, 2, crc) + content


def marker(producer_id: int, *, base_offset: int, kind: int, transactional: bool = True) -> bytes:
    """A control batch: kind 0 aborts, 1 commits."""
    content = record(0, struct.pack(">hh", 0, kind), b"\0\0\0\0\0\0")
    return batch(
        [content], base_offset=base_offset, attributes=0x20 | (0x10 * transactional), producer_id=producer_id
    )


def message(
    magic: int,
    offset: int,
    key: bytes | None = None,
    value: bytes | None = None,
    *,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """An entry of format 0 or 1."""
    content = struct.pack(">BB", magic, attributes)
    if magic == 1:
        content += struct.pack(">q", timestamp)
    return sealed_message(offset, content + _sized_int(key) + _sized_int(value))


def sealed_message(offset: int, content: bytes) -> bytes:
    """An entry of format 0 or 1 from all that its checksum covers."""
    return struct.pack(">qiI", offset, 4 + len(content), zlib.crc32(content)) + content


def _sized_int(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def wrapper(
    magic: int,
    offset: int,
    inner: Iterable[bytes],
    codec: Codec,
    *,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """A compressed message around messages."""
    value = bytes(compress(codec, b"".join(inner), magic=magic))
    return message(magic, offset, None, value, timestamp=timestamp, attributes=attributes | codec)
