"""The markers that end transactions in a log: control batches of one record. Pure.

    key    version i16 = 0, type i16: 0 abort, 1 commit
    value  version i16 = 0, coordinator epoch i32

A marker takes an offset, has the producer's id and epoch in its header and no sequence. Only a broker writes
one, after the transaction's coordinator has decided.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader, header_at
from ottla.log.plain_batch import batch_body, sealed_batch
from ottla.log.record_walk import record_at
from ottla.log.validation import CheckedSet
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import BATCH_OVERHEAD, CONTROL, TRANSACTIONAL

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


class EndMarker(NamedTuple):
    """The end of a producer's transaction in a partition.

    From `transaction_version` 2 on the epoch is above the one of the transaction's records (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


def marker_batch(marker: EndMarker, now_ms: int) -> CheckedSet:
    """The control batch of a marker, ready to be appended."""
    key = _KEY.pack(0, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    body = batch_body([(now_ms, key, value)])
    bits = CONTROL | TRANSACTIONAL
    data = sealed_batch(body, bits, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch)
    header = header_at(data, 0, 0)
    assert header is not None
    return CheckedSet(memoryview(data), (header,))


def read_marker(entry: bytes | memoryview, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None for one that compaction has emptied, and for other control types.

    Raises CorruptRecord.
    """
    if not header.record_count:
        return None
    record = record_at(memoryview(entry)[BATCH_OVERHEAD : header.size], 0)
    if record.key is None or record.value is None or len(record.key) < _KEY.size:
        raise CorruptRecord(f"the control batch at offset {header.base_offset} has no type")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if len(record.value) < _VALUE.size:
        raise CorruptRecord(f"the marker at offset {header.base_offset} has no coordinator epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == _COMMIT)
