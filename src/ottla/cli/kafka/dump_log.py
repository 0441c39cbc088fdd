"""kafka-dump-log, DumpLogSegments: prints the files of a partition, entry by entry.

Batches of format 2 are printed as Kafka 4 does, messages of formats 0 and 1 as Kafka 0.9 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.offset_records import decoded_0_9, decoded_4
from ottla.cli.kafka.segment_entries import SegmentEntry, entries
from ottla.cli.kafka.segment_indexes import IndexFaults, dump_index, dump_time_index
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.transaction_files import dump_aborted, dump_producers
from ottla.cli.kafka.transaction_records import decoded
from ottla.cli.kafka.usage.dump_log import USAGE
from ottla.model.record_layout import (
    BATCH,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    ENTRY_OVERHEAD,
    TRANSACTIONAL,
)
from ottla.records.messages import MessageAndOffset

_DECODERS = ("offsets-decoder", "transaction-log-decoder", "value-decoder-class", "key-decoder-class")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_OLD_CODECS = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec", "LZ4CompressionCodec")
_TIMES = ("CreateTime", "LogAppendTime")
_MARKERS = ("ABORT", "COMMIT")


def run(arguments: Sequence[str]) -> int:
    """Print the files."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "files")
    faults = IndexFaults()
    for name in options.text("files").split(","):
        path = Path(name)
        show(f"Dumping {name}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ToolRefused(f"{name} cannot be read: {error.strerror or error}") from error
        if path.suffix == ".log":
            _dump_log(path, data, options, faults)
        elif path.suffix in _INDEXES:
            _INDEXES[path.suffix](
                path,
                data,
                faults,
                only_verifies=options.has("verify-index-only"),
                only_checks_sanity=options.has("index-sanity-check"),
            )
        elif path.suffix == ".txnindex":
            dump_aborted(path)
        elif path.suffix == ".snapshot":
            dump_producers(path, data)
        else:
            show(f"Ignoring unknown file {name}", is_error=True)
    faults.print_all()
    return 0


_INDEXES = {".index": dump_index, ".timeindex": dump_time_index}


def _dump_log(path: Path, data: bytes, options: Options, faults: IndexFaults) -> None:
    log = list(entries(data[: options.whole("max-bytes")] if options.has("max-bytes") else data))
    is_old = bool(log) and log[0].magic < 2
    show(f"{'Starting' if is_old else 'Log starting'} offset: {int(path.stem)}")
    faults.is_old = faults.is_old or is_old
    end, before = 0, -1
    for entry in log:
        end = entry.position + len(entry.data)
        offsets = _old_offsets(entry, options) if entry.magic < 2 else _batch_offsets(entry, options)
        for offset, must_follow in offsets:
            if must_follow and before >= 0 and offset != before + 1:
                faults.gaps.setdefault(str(path.absolute()), []).append((before, offset))
            before = offset
    if end < len(data) and not options.has("max-bytes"):
        show(f"Found {len(data) - end} invalid bytes at the end of {path.name}")


# --- messages of formats 0 and 1


def _old_offsets(entry: SegmentEntry, options: Options) -> Iterator[tuple[int, bool]]:
    """Print the entry. Yields offsets, and whether each must follow the one before (not if compressed)."""
    for message in entry.inner() if options.has("deep-iteration") else (entry,):
        _print_old(message, options)
        yield message.offset, not message.codec


def _print_old(entry: SegmentEntry, options: Options) -> None:
    key, payload = entry.key_and_value
    size = -1 if payload is None else len(payload)
    text = f"offset: {entry.offset} position: {entry.position} isvalid: {str(entry.is_valid).lower()} "
    text += (
        f"payloadsize: {size} magic: {entry.magic} compresscodec: {_OLD_CODECS[entry.codec]} crc: {entry.crc}"
    )
    if key is not None:
        text += f" keysize: {len(key)}"
    # Kafka 0.9 prints no key of a message without a payload.
    if options.has("print-data-log") and payload is not None:
        if options.has("offsets-decoder"):
            text += " key: {} payload: {}".format(*decoded_0_9(key, payload))
        else:
            text += f" key: {_text(key)}" if key is not None else ""
            text += f" payload: {_text(payload)}"
    show(text)


# --- batches


def _batch_offsets(entry: SegmentEntry, options: Options) -> Iterator[tuple[int, bool]]:
    """Print the batch. Yields the offsets of the records if they are printed."""
    (
        base,
        size,
        epoch,
        magic,
        crc,
        attributes,
        last,
        base_time,
        newest,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = BATCH.unpack_from(entry.data)
    kind = _TIMES[attributes >> 3 & 1]
    last_sequence = -1 if sequence < 0 else sequence + last
    horizon = "OptionalLong.empty"
    if attributes & DELETE_HORIZON:
        horizon = f"OptionalLong[{base_time}]"
    show(
        f"baseOffset: {base} lastOffset: {base + last} count: {count} baseSequence: {sequence} "
        f"lastSequence: {last_sequence} producerId: {producer} producerEpoch: {producer_epoch} "
        f"partitionLeaderEpoch: {epoch} isTransactional: {_flag(attributes, TRANSACTIONAL)} "
        f"isControl: {_flag(attributes, CONTROL)} deleteHorizonMs: {horizon} position: {entry.position} "
        f"{kind}: {newest} size: {size + ENTRY_OVERHEAD} magic: {magic} "
        f"compresscodec: {_CODECS[attributes & CODEC_MASK]} crc: {crc} isvalid: {str(entry.is_valid).lower()}"
    )
    if options.any_of("print-data-log", "deep-iteration", *_DECODERS) and entry.is_valid:
        for record in entry.records():
            number_ = -1 if sequence < 0 else sequence + record.offset - base
            parts = []
            if not options.has("skip-record-metadata"):
                parts += _metadata(record, kind, number_)
                parts += _marker(record) if attributes & CONTROL else []
            if not attributes & CONTROL and options.any_of("print-data-log", *_DECODERS):
                parts += _contents(record, options)
            show(" ".join(["|", *parts]) if parts else "")
            yield record.offset, True


def _metadata(record: MessageAndOffset, kind: str, sequence: int) -> list[str]:
    message = record.message
    key_size, value_size = (-1 if data is None else len(data) for data in (message.key, message.value))
    names = ",".join(name for name, _ in message.headers)
    return [
        f"offset: {record.offset} {kind}: {message.timestamp_ms} keySize: {key_size} "
        f"valueSize: {value_size} sequence: {sequence} headerKeys: [{names}]"
    ]


def _marker(record: MessageAndOffset) -> list[str]:
    """The text for a transaction marker."""
    key, value = record.message.key or b"", record.message.value or b""
    kind = int.from_bytes(key[2:4], "big")
    if kind >= len(_MARKERS):
        return [f"controlType: UNKNOWN({kind})"]
    return [f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {int.from_bytes(value[2:6], 'big')}"]


def _contents(record: MessageAndOffset, options: Options) -> list[str]:
    message = record.message
    if options.any_of("offsets-decoder", "transaction-log-decoder"):
        decode = decoded_4 if options.has("offsets-decoder") else decoded
        key, payload = decode(message.key, message.value, record.offset)
        return [f"key: {key}", *([] if payload is None else [f"payload: {payload}"])]
    parts = [f"key: {_text(message.key)}"] if message.key is not None else []
    return parts + ([f"payload: {_text(message.value)}"] if message.value is not None else [])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _flag(attributes: int, bit: int) -> str:
    return "true" if attributes & bit else "false"


TOOL = tool_of(USAGE, _act)
