"""Fetch over a socket: where reading begins and ends, how much comes, and in which format."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.log.compaction import compact
from ottla.log.segment_file import SegmentFile
from ottla.model.error_codes import Code
from ottla.records.compression import Codec
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.handlers.admin.calls import created
from tests.broker.traffic import (
    answers,
    data_of,
    fetch,
    fetch_request,
    fill,
    magics,
    numbered,
    one,
    place,
    produce,
    read_all,
    rows,
)
from tests.broker.wire_client import Client
from tests.log.record_sets import NOW, batch

NEWEST = 18
OUT_OF_RANGE = (Code.OFFSET_OUT_OF_RANGE, -1)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def offsets(data: bytes, start: int = 0) -> list[int]:
    return [offset for offset, _, _ in rows(data, start)]


# --- where ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_every_version_reads_what_was_written(client: Client, topic: str, version: int) -> None:
    fill(client, topic, [batch(*numbered(3)), batch(*numbered(2, first=3))])
    answer = fetch(client, topic, 0, version=version)
    assert (answer.error_code, answer.high_watermark) == (Code.NONE, 5)
    assert answer.last_stable_offset == (5 if version >= 4 else -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert [(key, value) for _, key, value in rows(data_of(answer))] == numbered(5)
    assert set(magics(data_of(answer))) == {0 if version < 2 else 1 if version < 4 else 2}


@pytest.mark.parametrize("version", [4, 12, NEWEST])
def test_a_read_begins_with_the_batch_around_the_offset(client: Client, topic: str, version: int) -> None:
    fill(client, topic, [batch(*numbered(4)), batch(*numbered(4, first=4))])
    data = data_of(fetch(client, topic, 6, version=version))
    assert offsets(data, 6) == [6, 7]
    assert data == data_of(fetch(client, topic, 4, version=version)), "undecoded, so from its start"


@pytest.mark.parametrize("version", [0, 2, 4, 12, NEWEST])
def test_at_the_end_there_is_nothing_and_no_error(client: Client, topic: str, version: int) -> None:
    fill(client, topic, [one()])
    answer = fetch(client, topic, 1, version=version)
    assert (answer.error_code, answer.high_watermark, data_of(answer)) == (Code.NONE, 1, b"")


@pytest.mark.parametrize("offset", [2, 1 << 40, -1, -2])
@pytest.mark.parametrize("version", [0, 4, 12, NEWEST])
def test_offsets_outside_of_the_log(client: Client, topic: str, version: int, offset: int) -> None:
    fill(client, topic, [one()])
    answer = fetch(client, topic, offset, version=version)
    assert (answer.error_code, answer.high_watermark) == OUT_OF_RANGE
    assert data_of(answer) == b""


def test_partitions_and_topics_that_do_not_exist(client: Client, topic: str) -> None:
    assert fetch(client, topic, 0, 9).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, topic, 0, -1, version=4).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, "nowhere", 0, version=12).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, "nowhere", 0, version=13).error_code == Code.UNKNOWN_TOPIC_ID


def test_the_offsets_topic_can_be_read(broker: EmbeddedBroker, client: Client) -> None:
    broker.create_topic("__consumer_offsets", 3)
    assert fetch(client, "__consumer_offsets", 0).error_code == Code.NONE


def test_reading_over_segments(client: Client) -> None:
    topic = created(client, "rolled", segment_bytes="300")
    fill(client, topic, [batch(*numbered(2, 60, first=2 * n)) for n in range(20)])
    assert [offset for offset, _ in read_all(client, topic)] == list(range(40))
    for start in range(0, 40, 7):
        assert offsets(data_of(fetch(client, topic, start)), start)[0] == start


def test_deleted_records_are_out_of_range_and_the_rest_is_there(client: Client) -> None:
    topic = created(client, "trimmed", segment_bytes="300")
    fill(client, topic, [batch(*numbered(2, 60, first=2 * n)) for n in range(10)])
    cut = DeleteRecordsPartition(partition_index=0, offset=7)
    cuts = [DeleteRecordsTopic(name=topic, partitions=[cut])]
    client.call(DeleteRecordsRequest(topics=cuts, timeout_ms=1000), 2)
    assert (fetch(client, topic, 6).error_code, fetch(client, topic, 6).high_watermark) == OUT_OF_RANGE
    assert fetch(client, topic, 7).log_start_offset == 7
    assert [offset for offset, _ in read_all(client, topic, start=7)] == list(range(7, 20))


def test_gaps_that_compaction_left_are_passed_over(broker: EmbeddedBroker, client: Client) -> None:
    topic = created(client, "sparse", cleanup_policy="compact", segment_bytes="300")
    fill(client, topic, [batch((b"same", b"%d" % n), (b"k%d" % n, b"x" * 100)) for n in range(10)])
    cluster = broker._running().cluster

    log = cluster.store.partition(topic, 0).log
    assert log is not None
    broker._call(lambda: compact(log, NOW, 0))
    found = read_all(client, topic)
    kept = [offset for offset, _ in found]
    assert len(kept) < 20
    for start in range(20):  # also those that are gone
        first = offsets(data_of(fetch(client, topic, start)), start)[:1]
        assert first == [offset for offset in kept if offset >= start][:1]


# --- how much -------------------------------------------------------------------------------------------

BATCH = len(one(b"x" * 1000))


@pytest.fixture(scope="module")
def heavy(broker: EmbeddedBroker) -> str:
    """Three partitions with three batches of BATCH bytes each."""
    broker.create_topic("heavy", 3)
    with Client.of(broker.bootstrap) as client:
        for partition in range(3):
            fill(client, "heavy", [one(b"x" * 1000)] * 3, partition)
    return "heavy"


@pytest.mark.parametrize(
    ("max_bytes", "partition_bytes", "sizes"),
    [
        (1 << 30, (1 << 20,) * 3, (3 * BATCH,) * 3),
        (1 << 30, (BATCH, 2 * BATCH, BATCH + 5), (BATCH, 2 * BATCH, BATCH + 5)),
        (1 << 30, (10, 10, 10), (BATCH, 0, 0)),
        (1 << 30, (0, 0, 0), (BATCH, 0, 0)),
        (0, (0, 0, 0), (BATCH, 0, 0)),
        (10, (1 << 20,) * 3, (BATCH, 0, 0)),
        (BATCH + 10, (1 << 20,) * 3, (BATCH + 10, 0, 0)),
        (2 * BATCH, (BATCH, 1 << 20, 1 << 20), (BATCH, BATCH, 0)),
        (3 * BATCH - 1, (BATCH, BATCH, 1 << 20), (BATCH, BATCH, 0)),
    ],
)
@pytest.mark.parametrize("version", [4, 12, NEWEST])
def test_the_first_batch_comes_whole_and_later_partitions_only_whole_or_not_at_all(
    client: Client,
    heavy: str,
    version: int,
    max_bytes: int,
    partition_bytes: tuple[int, int, int],
    sizes: tuple[int, int, int],
) -> None:
    """Kafka 3.9 gives the same sizes. A piece without a whole batch would stop a Java consumer."""
    where = {(heavy, index): place(0, limit) for index, limit in enumerate(partition_bytes)}
    response = client.call(fetch_request(client, where, version, max_bytes=max_bytes), version)
    assert tuple(len(data_of(answer)) for answer in answers(response)) == sizes


def test_the_first_batch_comes_whole_from_the_first_partition_that_has_any(
    client: Client, heavy: str
) -> None:
    where = {(heavy, 0): place(3, 5), (heavy, 1): place(0, 5), (heavy, 2): place(0, 5)}
    response = client.call(fetch_request(client, where, 12), 12)
    assert [len(data_of(answer)) for answer in answers(response)] == [0, BATCH, 0]


@pytest.mark.parametrize("size", [5, 40, 500])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_get_a_cut_message_and_ask_for_more(
    client: Client, topic: str, version: int, size: int
) -> None:
    assert produce(client, topic, one(b"x" * 1000, magic=0), version=1).error_code == Code.NONE
    data = data_of(fetch(client, topic, place(0, size), version=version))
    assert 0 < len(data) <= size
    assert rows(data) == []
    assert len(rows(data_of(fetch(client, topic, place(0, 2000), version=version)))) == 1


def test_the_broker_has_a_limit_of_its_own() -> None:
    with (
        EmbeddedBroker(properties={"fetch.max.bytes": "2500"}) as broker,
        Client.of(broker.bootstrap) as client,
    ):
        broker.create_topic("t")
        fill(client, "t", [one(b"x" * 1000)] * 4)
        assert len(data_of(fetch(client, "t", 0))) == 2500


# --- sessions, isolation, epochs ------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 12, NEWEST])
@pytest.mark.parametrize(("session_id", "epoch"), [(0, 0), (0, -1), (5, 0), (5, -1)])
def test_a_full_fetch_begins_a_session_if_it_may(
    client: Client, topic: str, version: int, session_id: int, epoch: int
) -> None:
    fill(client, topic, [one()])
    request = fetch_request(client, {(topic, 0): 0}, version, session_id=session_id, session_epoch=epoch)
    response = client.call(request, version)
    assert (response.error_code, bool(response.session_id)) == (Code.NONE, epoch == 0)
    assert len(rows(data_of(answers(response)[0]))) == 1


@pytest.mark.parametrize("session_id", [0, 5])
def test_a_session_that_goes_on_is_not_known(client: Client, topic: str, session_id: int) -> None:
    request = fetch_request(client, {(topic, 0): 0}, 12, session_id=session_id, session_epoch=1)
    response = client.call(request, 12)
    assert (response.error_code, response.responses) == (Code.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [4, 11, NEWEST])
def test_without_transactions_both_isolation_levels_read_the_same(
    client: Client, topic: str, version: int
) -> None:
    fill(client, topic, [one()])
    dirty = fetch(client, topic, 0, version=version, isolation_level=0)
    committed = fetch(client, topic, 0, version=version, isolation_level=1)
    assert data_of(dirty) == data_of(committed)
    assert dirty.last_stable_offset == committed.last_stable_offset == 1
    assert (dirty.aborted_transactions, committed.aborted_transactions) == (None, [])


def test_leader_epochs_of_a_reader_are_compared() -> None:
    with EmbeddedBroker(brokers=2) as broker:
        clients = [Client.of(address) for address in broker.bootstrap.split(",")]
        broker.create_topic("t")
        fill(clients[0], "t", [one(b"old"), one(b"old")])
        broker.move_leader("t", 0, 1)
        fill(clients[1], "t", [one(b"new")])

        def code(epoch: int) -> int:
            return fetch(clients[1], "t", place(0, current_leader_epoch=epoch)).error_code

        assert [code(epoch) for epoch in (-1, 0, 1, 2)] == [
            Code.NONE,
            Code.FENCED_LEADER_EPOCH,
            Code.NONE,
            Code.UNKNOWN_LEADER_EPOCH,
        ]

        def diverging(epoch: int, offset: int) -> tuple[int, int, int]:
            answer = fetch(clients[1], "t", place(offset, last_fetched_epoch=epoch))
            return answer.error_code, answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset

        assert diverging(0, 2) == (Code.NONE, -1, -1), "epoch 0 ended at 2"
        assert diverging(0, 3) == (Code.NONE, 0, 2), "the reader has what never was"
        assert diverging(1, 3) == (Code.NONE, -1, -1)
        assert diverging(2, 3)[0] == Code.OFFSET_OUT_OF_RANGE
        wrong = clients[0].call(fetch_request(clients[0], {("t", 0): 0}, 16), 16)
        (answer,) = answers(wrong)
        assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)
        assert [node.node_id for node in wrong.node_endpoints] == [1]
        for client in clients:
            client.close()


# --- formats --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_readers_get_a_format_that_they_know(client: Client, topic: str, magic: int, codec: Codec) -> None:
    produce_version = 2 if magic < 2 else 9
    for first in (0, 3):
        records = batch(*numbered(3, first=first), magic=magic, codec=codec)
        assert produce(client, topic, records, version=produce_version).base_offset == first
    for version in (0, 1, 2, 3, 4, 10, NEWEST):
        data = data_of(fetch(client, topic, 0, version=version))
        assert rows(data) == [(n, *row) for n, row in enumerate(numbered(6))], f"Fetch v{version}"
        assert max(magics(data)) <= (0 if version < 2 else 1 if version < 4 else 2)
        later = data_of(fetch(client, topic, 4, version=version))
        assert offsets(later, 4) == [4, 5], f"Fetch v{version} from the middle"


def test_format_0_is_served_as_it_is_stored(broker: EmbeddedBroker, client: Client) -> None:
    topic = created(client, "as-it-came", message_format_version="0.9.0")
    for number in range(3):
        produce(client, topic, one(b"%d" % number, magic=0), version=0)
    stored = next((broker.data_dir / f"{topic}-0").glob("*.log")).read_bytes()
    assert all(data_of(fetch(client, topic, 0, version=version)) == stored for version in (0, 3, 4, NEWEST))


def test_formats_that_are_mixed_in_one_log(client: Client) -> None:
    topic = created(client, "mixed-formats", message_format_version="0.10.2")
    for number, magic in enumerate([0, 2, 1, 0, 2]):
        produce(client, topic, one(b"%d" % number, magic=magic), version=2)
    for version in (0, 2, 4, NEWEST):
        data = data_of(fetch(client, topic, 0, version=version))
        assert [value for _, _, value in rows(data)] == [b"0", b"1", b"2", b"3", b"4"], f"Fetch v{version}"
    assert magics(data_of(fetch(client, topic, 0))) == [0, 2, 1, 0, 2]
    assert magics(data_of(fetch(client, topic, 0, version=2))) == [0, 1, 1, 0, 1]


def test_zstd_is_not_sent_in_formats_that_have_none(client: Client, topic: str) -> None:
    """From 4 on it is, as with Kafka: kafka-python 2.0 reads it by Fetch 4."""
    fill(client, topic, [batch(*numbered(3), codec=Codec.ZSTD)])
    found = [fetch(client, topic, 0, version=version) for version in (1, 3, 4, 9, 10, NEWEST)]
    refused = (Code.UNSUPPORTED_COMPRESSION_TYPE, -1, 0)
    assert [(one.error_code, one.high_watermark, len(data_of(one))) for one in found[:2]] == 2 * [refused]
    assert [offsets(data_of(answer)) for answer in found[2:]] == 4 * [[0, 1, 2]]


def test_a_topic_may_forbid_conversion(client: Client) -> None:
    topic = created(client, "unconverted", message_downconversion_enable="false")
    fill(client, topic, [one()])
    assert fetch(client, topic, 0, version=3).error_code == Code.UNSUPPORTED_VERSION
    assert fetch(client, topic, 0, version=4).error_code == Code.NONE


# --- the disk -------------------------------------------------------------------------------------------


def test_what_is_not_in_memory_is_the_same_bytes(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("cold", config={"segment.bytes": "100000"})
        fill(client, "cold", [batch(*numbered(20, 200, first=20 * n)) for n in range(50)])
        warm = [data_of(fetch(client, "cold", offset)) for offset in range(0, 1000, 333)]
        for path in tmp_path.glob("cold-0/*.log"):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        assert [data_of(fetch(client, "cold", offset)) for offset in range(0, 1000, 333)] == warm


def test_reads_that_a_thread_does_obey_the_same_limits(
    client: Client, heavy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocked(*_: object) -> bytes:
        raise BlockingIOError

    monkeypatch.setattr(SegmentFile, "read_now", blocked)
    where = {(heavy, index): place(index, BATCH + 10) for index in range(3)}
    response = client.call(fetch_request(client, where, 12), 12)
    assert [len(data_of(answer)) for answer in answers(response)] == [BATCH + 10, BATCH + 10, BATCH]
    where = {(heavy, 0): place(0, BATCH), (heavy, 1): place(0, 10)}
    response = client.call(fetch_request(client, where, 12), 12)
    assert [len(data_of(answer)) for answer in answers(response)] == [BATCH, 0]
    assert fetch(client, heavy, 9).error_code == Code.OFFSET_OUT_OF_RANGE


def test_a_partition_that_is_offline_answers_a_storage_error(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    fill(client, topic, [one()])
    partition = broker._running().cluster.store.partition(topic, 0)
    log = partition.log

    def take(it: object) -> None:
        partition.log = it  # type: ignore[assignment]

    broker._call(lambda: take(None))
    try:
        assert fetch(client, topic, 0).error_code == Code.KAFKA_STORAGE_ERROR
        assert produce(client, topic, one()).error_code == Code.KAFKA_STORAGE_ERROR
        assert fetch(client, topic, 0, 1).error_code == Code.NONE, "the others are served"
    finally:
        broker._call(lambda: take(log))
