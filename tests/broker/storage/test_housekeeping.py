"""What the broker does by itself: compaction, retention, checkpoints, expiry. Intervals are made short."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.storage import housekeeping as housekeeping_module
from ottla.broker.storage.record_batches import batch_of, batches_of
from ottla.log import checkpoints, compaction
from ottla.log.compaction import CompactionTicket
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.errors import StorageError
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.wire_client import Client
from tests.waiting import wait_for

EARLIEST = -2


def produce(
    client: Client, topic: str, *records: tuple[bytes | None, bytes | None], time_ms: int = -1
) -> None:
    now_ms = time_ms if time_ms >= 0 else time.time_ns() // 1_000_000
    data = bytes(batch_of(records, now_ms).data)
    item = ProduceTopic(name=topic, partition_data=[ProducePartition(index=0, records=data)])
    answer = client.call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[item]), 8)
    assert answer.responses[0].partition_responses[0].error_code == 0


def stored(client: Client, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Everything in the topic's only partition, from its start."""
    asked = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)]
    )
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 4)
    offset = answer.topics[0].partitions[0].offset
    rows: list[tuple[int, bytes | None, bytes | None]] = []
    while True:
        place = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[place])])
        data = client.call(request, 11).responses[0].partitions[0].records
        if not data:
            return rows
        for header, records in batches_of(bytes(data)):
            rows += [
                (record.offset, record.key, record.value) for record in records if record.offset >= offset
            ]
            offset = header.last_offset + 1


def test_the_cleaner_keeps_the_last_value_of_each_key_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}
    fast = {"log.cleaner.backoff.ms": "100", "log.flush.offset.checkpoint.interval.ms": "100"}
    with EmbeddedBroker(tmp_path, properties=fast) as broker:
        broker.create_topic("state", config=config)
        with Client.of(broker.bootstrap) as client:
            for number in range(30):
                produce(client, "state", (b"k%d" % (number % 3), b"v%d" % number))
            wait_for(lambda: len(stored(client, "state")) < 15, "compaction")
            produce(client, "state", (b"k0", None))
            kept = {key: value for _, key, value in stored(client, "state")}
            assert kept == {b"k0": None, b"k1": b"v28", b"k2": b"v29"}
        cleaner = tmp_path / checkpoints.CLEANER
        wait_for(lambda: checkpoints.read_offsets(cleaner).get(("state", 0), 0) > 10, "checkpoint")
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert {key: value for _, key, value in stored(client, "state")} == kept


def test_expired_segments_go_and_their_files_with_them(tmp_path: Path) -> None:
    config = {"retention.ms": "60000", "segment.bytes": "400", "file.delete.delay.ms": "0"}
    with EmbeddedBroker(tmp_path, properties={"log.retention.check.interval.ms": "100"}) as broker:
        broker.create_topic("events", config=config)
        with Client.of(broker.bootstrap) as client:
            for number in range(10):
                produce(client, "events", (None, b"old %d" % number * 10), time_ms=1_000_000)
            produce(client, "events", (None, b"new"))
            wait_for(lambda: [value for *_, value in stored(client, "events")][-1:] == [b"new"], "retention")
            wait_for(lambda: len(stored(client, "events")) < 10, "retention")
            assert stored(client, "events")[-1][0] == 10
        wait_for(lambda: not list((tmp_path / "events-0").glob("*.deleted")), "removal of files")


def test_the_loop_does_not_wait_for_the_age_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start nothing is known of sealed segments: a thread reads their files."""
    readers: list[str] = []
    read = Segment._read_files

    def noted(segment: Segment) -> None:
        readers.append(threading.current_thread().name)
        read(segment)

    monkeypatch.setattr(Segment, "_read_files", noted)
    config = {"retention.ms": "60000", "segment.bytes": "400"}
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("events", config=config)
        with Client.of(broker.bootstrap) as client:
            for number in range(10):
                produce(client, "events", (None, b"old %d" % number * 10), time_ms=1_000_000)
            produce(client, "events", (None, b"new"))
        broker.stop()
        broker.start()
        thread = broker._thread()
        thread.wait_for(thread.service.housekeeping.apply_retention())
        with Client.of(broker.bootstrap) as client:
            assert [value for *_, value in stored(client, "events")][-1:] == [b"new"]
            assert len(stored(client, "events")) < 10
    assert readers
    assert all(name.startswith("ottla-reader") for name in readers)


def test_compaction_of_the_others_goes_on_where_one_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}
    with EmbeddedBroker(tmp_path, properties={"log.cleaner.enable": "false"}) as broker:
        thread = broker._thread()
        housekeeping = thread.service.housekeeping
        with Client.of(broker.bootstrap) as client:
            for name in ("bad", "good"):
                broker.create_topic(name, config=config)
                for number in range(10):
                    produce(client, name, (b"key", b"%d" % number * 30))
            begin_all = compaction.begin

            def begin(log: PartitionLog, *arguments: Any, **more: Any) -> CompactionTicket:
                if log.path.name.startswith("bad"):
                    raise StorageError("no descriptor is left")
                return begin_all(log, *arguments, **more)

            monkeypatch.setattr(compaction, "begin", begin)
            thread.wait_for(housekeeping.compact())
            assert len(stored(client, "good")) < 5
            assert len(stored(client, "bad")) == 10


def test_a_slow_partition_keeps_old_messages_beside_a_young_one(tmp_path: Path) -> None:
    """A segment is as old as its newest record, and a new one begins on append only (seed 1, spec 10.5)."""
    with EmbeddedBroker(tmp_path, properties={"log.retention.check.interval.ms": "100"}) as broker:
        for name in ("slow", "dead"):
            broker.create_topic(name, config={"retention.ms": "60000"})
        with Client.of(broker.bootstrap) as client:
            # The young one first: a pass of retention between the two would drop the old one alone.
            produce(client, "slow", (None, b"young"))
            produce(client, "slow", (None, b"old"), time_ms=time.time_ns() // 1_000_000 - 3_600_000)
            produce(client, "dead", (None, b"old"), time_ms=1_000_000)
            wait_for(lambda: not stored(client, "dead"), "a pass of retention over all partitions")
            assert [value for *_, value in stored(client, "slow")] == [b"young", b"old"]


def test_a_quiet_partition_loses_even_its_last_segment_when_all_of_it_is_too_old(tmp_path: Path) -> None:
    """Age alone decides, as in Kafka: an active segment is sealed to be dropped, though nobody writes."""
    with EmbeddedBroker(tmp_path, properties={"log.retention.check.interval.ms": "100"}) as broker:
        broker.create_topic("quiet", config={"retention.ms": "60000"})
        with Client.of(broker.bootstrap) as client:
            produce(client, "quiet", (None, b"old"), time_ms=1_000_000)
            wait_for(lambda: not stored(client, "quiet"), "retention")
            produce(client, "quiet", (None, b"new"))
            assert [(offset, value) for offset, _, value in stored(client, "quiet")] == [(1, b"new")]


def test_retention_goes_on_when_a_topic_is_deleted_meanwhile(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("first")
        broker.create_topic("second")
        service = broker._thread().service

        async def delete_during_a_pass() -> None:
            retention = asyncio.ensure_future(service.housekeeping.apply_retention())
            await asyncio.sleep(0)  # it has looked at the first topic, and lets others run
            service.cluster.topics.delete("second")
            await retention

        broker._thread().wait_for(delete_during_a_pass())


def test_a_topic_that_is_deleted_while_its_age_is_read_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("events")
        service = broker._thread().service

        def deleted_meanwhile(log: PartitionLog, _now_ms: int) -> int:
            broker.delete_topic("events")
            raise StorageError(f"{log.path}: the file was closed")

        monkeypatch.setattr(housekeeping_module, "has_to_read", lambda _log: True)
        monkeypatch.setattr(housekeeping_module, "expired", deleted_meanwhile)
        broker._thread().wait_for(service.housekeeping.apply_retention())
    assert "failed" not in caplog.text


def test_a_job_goes_on_after_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise one odd partition would end retention for all, until the disk is full."""
    passes = []

    def broken(*_: object) -> int:
        passes.append(1)
        raise RuntimeError("an error of ours")

    monkeypatch.setattr("ottla.broker.storage.housekeeping.apply_retention", broken)
    with EmbeddedBroker(tmp_path, properties={"log.retention.check.interval.ms": "100"}) as broker:
        broker.create_topic("t")
        wait_for(lambda: len(passes) > 1, "a second pass")
    assert "housekeeping failed; it is tried again in 100 ms" in caplog.messages
