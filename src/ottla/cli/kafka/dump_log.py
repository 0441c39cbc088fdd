"""kafka-dump-log, DumpLogSegments: what is in the files of a partition, entry by entry.

Batches of format 2 are printed as Kafka 4 does, messages of formats 0 and 1 as Kafka 0.9 does.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import crc32c

from ottla.cli.kafka.flags import Flag, Options, Value, number, switch
from ottla.cli.kafka.tool import Refused, Tool, require, run_tool, show
from ottla.records.messages import MessageAndOffset, MessageSet

FLAGS = (
    Flag("files", "Files, with commas: .log, .index, .timeindex."),
    switch("print-data-log", "Print keys and values too."),
    Flag("deep-iteration", "Print the records of batches.", Value.OPTIONAL),
    switch("index-sanity-check", "Ignored: an index is printed as it is."),
    switch("verify-index-only", "Ignored: an index is printed as it is."),
    number("max-message-size", "Ignored: entries are as large as they are."),
    number("max-bytes", "Read so many bytes of a log at most."),
    Flag("value-decoder-class", "Ignored: values are text."),
    Flag("key-decoder-class", "Ignored: keys are text."),
    switch("skip-record-metadata", "With --print-data-log, only keys and values."),
)
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_OLD_CODECS = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec", "LZ4CompressionCodec")
_HEAD = struct.Struct(">qi")
_BATCH = struct.Struct(">qiibIhiqqqhii")
_OLD = struct.Struct(">qiIbb")
_TIMES = ("CreateTime", "LogAppendTime")


def run(arguments: Sequence[str]) -> int:
    """Print the files."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "files")
    for name in options.text("files").split(","):
        path = Path(name)
        show(f"Dumping {name}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Refused(f"{name} cannot be read: {error.strerror or error}") from error
        if path.suffix == ".log":
            _dump_log(path, data[: options.whole("max-bytes")] if options.has("max-bytes") else data, options)
        elif path.suffix == ".index":
            _dump_index(path, data)
        elif path.suffix == ".timeindex":
            _dump_time_index(path, data)
        else:
            show(f"Ignoring unknown file {name}", is_error=True)
    return 0


# --- logs


class Entry(NamedTuple):
    """A batch, or a message of the old formats, and where it lies."""

    position: int
    data: memoryview

    @property
    def magic(self) -> int:
        """The format."""
        return int(self.data[16])

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is right."""
        if self.magic < 2:
            return bool(zlib.crc32(self.data[16:]) == struct.unpack_from(">I", self.data, 12)[0])
        return bool(crc32c.crc32c(self.data[21:]) == struct.unpack_from(">I", self.data, 17)[0])


def entries(data: bytes) -> Iterator[Entry]:
    """One after another, up to the first that is not whole."""
    view, at = memoryview(data), 0
    while at + 17 <= len(data):
        _, size = _HEAD.unpack_from(view, at)
        end = at + 12 + size
        if size < 14 or end > len(data):
            return
        yield Entry(at, view[at:end])
        at = end


def _dump_log(path: Path, data: bytes, options: Options) -> None:
    found = list(entries(data))
    is_old = bool(found) and found[0].magic < 2
    show(f"{'Starting' if is_old else 'Log starting'} offset: {int(path.stem)}")
    end = 0
    for one in found:
        end = one.position + len(one.data)
        if one.magic < 2:
            _print_old(one, options)
        else:
            _print_batch(one, options)
    if end < len(data) and not options.has("max-bytes"):
        show(f"Found {len(data) - end} invalid bytes at the end of {path.name}")


def _print_old(one: Entry, options: Options) -> None:
    _, _, crc, magic, attributes = _OLD.unpack_from(one.data)
    (message,) = MessageSet(one.data) if not attributes & 7 else (None,)
    offset = _HEAD.unpack_from(one.data)[0]
    body = one.data[_OLD.size + (8 if magic == 1 else 0) :]
    key_size = struct.unpack_from(">i", body)[0]
    size = struct.unpack_from(">i", body, 4 + max(0, key_size))[0]
    text = (
        f"offset: {offset} position: {one.position} isvalid: {str(one.is_valid).lower()} payloadsize: {size} "
    )
    text += f"magic: {magic} compresscodec: {_OLD_CODECS[attributes & 7]} crc: {crc}"
    if key_size >= 0:
        text += f" keysize: {key_size}"
    if options.has("print-data-log") and message is not None:
        key, value = message.message.key, message.message.value
        text += f" key: {_text(key)}" if key_size >= 0 else ""
        text += f" payload: {_text(value)}"
    show(text)


def _print_batch(one: Entry, options: Options) -> None:
    base, size, epoch, magic, crc, attributes, last, _, newest, producer, producer_epoch, sequence, count = (
        _BATCH.unpack_from(one.data)
    )
    kind = _TIMES[attributes >> 3 & 1]
    last_sequence = -1 if sequence < 0 else sequence + last
    horizon = "OptionalLong.empty"
    if attributes & 64:
        horizon = f"OptionalLong[{struct.unpack_from('>q', one.data, 27)[0]}]"
    show(
        f"baseOffset: {base} lastOffset: {base + last} count: {count} baseSequence: {sequence} "
        f"lastSequence: {last_sequence} producerId: {producer} producerEpoch: {producer_epoch} "
        f"partitionLeaderEpoch: {epoch} isTransactional: {_flag(attributes, 16)} "
        f"isControl: {_flag(attributes, 32)} deleteHorizonMs: {horizon} position: {one.position} "
        f"{kind}: {newest} size: {size + 12} magic: {magic} compresscodec: {_CODECS[attributes & 7]} "
        f"crc: {crc} isvalid: {str(one.is_valid).lower()}"
    )
    wanted = options.any_of("print-data-log", "deep-iteration")
    if wanted and one.is_valid and not attributes & 32:
        for record in MessageSet(one.data):
            _print_record(record, kind, -1 if sequence < 0 else sequence + record.offset - base, options)


def _print_record(record: MessageAndOffset, kind: str, sequence: int, options: Options) -> None:
    message = record.message
    parts = ["|"]
    if not options.has("skip-record-metadata"):
        sizes = (-1 if one is None else len(one) for one in (message.key, message.value))
        key_size, value_size = sizes
        names = ",".join(name for name, _ in message.headers)
        parts.append(
            f"offset: {record.offset} {kind}: {message.timestamp_ms} keySize: {key_size} "
            f"valueSize: {value_size} sequence: {sequence} headerKeys: [{names}]"
        )
    if options.has("print-data-log"):
        parts += [f"key: {_text(message.key)}"] if message.key is not None else []
        parts += [f"payload: {_text(message.value)}"] if message.value is not None else []
    show(" ".join(parts))


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "replace")


def _flag(attributes: int, bit: int) -> str:
    return "true" if attributes & bit else "false"


# --- indexes


def _dump_index(path: Path, data: bytes) -> None:
    """Up to the zeros of a file that is larger than what is in it."""
    base = int(path.stem)
    for number_, (relative, position) in enumerate(struct.iter_unpack(">ii", data[: len(data) // 8 * 8])):
        if number_ and not relative:
            return
        show(f"offset: {base + relative} position: {position}")


def _dump_time_index(path: Path, data: bytes) -> None:
    base = int(path.stem)
    for number_, (timestamp, relative) in enumerate(struct.iter_unpack(">qi", data[: len(data) // 12 * 12])):
        if number_ and not timestamp:
            return
        show(f"timestamp: {timestamp} offset: {base + relative}")


TOOL = Tool(
    "kafka-dump-log",
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging.",
    FLAGS,
    _act,
)
