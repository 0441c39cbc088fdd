"""Produce over a socket: every version, format, codec and refusal; what is refused leaves nothing behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.log.batch_header import whole_entries
from ottla.model.error_codes import Code
from ottla.records.compression import Codec
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from ottla.wire.declared_class import replaced
from tests.broker.faults.batches import sealed
from tests.broker.handlers.admin.calls import created
from tests.broker.real_clients import read
from tests.broker.traffic import (
    data_of,
    fetch,
    magics,
    numbered,
    offset_at,
    one,
    produce,
    produce_request,
    read_all,
    topic_id,
)
from tests.broker.wire_client import Client
from tests.log.record_sets import batch, joined

CODECS = {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 2: [0, 1, 2, 3, 4]}
LOG_START_SINCE = 5


def values(client: Client, topic: str, partition: int = 0) -> list[bytes | None]:
    return [value for _, value in read_all(client, topic, partition)]


def codes(response: ProduceResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name, item.index): item.error_code
        for topic in response.responses
        for item in topic.partition_responses
    }


# --- what is taken --------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(14))
def test_every_version_answers_the_offsets(client: Client, topic: str, version: int, acks: int) -> None:
    for base in (0, 3):
        answer = produce(client, topic, batch(*numbered(3)), version=version, acks=acks)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, base)
        assert answer.log_append_time_ms == -1
        assert answer.log_start_offset == (0 if version >= LOG_START_SINCE else -1)
    assert values(client, topic) == 2 * [value for _, value in numbered(3)]


@pytest.mark.parametrize(("magic", "codec"), [(m, Codec(c)) for m, some in CODECS.items() for c in some])
def test_every_format_and_codec_comes_back(client: Client, topic: str, magic: int, codec: Codec) -> None:
    version = 7 if magic == 2 else 2
    assert (
        produce(client, topic, batch(*numbered(4), magic=magic, codec=codec), version=version).error_code == 0
    )
    assert values(client, topic) == [value for _, value in numbered(4)]
    assert offset_at(client, topic, -1).offset == 4


def test_acks_0_has_no_answer_and_is_appended_in_order(client: Client, topic: str) -> None:
    for number in range(5):
        client.send(produce_request(client, {(topic, 0): one(b"%d" % number)}, 9, 0), 9)
    # The next answer is of the next call that has one.
    assert produce(client, topic, one(b"last")).base_offset == 5
    assert values(client, topic) == [b"0", b"1", b"2", b"3", b"4", b"last"]


@pytest.mark.parametrize("version", range(3))
def test_an_empty_set_is_answered_at_once_in_versions_that_allow_it(
    client: Client, topic: str, version: int
) -> None:
    answer = produce(client, topic, b"", version=version)
    assert (answer.error_code, answer.base_offset) == (Code.NONE, -1)
    assert offset_at(client, topic, -1).offset == 0


def test_several_old_messages_in_one_set_get_offsets_in_a_row(client: Client, topic: str) -> None:
    sets = [batch((None, b"%d" % number), magic=1) for number in range(3)]
    assert produce(client, topic, joined(sets), version=2).base_offset == 0
    assert read_all(client, topic) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_librdkafka_reads_what_came_in_old_formats() -> None:
    """Of formats 0 and 1 in Fetch 12 and later, its versions 2.5 to 2.15 read null, or nothing."""
    rows = [(b"k%d" % number, b"v%d" % number) for number in range(3)]
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("old")
        for magic in (0, 1):
            sets = [batch(*rows, magic=magic, codec=Codec(codec)) for codec in CODECS[magic] if codec]
            for records in (joined(batch(row, magic=magic) for row in rows), *sets):
                assert produce(client, "old", records, version=2).error_code == Code.NONE
        count = offset_at(client, "old", -1).offset
        assert magics(data_of(fetch(client, "old", 0))) == [2] * (count // 3)
        assert read(broker.bootstrap, "old", count) == [value for _, value in rows] * (count // 3)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_many_old_messages_become_one_batch(client: Client, topic: str, codec: Codec) -> None:
    """So many that a thread makes the batch."""
    rows = numbered(3000, 100)
    sent = [batch(*rows, magic=1, codec=codec)] if codec else [batch(row, magic=1) for row in rows]
    for version, code in ((2, Code.NONE), (3, Code.INVALID_RECORD)):
        assert produce(client, topic, joined(sent), version=version).error_code == code
    (header,) = whole_entries(memoryview(data_of(fetch(client, topic, 0))))
    assert (header.magic, header.codec, header.record_count) == (2, codec, 3000)
    assert values(client, topic) == [value for _, value in rows]


def test_a_set_of_old_messages_may_be_too_large_for_a_batch(client: Client) -> None:
    name = created(client, "too-large-for-a-batch", max_message_bytes="50000")
    fitting, larger = (joined(one(b"x" * 900, magic=0) for _ in range(count)) for count in (50, 60))
    assert produce(client, name, fitting, version=1).error_code == Code.NONE
    assert produce(client, name, larger, version=1).error_code == Code.MESSAGE_TOO_LARGE
    assert len(values(client, name)) == 50


def test_a_topic_of_an_old_format_version_keeps_old_formats(broker: EmbeddedBroker, client: Client) -> None:
    for version, kept in (("0.9.0", 0), ("0.10.2-IV0", 0), ("0.11.0", 2), ("2.8", 2)):
        name = created(client, f"format-{version}", message_format_version=version)
        produce(client, name, one(magic=0), version=0)
        assert magics(data_of(fetch(client, name, 0))) == [kept], version


@pytest.mark.parametrize("magic", [0, 1])
def test_a_large_compressed_message_becomes_format_2_in_such_a_topic_too(client: Client, magic: int) -> None:
    """It is converted in a thread. Numbering it on the loop, where offsets are known, takes too long."""
    name = created(client, f"large-{magic}", message_format_version="0.9.0")
    for rows in (numbered(10, 100), numbered(3000, 100)):
        produce(client, name, batch(*rows, magic=magic, codec=Codec.GZIP), version=2)
    assert magics(data_of(fetch(client, name, 0))) == [magic, 2]
    wanted = [value for count in (10, 3000) for _, value in numbered(count, 100)]
    assert values(client, name) == wanted
    old = data_of(fetch(client, name, 10, version=0))
    assert set(magics(old)) == {0}


def test_a_partial_message_at_the_end_of_an_old_set_is_dropped(client: Client, topic: str) -> None:
    whole = batch((None, b"whole"), magic=0)
    assert produce(client, topic, whole + whole[:20], version=1).error_code == Code.NONE
    assert values(client, topic) == [b"whole"]


def test_pipelined_requests_are_answered_in_order(client: Client, topic: str) -> None:
    for number in range(50):
        client.send(produce_request(client, {(topic, number % 3): one(b"%d" % number)}, 12), 12)
    offsets = []
    for _ in range(50):
        response = client.receive()
        assert isinstance(response, ProduceResponse)
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert offsets == [number // 3 for number in range(50)]


@pytest.mark.parametrize("version", [2, 8, 9, 13])
def test_log_append_time(client: Client, version: int) -> None:
    topic = created(client, f"stamped-{version}", message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    answer = produce(client, topic, one(timestamp=12345), version=version)
    assert before <= answer.log_append_time_ms <= time.time_ns() // 1_000_000
    assert offset_at(client, topic, -3).timestamp == answer.log_append_time_ms
    assert offset_at(client, topic, 12346).offset == 0, "the producer's time is gone"


# --- several partitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 5, 8, 9, 12])
def test_one_of_several_fails_and_the_others_are_kept(
    broker: EmbeddedBroker, client: Client, version: int
) -> None:
    names = [f"several-{version}-{index}" for index in range(2)]
    for name in names:
        broker.create_topic(name, 2)
    damaged = one()
    damaged[-1] ^= 1
    sets = {
        (names[0], 0): one(b"a"),
        (names[0], 1): damaged,
        (names[1], 1): one(b"b"),
        (names[1], 7): one(b"c"),
        (f"nowhere-{version}", 0): one(b"d"),
    }
    response = client.call(produce_request(client, sets, version), version)
    assert codes(response) == {
        (names[0], 0): Code.NONE,
        (names[0], 1): Code.CORRUPT_MESSAGE,
        (names[1], 1): Code.NONE,
        (names[1], 7): Code.UNKNOWN_TOPIC_OR_PARTITION,
        (f"nowhere-{version}", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (values(client, names[0]), values(client, names[0], 1)) == ([b"a"], [])
    assert (values(client, names[1]), values(client, names[1], 1)) == ([], [b"b"])


def test_a_request_is_answered_if_only_what_a_thread_has_checked_is_refused(
    client: Client, topic: str
) -> None:
    """The rest of it was written in an earlier turn, and nobody else writes."""
    damaged = joined(one(b"x" * 1000, magic=0) for _ in range(100))
    damaged[-1] ^= 1
    response = client.call(produce_request(client, {(topic, 0): one(b"a"), (topic, 1): damaged}, 2), 2)
    assert codes(response) == {(topic, 0): Code.NONE, (topic, 1): Code.CORRUPT_MESSAGE}
    assert (values(client, topic), values(client, topic, 1)) == ([b"a"], [])


def test_topics_by_id(client: Client, topic: str) -> None:
    known = ProduceTopic(
        topic_id=topic_id(client, topic), partition_data=[ProducePartition(index=1, records=one())]
    )
    unknown = ProduceTopic(topic_id=b"?" * 16, partition_data=[ProducePartition(index=0, records=one())])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[unknown, known])
    first, second = client.call(request, 13).responses
    assert (first.topic_id, first.partition_responses[0].error_code) == (b"?" * 16, Code.UNKNOWN_TOPIC_ID)
    assert (second.topic_id, second.partition_responses[0].base_offset) == (known.topic_id, 0)


def test_an_id_of_a_topic_that_was_made_anew_is_unknown(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    stale = produce_request(client, {(topic, 0): one()}, 13)
    broker.delete_topic(topic)
    broker.create_topic(topic, 3)
    (answer,) = client.call(stale, 13).responses[0].partition_responses
    assert answer.error_code == Code.UNKNOWN_TOPIC_ID
    assert produce(client, topic, one()).base_offset == 0


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 9, 13])
@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist(client: Client, topic: str, version: int, acks: int) -> None:
    answer = produce(client, topic, one(), version=version, acks=acks)
    assert (answer.error_code, answer.base_offset) == (Code.INVALID_REQUIRED_ACKS, -1)
    assert values(client, topic) == []


@pytest.mark.parametrize("records", [b"", None])
@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_versions_with_batches_want_one(
    client: Client, topic: str, version: int, records: bytes | None
) -> None:
    assert produce(client, topic, records, version=version).error_code == Code.INVALID_RECORD


@pytest.mark.parametrize("version", [2, 3, 13])
def test_two_batches_are_one_too_many(client: Client, topic: str, version: int) -> None:
    assert produce(client, topic, one() + one(), version=version).error_code == Code.INVALID_RECORD
    assert values(client, topic) == []


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [3, 13])
def test_old_formats_end_with_version_2(client: Client, topic: str, version: int, magic: int) -> None:
    assert produce(client, topic, one(magic=magic), version=version).error_code == Code.INVALID_RECORD


def test_zstd_needs_version_7(client: Client, topic: str) -> None:
    squeezed = one(codec=Codec.ZSTD)
    assert produce(client, topic, squeezed, version=6).error_code == Code.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, squeezed, version=7).base_offset == 0


@pytest.mark.parametrize(("version", "magic"), [(2, 0), (2, 1), (3, 2), (6, 2)])
def test_a_topic_may_compress_by_zstd_what_old_producers_send(
    client: Client, version: int, magic: int
) -> None:
    """Also what a thread compresses: it was refused as zstd of a version that has none."""
    topic = created(client, f"squeezed-{version}-{magic}", compression_type="zstd")
    rows = numbered(300, size=100)
    assert produce(client, topic, batch(*rows, magic=magic), version=version).base_offset == 0
    (header,) = whole_entries(memoryview(data_of(fetch(client, topic, 0))))
    assert header.codec == Codec.ZSTD
    assert values(client, topic) == [value for _, value in rows]


@pytest.mark.parametrize("version", [2, 5, 9, 13])
def test_a_damaged_batch_is_refused_and_named(client: Client, topic: str, version: int) -> None:
    damaged = one()
    damaged[-2] ^= 0x40
    answer = produce(client, topic, damaged, version=version)
    assert (answer.error_code, answer.base_offset) == (Code.CORRUPT_MESSAGE, -1)
    if version >= 8:
        assert "checksum" in (answer.error_message or "")
    assert values(client, topic) == []


def test_a_batch_above_the_limit(client: Client) -> None:
    topic = created(client, "limited", max_message_bytes="200")
    assert produce(client, topic, one(b"x" * 200)).error_code == Code.MESSAGE_TOO_LARGE
    assert produce(client, topic, one(b"x" * 100)).error_code == Code.NONE


def test_a_batch_above_a_segment(client: Client) -> None:
    topic = created(client, "short-segments", segment_bytes="150")
    assert produce(client, topic, one(b"x" * 200)).error_code == Code.RECORD_LIST_TOO_LARGE
    assert produce(client, topic, one(b"x" * 20)).error_code == Code.NONE


def test_a_compacted_topic_wants_keys(client: Client) -> None:
    topic = created(client, "keyed", cleanup_policy="compact")
    assert produce(client, topic, one(b"v", None)).error_code == Code.INVALID_RECORD
    assert produce(client, topic, one(b"v", b"k")).error_code == Code.NONE


def test_the_offsets_topic_is_not_written_by_clients(broker: EmbeddedBroker, client: Client) -> None:
    broker.create_topic("__consumer_offsets", 3)
    answer = produce(client, "__consumer_offsets", one(), version=9)
    assert answer.error_code == Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("how", ["corrupt", "unknown topic", "unknown partition"])
def test_an_error_with_acks_0_closes_the_connection(
    broker: EmbeddedBroker, client: Client, topic: str, how: str
) -> None:
    records = one()
    if how == "corrupt":
        records[-1] ^= 1
    where = {"unknown topic": ("nowhere", 0), "unknown partition": (topic, 9)}.get(how, (topic, 0))
    with Client.of(broker.bootstrap) as doomed:
        doomed.send(produce_request(client, {where: records, (topic, 1): one(b"good")}, 9, 0), 9)
        with pytest.raises(ConnectionError):  # on the way out or on the way back
            produce(doomed, topic, one(), version=9)
    assert values(client, topic) == []
    assert values(client, topic, 1) == [b"good"], "what was sound is kept, as with Kafka"


# --- replicas and leaders -------------------------------------------------------------------------------


def test_min_insync_replicas_counts_for_acks_all_only() -> None:
    with EmbeddedBroker(brokers=2) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("two", replication_factor=2, config={"min.insync.replicas": "2"})
        broker.create_topic("one", replication_factor=1, config={"min.insync.replicas": "2"})
        assert produce(client, "two", one(), acks=-1).error_code == Code.NONE
        assert produce(client, "one", one(), acks=-1).error_code == Code.NOT_ENOUGH_REPLICAS
        assert produce(client, "one", one(), acks=1).error_code == Code.NONE
        broker.stop_broker(1)
        assert produce(client, "two", one(), acks=-1).error_code == Code.NOT_ENOUGH_REPLICAS
        assert produce(client, "two", one(), acks=1).error_code == Code.NONE


@pytest.mark.parametrize("version", [2, 9, 10, 12, 13])
def test_the_wrong_broker_tells_who_leads(version: int) -> None:
    with EmbeddedBroker(brokers=2) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("led", 2)
        broker.move_leader("led", 0, 1)
        broker.move_leader("led", 1, 0)
        sets = {("led", 0): one(), ("led", 1): one()}
        response = client.call(produce_request(client, sets, version), version)
        wrong, right = response.responses[0].partition_responses
        assert (wrong.error_code, right.error_code) == (Code.NOT_LEADER_OR_FOLLOWER, Code.NONE)
        if version < 10:
            return
        assert (wrong.current_leader.leader_id, wrong.current_leader.leader_epoch) == (1, 1)
        assert right.current_leader.leader_id == -1
        (other,) = response.node_endpoints
        assert (other.node_id, f"{other.host}:{other.port}") == (1, broker.bootstrap.split(",")[1])


# --- idempotent producers -------------------------------------------------------------------------------


class Producer:
    """One that numbers its batches."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client, self._topic = client, topic
        got = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        assert (got.error_code, got.producer_epoch) == (Code.NONE, 0)
        self.id = got.producer_id

    def batch(self, sequence: int, count: int = 1, epoch: int = 0) -> bytearray:
        stamp: dict[str, Any] = {"producer_id": self.id, "producer_epoch": epoch, "base_sequence": sequence}
        # With a time of today: producers are forgotten by the time of their records.
        return batch(*numbered(count, first=sequence), timestamp=time.time_ns() // 1_000_000, **stamp)

    def send(
        self, sequence: int, count: int = 1, epoch: int = 0, client: Client | None = None
    ) -> tuple[int, int]:
        """The error and the offset."""
        answer = produce(client or self._client, self._topic, self.batch(sequence, count, epoch))
        return answer.error_code, answer.base_offset


def test_a_batch_that_is_sent_again_is_acked_and_stored_once(client: Client, topic: str) -> None:
    producer = Producer(client, topic)
    assert [producer.send(0, 2), producer.send(2)] == [(0, 0), (0, 2)]
    assert [producer.send(0, 2), producer.send(2)] == [(0, 0), (0, 2)], "the offsets of the first time"
    assert producer.send(3) == (0, 3)
    assert len(values(client, topic)) == 4


def test_a_gap_in_the_sequence_is_refused(client: Client, topic: str) -> None:
    producer = Producer(client, topic)
    assert producer.send(0) == (0, 0)
    assert producer.send(2) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert producer.send(1) == (0, 1)


def test_an_old_duplicate_is_out_of_order(client: Client, topic: str) -> None:
    producer = Producer(client, topic)
    for sequence in range(6):
        assert producer.send(sequence) == (0, sequence)
    assert producer.send(1) == (0, 1), "the last five are known"
    assert producer.send(0) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_new_epoch_begins_at_0_and_fences_the_old_one(client: Client, topic: str) -> None:
    producer = Producer(client, topic)
    assert producer.send(0, 3) == (0, 0)
    assert producer.send(3, epoch=1) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert producer.send(0, epoch=1) == (0, 3)
    assert producer.send(3, epoch=0) == (Code.INVALID_PRODUCER_EPOCH, -1)


def test_duplicates_within_one_turn(client: Client, topic: str) -> None:
    """All in one write, so that the broker sees them at once: the copy before is not written yet."""
    producer = Producer(client, topic)
    sequences = [0, 0, 1, 0, 1, 2]
    for sequence in sequences:
        client.send(produce_request(client, {(topic, 0): producer.batch(sequence)}, 9), 9)
    offsets = []
    for _ in sequences:
        response = client.receive()
        assert isinstance(response, ProduceResponse)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == Code.NONE
        offsets.append(answer.base_offset)
    assert offsets == sequences
    assert len(values(client, topic)) == 3


def test_producers_are_known_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("kept")
        with Client.of(broker.bootstrap) as client:
            producer = Producer(client, "kept")
            for sequence in range(0, 10, 2):
                assert producer.send(sequence, 2) == (0, sequence)
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            for sequence in range(0, 10, 2):
                assert producer.send(sequence, 2, client=client) == (0, sequence), "as the first time"
            assert producer.send(11, client=client)[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert producer.send(10, client=client) == (0, 10)
            assert Producer(client, "kept").id > producer.id, "no id is given twice"
            assert len(values(client, "kept")) == 11


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_transactions_that_nobody_began_are_refused(client: Client, topic: str, producer_id: int) -> None:
    stamp: dict[str, Any] = (
        {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    )
    records = one(**stamp)
    records[22] |= 0x10  # transactional
    for version, transactional_id in ((9, "t"), (13, None)):
        request = produce_request(client, {(topic, 0): sealed(records)}, version)
        request = replaced(request, transactional_id=transactional_id)
        (answer,) = client.call(request, version).responses[0].partition_responses
        expected = Code.INVALID_PRODUCER_ID_MAPPING if producer_id >= 0 else Code.INVALID_RECORD
        if transactional_id is None:  # nobody may, whatever the batch is
            expected = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (answer.error_code, answer.base_offset) == (expected, -1)
    assert values(client, topic) == []
    assert fetch(client, topic, 0).last_stable_offset == 0
