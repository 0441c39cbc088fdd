"""Leaders that move, brokers that restart, damaged records: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ottla import CorruptRecord, EmbeddedBroker
from ottla.consumer.partition import replay
from ottla.fetching.fetch_errors import Reaction
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.records.expansion import RECORDS_MAX
from tests.consumer.partition.conftest import Consumers
from tests.consumer.partition.rows import checked, column, offsets
from tests.fetching.traffic import Writer
from tests.naive import record_set

PLACES = [TopicAndPartition("t", number) for number in range(3)]


@pytest.mark.parametrize("seed", [1, 2])
def test_leaders_move_while_rows_are_read(consumers: Consumers, seed: int) -> None:
    chance = random.Random(seed)
    with EmbeddedBroker(brokers=3) as cluster, Writer(cluster.bootstrap) as writer:
        cluster.create_topic("t", 3, replication_factor=3)
        consumer = consumers(cluster.bootstrap, fetch_message_max_bytes=2000)
        readers = [consumer.consume_partition(*place, 0) for place in PLACES]
        found: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for _ in range(6):
            for place in PLACES:
                writer.write(place, 100, at_once=20)
            cluster.move_leader("t", chance.randrange(3), chance.randrange(3))
            for message in islice(checked(consumer.messages()), 200):
                found[message.partition].append(message.offset)
        for message in islice(checked(consumer.messages()), 600):
            found[message.partition].append(message.offset)
        assert found == {number: [*range(600)] for number in range(3)}
        assert [reader.lag for reader in readers] == [0, 0, 0]


def test_a_broker_restarts_while_rows_and_a_replay_are_read(tmp_path: Path, consumers: Consumers) -> None:
    with EmbeddedBroker(tmp_path) as broker, Writer(broker.bootstrap) as writer:
        broker.create_topic("t", 3)
        writer.write(PLACES[0], 1000, at_once=20)
        small: dict[str, Any] = {"fetch_message_max_bytes": 2000, "queued_max_message_chunks": 1}
        reader = consumers(broker.bootstrap, **small).consume_partition("t", 0, 0)
        assert offsets(reader.messages(), 10) == [*range(10)]
        with replay("t", bootstrap_servers=broker.bootstrap, **small) as again:
            replayed = again.messages()
            assert offsets(replayed, 10) == [*range(10)]
            broker.stop()
            broker.start()
            assert offsets(replayed, 2000) == [*range(10, 1000)]
        assert offsets(reader.messages(), 990) == [*range(10, 1000)]
        assert next(reader.errors(timeout=0)).reaction is Reaction.MOVE


# --- damage

PER_BATCH, FIRST_BAD, FIRST_GOOD, END = 10, 30, 40, 60


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A partition of six batches; the fourth has a flipped bit."""
    data_dir = tmp_path_factory.mktemp("damaged")
    with EmbeddedBroker(data_dir) as broker:
        broker.create_topic("t")
        with Writer(broker.bootstrap) as writer:
            writer.write(PLACES[0], END, at_once=PER_BATCH)
        broker.stop()
        segment = data_dir / "t-0" / f"{0:020}.log"
        content = bytearray(segment.read_bytes())
        at = 0
        for _ in range(FIRST_BAD // PER_BATCH):
            at += 12 + struct.unpack_from(">i", content, at + 8)[0]
        content[at + 80] ^= 0x10
        segment.write_bytes(content)
        broker.start()
        yield broker


def test_damage_is_raised_behind_the_last_sound_row_and_skipped_on_request(
    damaged: EmbeddedBroker, consumers: Consumers
) -> None:
    reader = consumers(damaged.bootstrap).consume_partition("t", 0, 0)
    messages = reader.messages()
    assert offsets(messages, FIRST_BAD) == [*range(FIRST_BAD)]
    with pytest.raises(CorruptRecord, match=f"t-0 at offset {FIRST_BAD}"):
        next(messages)
    assert reader.skip() == FIRST_GOOD
    assert offsets(reader.messages(), END - FIRST_GOOD) == [*range(FIRST_GOOD, END)]
    assert [one.reaction for one in reader.errors(timeout=0)] == [Reaction.STOP]


def test_a_replay_stops_at_damage_or_skips_it(damaged: EmbeddedBroker) -> None:
    with replay("t", bootstrap_servers=damaged.bootstrap) as strict:
        messages = strict.messages()
        assert offsets(messages, FIRST_BAD) == [*range(FIRST_BAD)]
        with pytest.raises(CorruptRecord, match=f"t-0 at offset {FIRST_BAD}"):
            next(messages)
        assert [one.reaction for one in strict.errors] == [Reaction.STOP]
    with replay("t", bootstrap_servers=damaged.bootstrap, damaged_records="skip") as lenient:
        assert column(lenient) == [*range(FIRST_BAD), *range(FIRST_GOOD, END)]
        assert [(one.reaction, one.offset) for one in lenient.errors] == [(Reaction.SKIP, FIRST_BAD)]
        assert lenient.progress.fraction == 1.0


def test_damage_behind_the_bound_does_not_matter(damaged: EmbeddedBroker) -> None:
    assert column(replay("t", until=FIRST_BAD, bootstrap_servers=damaged.bootstrap)) == [*range(FIRST_BAD)]


def test_a_batch_of_too_many_records_is_named_and_can_be_skipped(
    consumers: Consumers, tmp_path: Path
) -> None:
    """A foreign broker may have stored it: a few kilobytes that would take a gigabyte."""
    count = RECORDS_MAX + 1
    many = record_set.batch(
        [record_set.record(0) * count], base_offset=1, count=count, last_delta=count - 1, codec=Codec.ZSTD
    )
    one, last = (
        record_set.batch([record_set.record(0, value=b"v")], base_offset=offset) for offset in (0, count + 1)
    )
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(one + many + last)
    with EmbeddedBroker(tmp_path) as broker:
        consumer = consumers(broker.bootstrap)
        reader = consumer.consume_partition("t", 0, "earliest")
        assert [message.offset for message in islice(reader, 1)] == [0]
        with pytest.raises(CorruptRecord, match=rf"t-0 at offset 1: .*{count:,} records .*skip\(\) goes on"):
            next(iter(reader))
        assert reader.skip() == count + 1
        assert next(iter(reader)).offset == count + 1
        consumer.close()
