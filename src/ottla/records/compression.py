"""Kafka's four codecs: bytes in, bytes out, never more of them than the caller allows.

Owns the choice of codec and level, frames that Java can read, and the bound on the output; `xerial` and
`lz4_header` hold what Kafka does differently from the codecs' own formats. Knows nothing of record batches:
the caller cuts out the compressed part and says which message format it came from.

The decompressed size is not part of the record format, and the sizes inside the compressed data come from
its writer. So a size is only ever a hint for the first allocation, held to what the codec can
produce from the given bytes and to the caller's limit. When the room turns out too small, it is
doubled and the batch done again; 3 KB of zstd that would become 100 MB stop at the limit, because cramjam
writes into the room it is given and not beyond.

An `Arena` takes the batches of a response one after the other and is meant to be kept between responses:
once it has grown to the usual size nothing is allocated, no page is touched for the first time (which costs
as much as decompressing lz4), and no hint is read, since the batch simply fits.

    arena = Arena(limit=64 << 20)
    start = arena.append(Codec.ZSTD, payload)     # arena.view[start:] holds this batch
    ...
    arena.clear()                                 # before the next response; the memory stays

May be called from any thread; an `Arena` belongs to one thread at a time. cramjam releases the GIL.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Final, TypeAlias

import cramjam
import numpy as np
import numpy.typing as npt

from ottla.kernels import layout
from ottla.model.errors import ConfigError, CorruptRecord, LocalProtocolError
from ottla.records import lz4_header, xerial, zstd_runs

U8Array: TypeAlias = npt.NDArray[np.uint8]
BytesLike: TypeAlias = bytes | bytearray | memoryview | U8Array

DOES_NOT_FIT: Final = -1
"""What `decompress_into` returns when the room is smaller than the data and than the limit."""

_GZIP_DEFAULT_LEVEL: Final = 6  # what zlib, and so Kafka, means by level -1
_GZIP_WINDOW_BITS: Final = 31  # the largest window, with gzip's header and trailer
_SMALL_GZIP_BYTES: Final = 16 * 1024
_LZ4_FAST_LEVEL: Final = 1  # Kafka's default level stands for lz4-java's fast compressor, not for its level 9
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ARENA_START_BYTES: Final = 64 * 1024


class OverLimit(CorruptRecord):
    """The data decompress to more than the caller allows: hostile data, or more than fits at once."""


class Codec(IntEnum):
    """A codec, numbered as in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name as Kafka's `compression.type` spells it."""
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> Codec:
        """The codec of a `compression.type` setting, such as "lz4"."""
        for codec in cls:
            if codec.label == name:
                return codec
        names = ", ".join(codec.label for codec in cls)
        raise ConfigError(f"unknown compression {name!r}: it is one of {names}")

    @classmethod
    def of_attributes(cls, attributes: int) -> Codec:
        """The codec of a batch or message with these attributes; 5 to 7 are not assigned."""
        number = attributes & 0x07
        if number > cls.ZSTD:
            raise CorruptRecord(
                f"attributes {attributes:#06x} name compression codec {number}, which does not exist"
            )
        return _CODECS[number]


_CODECS: Final = tuple(Codec)

# The levels that Kafka accepts (KIP-390), and its default.
_LEVELS: Final = {
    Codec.GZIP: (range(1, 10), _GZIP_DEFAULT_LEVEL),
    Codec.LZ4: (range(1, 18), _LZ4_FAST_LEVEL),
    Codec.ZSTD: (range(-131072, 23), 3),
}

# The most that one compressed byte can become: deflate emits 258 bytes for two bits, snappy 64 for three
# bytes, an lz4 length byte stands for 255, and four bytes of zstd can be a block of 128 KiB.
_EXPANSION_MAX: Final = {
    Codec.NONE: 1,
    Codec.GZIP: 1032,
    Codec.SNAPPY: 22,
    Codec.LZ4: 255,
    Codec.ZSTD: 32 * 1024,
}

# The first guess where the data carry no size, as Java's lz4 and zstd frames do: records of text shrink to a
# half (lz4) or a quarter (zstd).
_EXPANSION_USUAL: Final = {Codec.GZIP: 5, Codec.LZ4: 4, Codec.ZSTD: 6}


# ---- compress


def compress(codec: Codec, data: BytesLike, *, level: int | None = None, magic: int = 2) -> memoryview:
    """Compress `data`: the records area of a batch (magic 2) or the inner messages of a wrapper (magic 0, 1).

    Without a level it is Kafka's default. Raises ConfigError for a level that the codec does not have and
    LocalProtocolError for zstd in a format older than 2, which no reader of that format would accept.
    """
    if codec is Codec.ZSTD and magic < 2:
        raise LocalProtocolError(f"zstd needs message format 2, not {magic}")
    level = _checked_level(codec, level)
    source = _flat(data)
    match codec:
        case Codec.GZIP:
            return memoryview(cramjam.gzip.compress(source, level=level))
        case Codec.SNAPPY:
            return memoryview(xerial.compress(source))
        case Codec.LZ4:
            return _lz4_frame(source, level, magic)
        case Codec.ZSTD:
            return memoryview(cramjam.zstd.compress(source, level=level))
        case _:
            return source


def _checked_level(codec: Codec, level: int | None) -> int:
    if codec not in _LEVELS:
        if level is not None:
            raise ConfigError(f"compression {codec.label} has no levels, but level is {level}")
        return 0
    allowed, default = _LEVELS[codec]
    if level is None or (codec is Codec.GZIP and level == -1):
        return default
    if level not in allowed:
        raise ConfigError(f"{codec.label} level {level} is not within {allowed[0]} to {allowed[-1]}")
    return level


def _lz4_frame(source: memoryview, level: int, magic: int) -> memoryview:
    # Linked blocks, cramjam's default, are refused by Kafka's Java reader ("Dependent block stream is
    # unsupported"). Blocks are of 64 KiB, which it always accepts.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(source))  # it takes nothing but bytes
    frame = memoryview(compressor.finish())
    return lz4_header.with_old_checksum(frame) if magic == 0 else frame


# ---- decompress


def decompress(codec: Codec, data: BytesLike, *, limit: int, magic: int = 2) -> U8Array:
    """The decompressed bytes, at most `limit` of them, as a new array (`none`: a view of `data`).

    Raises CorruptRecord when the data are damaged or would exceed the limit. For many batches an `Arena` is
    the faster way.
    """
    source = _flat(data)
    if codec is Codec.NONE:
        if len(source) > limit:
            raise _too_big(codec, len(source), limit)
        return np.asarray(source)
    arena = Arena(limit=limit, capacity=size_hint(codec, source, limit=limit))
    arena.append(codec, source, magic=magic)
    return arena.view


def decompress_into(
    codec: Codec, data: BytesLike, out: U8Array | memoryview, start: int = 0, *, limit: int, magic: int = 2
) -> int:
    """Decompress into `out` from `start`; the number of bytes, or DOES_NOT_FIT.

    DOES_NOT_FIT means that `out` ends too early: give it more room (`size_hint` may know how much) and call
    again; what `out` holds from `start` is then undefined. Damaged data raise CorruptRecord, and so do data
    of more than `limit` bytes as soon as the room is `limit` bytes or more.
    """
    source = _flat(data)
    view = out.data if isinstance(out, np.ndarray) else out
    room = view.cast("B")[start : start + limit]  # a TypeError if not contiguous: a copy would be lost
    size = _inflate(codec, source, room, magic)
    if size == DOES_NOT_FIT and len(room) >= limit:
        raise _too_big(codec, len(source), limit)
    return size


def size_hint(codec: Codec, data: BytesLike, *, limit: int) -> int:
    """About how much room `data` will need, never above `limit`: the size that the data state, else a guess.

    Exact for sound data of gzip (one member) and snappy, and of lz4 and zstd whose frame carries its content
    size. Nothing is verified, so it may be far off for hostile data, but never beyond what the codec can
    produce from the given bytes.
    """
    source = _flat(data)
    size = _SIZE_FIELD[codec](source)
    if size is None:
        size = len(source) * _EXPANSION_USUAL[codec]
    return min(size, len(source) * _EXPANSION_MAX[codec], limit)


class Arena:
    """Decompressed batches one after the other, in an array that is reused.

    `limit` bounds the bytes of all batches together. Growing replaces the array: views taken earlier keep the
    old one and stay valid; `clear` keeps it, so views taken before it will be overwritten.
    """

    def __init__(self, *, limit: int, capacity: int = _ARENA_START_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self._array: U8Array = np.empty(min(capacity, limit), np.uint8)

    @cached_property
    def scratch(self) -> npt.NDArray[np.int32]:
        """What kernels that decompress into `memory` keep their tables in."""
        return np.zeros(layout.SCRATCH_SIZE, np.int32)

    @property
    def memory(self) -> U8Array:
        """All of the memory, for a kernel that appends to it and sets `size`."""
        return self._array

    @property
    def capacity(self) -> int:
        """The bytes that fit before the next allocation."""
        return len(self._array)

    @property
    def view(self) -> U8Array:
        """Everything appended so far, not copied."""
        return self._array[: self.size]

    def append(self, codec: Codec, data: BytesLike, *, magic: int = 2) -> int:
        """Decompress after what is there; the position where it starts (it ends at `size`).

        Raises CorruptRecord for damaged data and for more than `limit` bytes; the arena is then as before.
        """
        source = _flat(data)
        start = self.size
        while (size := _inflate(codec, source, self._array.data[start:], magic)) == DOES_NOT_FIT:
            self._grow(codec, source)
        self.size = start + size
        return start

    def append_zstd(self, batches: Sequence[memoryview]) -> list[tuple[int, int]] | None:
        """Decompress batches after what is there; where each begins and ends, or None as `decompress_run`."""
        expected = sum(map(len, batches)) * _EXPANSION_USUAL[Codec.ZSTD] + len(batches) * zstd_runs.MARK_BYTES
        if self.capacity - self.size < expected and self.capacity < self.limit:
            self._enlarge(self.size + expected)
        start = self.size
        spans = zstd_runs.decompress_run(batches, self._array.data[start:])
        if spans:
            self.size = start + spans[-1][1] + zstd_runs.MARK_BYTES
        return spans and [(start + begin, start + end) for begin, end in spans]

    def clear(self) -> None:
        """Forget the bytes, keep the memory."""
        self.size = 0

    def _grow(self, codec: Codec, source: memoryview) -> None:
        if self.capacity >= self.limit:
            if not self.size:  # nobody needs this much; an error's traceback would keep it for a while
                self._array = np.empty(min(_ARENA_START_BYTES, self.limit), np.uint8)
            raise _too_big(codec, len(source), self.limit, used=self.size)
        self._enlarge(self.size + size_hint(codec, source, limit=self.limit))

    def _enlarge(self, wanted: int) -> None:
        grown = np.empty(min(max(wanted, 2 * self.capacity, 1), self.limit), np.uint8)
        grown[: self.size] = self.view
        self._array = grown


def _inflate(codec: Codec, source: memoryview, room: memoryview, magic: int) -> int:
    """Decompress into all of `room`: here cramjam's errors become ours."""
    if codec is Codec.ZSTD and magic < 2:
        raise CorruptRecord(f"zstd data in message format {magic}, which does not allow it")
    if codec is Codec.LZ4 and magic == 0:
        source = lz4_header.with_right_checksum(source)
    try:
        return _INTO[codec](source, room)
    except cramjam.DecompressionError as error:
        if str(error) in _FULL_MESSAGES:
            return DOES_NOT_FIT
        raise CorruptRecord(f"{codec.label} data of {len(source):,} bytes are damaged: {error}") from error


def _too_big(codec: Codec, size_in: int, limit: int, *, used: int = 0) -> OverLimit:
    before = f", {used:,} of them taken by earlier batches" if used else ""
    return OverLimit(
        f"{codec.label} data of {size_in:,} bytes become more than the limit of {limit:,} bytes{before}"
    )


def _flat(data: BytesLike) -> memoryview:
    view = data.data if isinstance(data, np.ndarray) else memoryview(data)
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _copy_into(source: memoryview, room: memoryview) -> int:
    if len(source) > len(room):
        return DOES_NOT_FIT
    room[: len(source)] = source
    return len(source)


def _gzip_into(source: memoryview, room: memoryview) -> int:
    """Small data by zlib, which begins in a fourth of the time; what is not one whole member by cramjam."""
    if room and len(source) <= _SMALL_GZIP_BYTES:
        inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
        with contextlib.suppress(zlib.error):
            data = inflater.decompress(source, len(room))
            if inflater.eof and not inflater.unused_data:
                room[: len(data)] = data
                return len(data)
    return int(cramjam.gzip.decompress_into(source, room))


# ---- sizes that the data state


def _gzip_size(source: memoryview) -> int | None:
    """The trailer's size: of the last member, modulo 4 GiB."""
    return int.from_bytes(source[-4:], "little") if len(source) >= 18 else None


def _zstd_size(source: memoryview) -> int | None:
    """The content size of the first frame, if it has one (RFC 8878, 3.1.1.1)."""
    if len(source) < 6 or source[:4].tobytes() != _ZSTD_MAGIC:
        return None
    descriptor = source[4]
    size_code, single_segment = descriptor >> 6, descriptor & 0x20
    if size_code == 0 and not single_segment:
        return None
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 0x03]
    size = int.from_bytes(source[start : start + (1 << size_code)], "little")
    return size + 256 if size_code == 1 else size


_SIZE_FIELD: Final[dict[Codec, Callable[[memoryview], int | None]]] = {
    Codec.NONE: len,
    Codec.GZIP: _gzip_size,
    Codec.SNAPPY: xerial.size,
    Codec.LZ4: lz4_header.content_size,
    Codec.ZSTD: _zstd_size,
}

_INTO: Final[tuple[Callable[[memoryview, memoryview], int], ...]] = (
    _copy_into,
    _gzip_into,
    xerial.decompress_into,
    cramjam.lz4.decompress_into,
    cramjam.zstd.decompress_into,
)
"""Decompressors, by the number of the codec: looked up for every batch."""


def _messages_when_full() -> frozenset[str]:
    """What cramjam says when the room is too small. It has no class of its own for that, and the text depends
    on its version and backend, so it is measured.
    """
    messages = set()
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        try:
            _INTO[codec](compress(codec, b"full"), memoryview(bytearray(1)))
        except cramjam.DecompressionError as error:
            messages.add(str(error))
    return frozenset(messages)


_FULL_MESSAGES: Final = _messages_when_full()
