"""Apache Kafka 3.9 beside our broker: the same answers, and one data directory for both.

Kafka writes a directory; our broker opens it, serves it and writes to it; Kafka opens it again. What Kafka
had written of a group is also what we write of it, byte by byte but for the times.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from confluent_kafka import Producer

from ottla.broker.embedded import EmbeddedBroker
from ottla.log.batch_header import whole_entries
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.records.compression import Codec
from ottla.records.messages import MessageSet, to_messages
from ottla.records.reader import decode
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersTopic
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProducePartitionResponse
from ottla.wire.api.write_txn_markers import WritableMarker, WritableMarkerTopic, WriteTxnMarkersRequest
from tests.broker.groups.group_calls import Member, commit, committed, deleted, find
from tests.broker.handlers.admin.calls import create
from tests.broker.handlers.admin.calls import topic as new_topic
from tests.broker.traffic import answers as partitions_of
from tests.broker.traffic import (
    data_of,
    fetch,
    fetch_request,
    numbered,
    offset_at,
    one,
    place,
    produce,
    read_all,
    topic_id,
)
from tests.broker.traffic import rows as rows_of
from tests.broker.wire_client import Client
from tests.kafka_programs import dump_log, kafka_jars
from tests.log.record_sets import NOW, batch, joined
from tools.peers import KAFKA_3, RealKafka, Unavailable

PRODUCE = 11  # the newest that 3.9 knows
OFFSETS = "__consumer_offsets"
WAIT_S = 120.0
DIFFERENT = {(2, "zstd")}  # Kafka takes it, and no client that can write it speaks version 2
T = TypeVar("T")
Rows = dict[bytes, bytes | None]


def eventually(ask: Callable[[], T]) -> T:
    """Kafka answers with errors until its partitions have leaders."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except (AssertionError, KafkaError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def send(client: Client, topic: str, records: bytearray, partition: int = 0) -> int:
    answer = produce(client, topic, records, partition, version=PRODUCE)
    assert answer.error_code == Code.NONE, answer
    return answer.base_offset


def new_producer(client: Client) -> int:
    got = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
    assert got.error_code == Code.NONE, got
    return got.producer_id


def stamped(sequence: int, producer_id: int) -> bytearray:
    now = time.time_ns() // 1_000_000
    return batch(
        *numbered(2), timestamp=now, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )


def use_groups(client: Client) -> None:
    """The same commits, whoever coordinates: two that stay, one that is taken back."""
    eventually(lambda: find(client, "g"))

    def committed_all() -> None:
        places = {("plain", 0): 2, ("plain", 1): 7}
        codes = commit(client, "g", places, committed_metadata="näher", committed_leader_epoch=3)
        assert set(codes.values()) == {Code.NONE}, codes

    eventually(committed_all)
    commit(client, "gone", {("plain", 0): 1})
    assert deleted(client, "gone") == {"gone": Code.NONE}
    member = Member(client, "members", instance="host-1")
    member.enter_alone()
    assert member.commit("plain", 5) == Code.NONE


def group_rows(client: Client) -> Rows:
    """The newest value of each key in the offsets topic."""
    rows: Rows = {}
    for partition in range(5):
        data = data_of(fetch(client, OFFSETS, 0, partition, version=12))
        for piece in MessageSet(data).decoded() if data else ():
            for row in to_messages(piece.batch):
                rows[bytes(row.message.key or b"")] = row.message.value
    return rows


class CommittedView(NamedTuple):
    """What a reader of committed data is told of a partition with transactions."""

    last_stable_offset: int
    high_watermark: int
    aborted: list[tuple[int, int]]
    batches: list[tuple[int, int, int]]  # first and last offset, attributes
    values: list[bytes | None]


def use_transactions(bootstrap: str) -> None:
    """One that is committed, one aborted, one left open, and records behind and between them."""

    def send(producer: Producer, *values: str) -> None:
        for value in values:
            producer.produce("decided", value, partition=0)
        assert producer.flush(WAIT_S) == 0

    plain = Producer({"bootstrap.servers": bootstrap})
    first, second, third = (
        Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) for name in ("a", "b", "c")
    )
    for producer in (first, second, third):
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
    send(plain, "0")
    send(first, "committed")
    send(second, "aborted", "aborted too")
    first.commit_transaction(WAIT_S)
    send(plain, "1")
    second.abort_transaction(WAIT_S)
    first.begin_transaction()
    send(first, "committed again")
    send(third, "open")
    first.commit_transaction(WAIT_S)
    send(plain, "behind")


def committed_view(client: Client, start: int = 0) -> CommittedView:
    answer = fetch(client, "decided", start, version=12, isolation_level=1)
    assert answer.error_code == Code.NONE, answer
    aborted = answer.aborted_transactions or []
    values = decode(data_of(answer), aborted=aborted).batch.column("value").to_pylist()
    return CommittedView(
        answer.last_stable_offset,
        answer.high_watermark,
        [(item.producer_id, item.first_offset) for item in aborted],
        [
            (item.base_offset, item.last_offset, item.attributes)
            for item in whole_entries(memoryview(data_of(answer)))
        ],
        values,
    )


class Written(NamedTuple):
    """What Kafka left, and what it said of it."""

    directory: Path
    ids: dict[str, bytes]
    producer_id: int
    groups: Rows
    answers: dict[str, object]
    transactions: CommittedView


def asked(client: Client) -> dict[str, object]:
    """Questions with answers that are Kafka's to decide, to a broker of either kind."""
    create(
        client,
        new_topic("timed", configs={"segment.bytes": "1000"}),
        new_topic("heavy", 3),
        new_topic("strict", configs={"max.message.bytes": "200", "cleanup.policy": "compact"}),
    )
    for number in range(6):
        records = one(b"x" * 400, timestamp=NOW + 10 * number)
        eventually(lambda records=records: send(client, "timed", records))
    for partition in range(3):
        eventually(lambda partition=partition: send(client, "heavy", one(b"x" * 1000), partition))
        send(client, "heavy", one(b"x" * 1000), partition)
    eventually(lambda: send(client, "strict", one()))
    return {**_times(client), **_sizes(client), **_refusals(client), **_old_formats(client)}


def _old_formats(client: Client) -> dict[str, object]:
    """What becomes of messages of formats 0 and 1, and how they are read by old and new clients."""
    rows = [(b"k", b"v"), (None, b"w"), (b"k", None)]
    packed = batch(*rows, magic=1, codec=Codec.GZIP)
    plain = {
        magic: joined(batch(row, magic=magic, timestamp=NOW - n) for n, row in enumerate(rows))
        for magic in (0, 1)
    }
    sets = {
        **{f"plain {magic}": records for magic, records in plain.items()},
        **{
            f"{codec.label} {magic}": batch(*rows, magic=magic, codec=codec)
            for magic in (0, 1)
            for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
        },
        "two packed": packed + packed,
        "plain and packed": plain[1] + packed,
        "two formats": plain[0] + plain[1],
        "too large": batch((None, b"x" * 5000), (None, b"y" * 5000), magic=1, codec=Codec.GZIP),
        "too many": joined(batch((None, b"x" * 900), magic=1) for _ in range(12)),
    }
    found: dict[str, object] = {}
    for number, (name, records) in enumerate(sets.items()):
        topic = f"old-{number}"
        create(client, new_topic(topic, configs={"max.message.bytes": "10000"}))
        answer = eventually(lambda: _settled(produce(client, topic, bytearray(records), version=2)))  # noqa: B023
        found[name] = (
            answer.error_code,
            answer.base_offset,
            *(_as_stored(data_of(fetch(client, topic, 0, version=version))) for version in (1, 3, 12)),
        )
    return found


def _settled(answer: ProducePartitionResponse) -> ProducePartitionResponse:
    assert answer.error_code not in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_LEADER_OR_FOLLOWER)
    return answer


def _as_stored(data: bytes) -> object:
    """The entries, without what depends on a library for compression, and their records."""
    entries = [
        (header.magic, header.attributes, header.base_offset, header.base_timestamp, header.max_timestamp)
        for header in whole_entries(memoryview(data))
    ]
    return entries, rows_of(data)


def _times(client: Client) -> dict[str, object]:
    """ListOffsets of every version that both have."""
    found: dict[str, object] = {}
    for version in range(1, 10):
        for time_ in (-1, -2, -3, -4, -5, -6, 0, NOW + 5, NOW + 50, NOW + 51):
            answer = offset_at(client, "timed", time_, version=version)
            fields = (answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch)
            found[f"ListOffsets v{version} {time_}"] = fields
    for time_, count in ((-1, 100), (-1, 1), (-2, 9), (1 << 50, 2), (0, 9)):
        answer = offset_at(client, "timed", time_, version=0, count=count)
        found[f"ListOffsets v0 {time_} {count}"] = (answer.error_code, answer.old_style_offsets)
    return found


def _sizes(client: Client) -> dict[str, object]:
    """How many bytes of three partitions come, and from where."""
    found: dict[str, object] = {}
    for version in (4, 11, 12, 17):
        for total, limits in (
            (1 << 30, (10, 10, 10)),
            (1 << 30, (1500, 1071, 5)),
            (1500, (1 << 20, 1 << 20, 1 << 20)),
            (0, (0, 0, 0)),
            (2500, (1200, 1 << 20, 1 << 20)),
        ):
            where = {("heavy", index): place(0, limit) for index, limit in enumerate(limits)}
            response = client.call(fetch_request(client, where, version, max_bytes=total), version)
            sizes = [len(data_of(answer)) for answer in partitions_of(response)]
            found[f"Fetch v{version} {total} {limits}"] = sizes
        for offset in (0, 1, 2, 3, -1):
            answer = fetch(client, "heavy", offset, version=version)
            fields = (answer.error_code, answer.high_watermark, answer.log_start_offset, len(data_of(answer)))
            found[f"Fetch v{version} from {offset}"] = fields
        request = fetch_request(client, {("heavy", 0): 0}, version, session_epoch=1)
        found[f"Fetch v{version} session"] = client.call(request, version).error_code
    return found


def _refusals(client: Client) -> dict[str, object]:
    """Errors of Produce."""
    damaged = one()
    damaged[-1] ^= 1
    sets = {
        "damaged": damaged,
        "too large": one(b"x" * 300),
        "no key": one(b"v", None),
        "two batches": one() + one(),
        "old format": one(magic=1),
        "zstd": one(codec=Codec.ZSTD),
        "empty": bytearray(),
    }
    found: dict[str, object] = {}
    for version in (2, 3, 6, 7, 9, 11):
        for name, records in sets.items():
            if (version, name) not in DIFFERENT:
                answer = produce(client, "strict", records, version=version)
                found[f"Produce v{version} {name}"] = (answer.error_code, answer.base_offset)
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    path = tmp_path_factory.mktemp("kafka")
    try:
        kafka = RealKafka(KAFKA_3, data_dir=path)
        kafka.start()
    except Unavailable as reason:
        pytest.skip(f"Kafka {KAFKA_3}, whose data directory is taken over: {reason}")
    try:
        with Client.of(kafka.bootstrap) as client:
            create(client, new_topic("plain", 2), new_topic("packed"), new_topic("decided"))
            for partition in range(2):
                eventually(lambda partition=partition: send(client, "plain", one(b"0"), partition))
            for codec in Codec:
                eventually(lambda codec=codec: send(client, "packed", batch(*numbered(3), codec=codec)))
            producer_id = eventually(lambda: new_producer(client))
            assert send(client, "plain", stamped(0, producer_id)) == 1
            use_groups(client)
            ids = {name: topic_id(client, name) for name in ("plain", "packed", OFFSETS)}
            groups = group_rows(client)
            use_transactions(kafka.bootstrap)
            ending = committed_view(client)
            answers = asked(client)
    finally:
        kafka.close()
    return Written(path, ids, producer_id, groups, answers, ending)


@pytest.fixture
def ours(written: Written, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Our broker on a copy of the directory."""
    shutil.copytree(written.directory, tmp_path, dirs_exist_ok=True)
    with EmbeddedBroker(tmp_path / "data", properties={"node.id": "1"}) as broker:
        yield broker


def test_topics_records_and_groups_are_taken_over(written: Written, ours: EmbeddedBroker) -> None:
    with Client.of(ours.bootstrap) as client:
        assert {name: topic_id(client, name) for name in written.ids} == written.ids
        assert [value for _, value in read_all(client, "packed")] == [value for _, value in numbered(3)] * 5
        find(client, "g")
        assert committed(client, "g") == {("plain", 0): 2, ("plain", 1): 7}
        assert committed(client, "gone") == {}
        assert committed(client, "members") == {("plain", 0): 5}
        names = ours._running().cluster.store.catalog.topics
        assert "__cluster_metadata" not in names, "the log of the controllers is no topic"


def test_a_producer_goes_on_where_it_was(written: Written, ours: EmbeddedBroker) -> None:
    with Client.of(ours.bootstrap) as client:
        assert send(client, "plain", stamped(0, written.producer_id)) == 1, "known, and not stored again"
        assert send(client, "plain", stamped(2, written.producer_id)) == 3
        assert new_producer(client) > written.producer_id


def test_transactions_are_taken_over(written: Written, ours: EmbeddedBroker) -> None:
    theirs = written.transactions
    assert theirs.values == [b"0", b"committed", b"1", b"committed again"]
    with Client.of(ours.bootstrap) as client:
        assert committed_view(client) == theirs
        assert theirs.last_stable_offset < theirs.high_watermark
        assert end_of_open_one(client, is_commit=True) == Code.NONE
        view = committed_view(client)
        assert view.values == [*theirs.values, b"open", b"behind"]
        assert view.last_stable_offset == view.high_watermark == theirs.high_watermark + 1
        assert view.aborted == theirs.aborted


def end_of_open_one(client: Client, *, is_commit: bool) -> int:
    """End the transaction that Kafka left open, as a tool for hanging ones does; the error."""
    asked_for = DescribeProducersRequest(
        topics=[DescribeProducersTopic(name="decided", partition_indexes=[0])]
    )
    (partition,) = client.call(asked_for, 0).topics[0].partitions
    (hanging,) = [item for item in partition.active_producers if item.current_txn_start_offset >= 0]
    marker = WritableMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        coordinator_epoch=max(hanging.coordinator_epoch, 0),
        transaction_result=is_commit,
        topics=[WritableMarkerTopic(name="decided", partition_indexes=[0])],
    )
    response = client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
    return response.markers[0].topics[0].partitions[0].error_code


def test_another_node_id_is_refused(written: Written, tmp_path: Path) -> None:
    shutil.copytree(written.directory, tmp_path, dirs_exist_ok=True)
    with pytest.raises(Exception, match=r"node\.id=1, not 2"):
        EmbeddedBroker(tmp_path / "data", properties={"node.id": "2"}).start()


def test_kafka_takes_it_back_with_what_we_have_written(
    written: Written, ours: EmbeddedBroker, tmp_path: Path
) -> None:
    with Client.of(ours.bootstrap) as client:
        send(client, "plain", stamped(2, written.producer_id))
        send(client, "packed", one(b"ours"))
        find(client, "g")
        commit(client, "g", {("plain", 0): 4})
        assert end_of_open_one(client, is_commit=False) == Code.NONE
        transactions = committed_view(client)
    ours.stop()
    with RealKafka(KAFKA_3, data_dir=tmp_path) as kafka, Client.of(kafka.bootstrap) as client:
        assert eventually(lambda: read_all(client, "packed"))[-1][1] == b"ours"
        assert eventually(lambda: send(client, "plain", stamped(2, written.producer_id))) == 3
        assert eventually(lambda: send(client, "plain", stamped(4, written.producer_id))) == 5
        eventually(lambda: find(client, "g"))
        assert eventually(lambda: committed(client, "g")) == {("plain", 0): 4, ("plain", 1): 7}
        assert eventually(lambda: committed_view(client)) == transactions
        assert transactions.values == [*written.transactions.values, b"behind"]
        assert len(transactions.aborted) == 2


def test_the_same_questions_have_the_same_answers(written: Written, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        answers = asked(client)
    assert {name: answer for name, answer in answers.items() if written.answers[name] != answer} == {}
    assert answers.keys() == written.answers.keys()


# --- the offsets topic ----------------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of ours from nothing, used as Kafka was."""
    properties = {"offsets.topic.num.partitions": "5"}
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("plain", 2)
        with Client.of(broker.bootstrap) as client:
            use_groups(client)
        yield broker


def test_offsets_are_stored_as_kafka_stores_them(written: Written, fresh: EmbeddedBroker) -> None:
    """Keys are the same bytes. Values are, but for the commit's time at the end of an offset.

    One key is ours alone: a group that never had members is buried like the others, as with Kafka 4.
    """
    with Client.of(fresh.bootstrap) as client:
        stored = group_rows(client)
    assert set(stored) - set(written.groups) == {b"\0\2\0\4gone"}
    for key, theirs in written.groups.items():
        value = stored[key]
        assert (value is None) == (theirs is None), key
        if value is not None and theirs is not None and key[:2] == b"\0\1":
            assert value[:-8] == theirs[:-8], key


def test_kafka_decodes_what_we_store(fresh: EmbeddedBroker) -> None:
    kafka_jars(KAFKA_3)
    fresh.stop()
    text = ""
    for path in sorted(fresh.data_dir.glob(f"{OFFSETS}-*/*.log")):
        if path.stat().st_size:
            text += dump_log(KAFKA_3, "--offsets-decoder", "--files", path)
    assert "isvalid: false" not in text
    offset = r'"group":"g","topic":"plain","partition":1'
    assert offset in text, text
    assert '"offset":7,"leaderEpoch":3,"metadata":"näher"' in text, text
    assert '"group":"members"' in text
    assert '"groupInstanceId":"host-1"' in text
