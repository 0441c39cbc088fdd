"""The parts of kafka-dump-log for `.txnindex` and `.snapshot` files, in the words of Kafka 3 and 4."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.kafka.tool import ToolRefused, show
from ottla.log.aborted_index import VERSION, AbortedIndex
from ottla.log.file_system import REAL
from ottla.log.producer_snapshots import ProducerEntry, decode


def dump_aborted(path: Path) -> None:
    """Print the aborted transactions of a segment."""
    index = AbortedIndex(path, REAL)
    if not index.load(int(path.stem)):
        raise ToolRefused(f"{path} is damaged: its entries do not fit a segment with this base")
    for item in index.entries():
        show(
            f"version: {VERSION} producerId: {item.producer_id} firstOffset: {item.first_offset}"
            f" lastOffset: {item.last_offset} lastStableOffset: {item.last_stable_offset}"
        )


def dump_producers(path: Path, data: bytes) -> None:
    """Print the producers of a snapshot."""
    known = decode(data)
    if known is None:
        raise ToolRefused(f"{path} is damaged: its checksum does not match")
    for item in known:
        show(_producer(item))


def _producer(item: ProducerEntry) -> str:
    began = item.transaction_offset
    text = (
        f"producerId: {item.producer_id} producerEpoch: {item.epoch}"
        f" coordinatorEpoch: {item.coordinator_epoch}"
        f" currentTxnFirstOffset: {f'OptionalLong[{began}]' if began >= 0 else 'OptionalLong.empty'}"
        f" lastTimestamp: {item.timestamp} "
    )
    if item.last_offset >= 0:
        first = item.last_sequence - item.offset_delta
        if first < 0:
            first += 1 << 31
        text += (
            f"firstSequence: {first} lastSequence: {item.last_sequence} lastOffset: {item.last_offset}"
            f" offsetDelta: {item.offset_delta} timestamp: {item.timestamp}"
        )
    return text
