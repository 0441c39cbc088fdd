"""Other libraries' record builders and readers, behind one shape. Import cost is paid by the first use."""

from __future__ import annotations

import importlib
import os
import struct
import sys
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import crc32c
import pytest

from ottla.records.compression import Codec
from tests.interop.rows import NO_TIMESTAMP_TYPE, Row

ROOM = 1 << 30
KAFKA_PYTHON_NEEDS = {
    Codec.SNAPPY: ["snappy"],
    Codec.LZ4: ["lz4.frame"],
    Codec.ZSTD: ["zstandard"],
}


class Producer(NamedTuple):
    """The producer's fields of a batch header."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


NO_PRODUCER = Producer()


@dataclass(frozen=True)
class Peer:
    """The record modules of one library: how it writes and reads record sets."""

    name: str
    default_records: ModuleType
    legacy_records: ModuleType
    memory_records: ModuleType

    def lacks(self, magic: int, codec: Codec) -> str | None:
        """Why the library as installed cannot do this codec in this format; None if it can."""
        if self.name != "kafka-python":
            if (magic, codec) == (0, Codec.LZ4):
                return f"{self.name} refuses lz4 in format 0 by design (KAFKA-3160)"
            return None
        needs = KAFKA_PYTHON_NEEDS.get(codec, []) + (["xxhash"] if (magic, codec) == (0, Codec.LZ4) else [])
        missing = [module for module in needs if not _is_importable(module)]
        if missing:
            return f"kafka-python needs {' and '.join(missing)} for {codec.label} in format {magic}"
        return None

    def skip_unless_it_can(self, magic: int, codec: Codec) -> None:
        """Skip the running test by name if the library lacks what it needs."""
        reason = self.lacks(magic, codec)
        if reason is not None:
            pytest.skip(reason)

    def encode(
        self, rows: Sequence[Row], magic: int, codec: Codec, producer: Producer = NO_PRODUCER
    ) -> bytes:
        """One batch or message set as this library's producer would send it, then stored by a broker.

        Producers count offsets from 0; that a broker assigns the real ones is done here.
        """
        first, last = rows[0].offset, rows[-1].offset
        if magic == 2:
            builder = self.default_records.DefaultRecordBatchBuilder(
                magic=2,
                compression_type=int(codec),
                is_transactional=producer.transactional,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=producer.base_sequence,
                batch_size=ROOM,
            )
        else:
            builder = self.legacy_records.LegacyRecordBatchBuilder(
                magic=magic, compression_type=int(codec), batch_size=ROOM
            )
        # Only compressed messages of format 1 and batches of format 2 have relative offsets inside.
        is_relative = magic == 2 or (magic == 1 and codec is not Codec.NONE)
        base = first if is_relative else 0
        for row in rows:
            timestamp = -1 if row.timestamp is None else row.timestamp
            accepted = builder.append(
                row.offset - base, timestamp, row.key, row.value, headers=list(row.headers)
            )
            assert accepted is not None
        data = bytearray(builder.build())
        if magic == 2:
            struct.pack_into(">q", data, 0, first)
        elif codec is not Codec.NONE:
            struct.pack_into(">q", data, 0, last)
        return bytes(data)

    def decode(self, data: bytes) -> list[Row]:
        """All records of a record set, with every checksum verified."""
        return [_row(record) for batch in self.batches(data) for record in batch]

    def batches(self, data: bytes) -> list[Any]:
        """The library's own batch objects."""
        records = self.memory_records.MemoryRecords(data)
        found = []
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            found.append(batch)
        return found


def _row(record: Any) -> Row:
    kind = NO_TIMESTAMP_TYPE if record.timestamp_type is None else record.timestamp_type
    timestamp = None if record.timestamp == -1 else record.timestamp
    return Row(record.offset, timestamp, kind, record.key, record.value, tuple(record.headers))


@cache
def kafka_python() -> Peer:
    with warnings.catch_warnings():
        # It loads its data files through a function that newer Pythons deprecate.
        warnings.simplefilter("ignore", DeprecationWarning)
        return Peer("kafka-python", *_record_modules("kafka"))


@cache
def aiokafka_compiled() -> Peer:
    peer = Peer("aiokafka", *_record_modules("aiokafka"))
    kind = peer.default_records.DefaultRecordBatch
    if "_crecords" not in kind.__module__:
        pytest.skip("this aiokafka was installed without its compiled extensions")
    return peer


@cache
def aiokafka_pure() -> Peer:
    """A second copy of aiokafka, imported as if its extensions were not there."""
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "aiokafka"}
    for name in before:
        del sys.modules[name]
    os.environ["AIOKAFKA_NO_EXTENSIONS"] = "1"
    try:
        return Peer("aiokafka-pure", *_record_modules("aiokafka"))
    finally:
        del os.environ["AIOKAFKA_NO_EXTENSIONS"]
        for name in [name for name in sys.modules if name.split(".")[0] == "aiokafka"]:
            del sys.modules[name]
        sys.modules.update(before)


PEERS = {"kafka-python": kafka_python, "aiokafka": aiokafka_compiled, "aiokafka-pure": aiokafka_pure}


def _record_modules(package: str) -> list[ModuleType]:
    names = ("default_records", "legacy_records", "memory_records")
    return [importlib.import_module(f"{package}.record.{name}") for name in names]


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


# ---- what a broker does to batches


def stamped_by_broker(entry: bytes, append_time: int) -> bytes:
    """The batch or message as a broker with LogAppendTime stores it."""
    data = bytearray(entry)
    if data[16] == 2:
        data[22] |= 0x08
        struct.pack_into(">q", data, 35, append_time)
        struct.pack_into(">I", data, 17, crc32c.crc32c(memoryview(data)[21:]))
    else:
        data[17] |= 0x08
        struct.pack_into(">q", data, 18, append_time)
        struct.pack_into(">I", data, 12, zlib.crc32(memoryview(data)[16:]))
    return bytes(data)
