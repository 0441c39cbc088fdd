"""Batches that are mirrored as bytes, between two embedded brokers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.admin import NewTopic
from ottla.client.client_config import ClientConfig
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from ottla.mirror import translate_group
from ottla.model.errors import CorruptRecord
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.records.whole_batches import is_whole
from tests.mirror.clusters import content, running, write
from tests.mirror.conftest import Mirrors
from tests.waiting import PATIENCE_S, wait_for

ALL = {"whole.batches.min.bytes": 1}


def at(broker: EmbeddedBroker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap}


def is_committed(broker: EmbeddedBroker, group: str, records: int) -> bool:
    with Admin(at(broker)) as admin:
        return sum(one.offset for one in admin.group_offsets(group).values()) == records


def wait_committed(broker: EmbeddedBroker, group: str, records: int, errors: Sequence[BaseException]) -> None:
    """Wait for the commits of a mirror that runs, or for its end."""
    wait_for(lambda: errors or is_committed(broker, group, records), "all is committed")
    assert not errors


def batches_of(broker: EmbeddedBroker, place: TopicAndPartition, records: int) -> list[bytes]:
    """All batches of a partition, none of which is decoded."""
    found: list[bytes] = []
    client = ClientConfig.from_properties(at(broker))
    with FetchEngine(client, FetchConfig(whole_batches_min_bytes=1)) as engine:
        feed = engine.add(place, 0)
        while feed.position < records:
            chunk = feed.poll(PATIENCE_S * 1000)
            assert chunk is not None
            assert is_whole(chunk.batch)
            found += chunk.batch.column("batch").to_pylist()
    return found


def producer_of(batch: bytes) -> tuple[int, int, int]:
    """Id, epoch and first sequence."""
    return struct.unpack_from(">qhi", batch, 43)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_bytes_and_codecs_stay_and_producers_do_not(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors, codec: Codec
) -> None:
    """Two producers have written, each with sequences of its own; what is stored is one producer's."""
    for numbers in (range(300), range(300, 900), range(900, 1200)):
        write(at(source), topic, 3, numbers, compression_type=codec.label)
    one = mirror(ALL)
    with running(one) as errors:
        wait_committed(source, f"group-of-{topic}", 1200, errors)
    assert not errors
    assert one.metrics().sent == 1200
    assert content(at(target), topic) == content(at(source), topic)
    for place in (TopicAndPartition(topic, partition) for partition in range(3)):
        before, after = batches_of(source, place, 400), batches_of(target, place, 400)
        assert [batch[61:] for batch in after] == [batch[61:] for batch in before]
        assert {batch[22] for batch in after} == {codec}
        assert len({producer_of(batch)[0] for batch in before}) == 3
        (ours,) = {producer_of(batch)[:2] for batch in after}
        assert ours[0] >= 0
        assert [producer_of(batch)[2] for batch in after] == [0, 100, 300]


def test_a_codec_that_was_chosen_is_what_is_stored(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    write(at(source), topic, 3, range(300), compression_type="lz4")
    write(at(source), topic, 3, range(300, 600), compression_type="gzip")
    with running(mirror(ALL, producer={"compression.type": "lz4"})) as errors:
        wait_committed(source, f"group-of-{topic}", 600, errors)
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)
    stored = batches_of(target, TopicAndPartition(topic, 0), 200)
    assert {batch[22] for batch in stored} == {Codec.LZ4}


def test_a_target_that_takes_less_gets_smaller_batches(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    with Admin(at(target)) as admin:
        admin.create_topics(NewTopic(topic, 3, 1, configs={"max.message.bytes": 2000}))
    write(at(source), topic, 3, range(3000), compression_type="zstd")
    with running(mirror(ALL, follows_topics=False)) as errors:
        wait_committed(source, f"group-of-{topic}", 3000, errors)
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)
    assert len(batches_of(target, TopicAndPartition(topic, 1), 1000)) > 10


def test_the_time_of_the_log_is_kept_as_the_records(
    source: EmbeddedBroker, target: EmbeddedBroker, name: str, mirror: Mirrors
) -> None:
    with Admin(at(source)) as admin:
        admin.create_topics(NewTopic(name, 3, 1, configs={"message.timestamp.type": "LogAppendTime"}))
    write(at(source), name, 3, range(300))
    with running(mirror(ALL)) as errors:
        wait_committed(source, f"group-of-{name}", 300, errors)
    assert not errors
    assert content(at(target), name) == content(at(source), name)


def test_a_group_goes_on_at_the_very_record(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    target.create_topic(topic, 3)
    write(at(target), topic, 3, range(33))  # so that offsets differ
    write(at(source), topic, 3, range(300))
    stopped = {
        TopicAndPartition(topic, 0): 0,
        TopicAndPartition(topic, 1): 37,
        TopicAndPartition(topic, 2): 100,
    }
    with Admin(at(source)) as admin:
        admin.alter_group_offsets(f"{topic}-stopped", stopped)
    with running(mirror(ALL)) as errors:
        wait_committed(source, f"group-of-{topic}", 300, errors)
    assert not errors
    moved = translate_group(f"{topic}-stopped", f"group-of-{topic}", source=at(source), target=at(target))
    assert moved == {place: offset + 11 for place, offset in stopped.items()}


def test_a_target_that_goes_away_and_comes_back_stores_nothing_twice(
    source: EmbeddedBroker, topic: str, mirror: Mirrors, tmp_path: Path
) -> None:
    """What was in flight is sent again under the numbers that it had."""
    with EmbeddedBroker(tmp_path) as away:
        one = mirror(ALL, producer={"bootstrap.servers": away.bootstrap, "request.timeout.ms": 5000})
        with running(one) as errors:
            for written in range(0, 1200, 300):
                write(at(source), topic, 3, range(written, written + 300), batch_size=500)
                # A mirror that begins while its target is away ends at once.
                wait_for(lambda: one.metrics().sent or errors, "the mirror runs")
                away.stop()
                away.start()
            wait_committed(source, f"group-of-{topic}", 1200, errors)
        assert not errors
        assert content(at(away), topic) == content(at(source), topic)


def test_a_damaged_batch_ends_the_mirror_and_is_named(
    target: EmbeddedBroker, name: str, mirror: Mirrors, tmp_path: Path
) -> None:
    with EmbeddedBroker(tmp_path) as one:
        one.create_topic(name, 1)
        for numbers in (range(10), range(10, 20), range(20, 30)):
            write(at(one), name, 1, numbers)
        one.stop()
        segment = tmp_path / f"{name}-0" / "00000000000000000000.log"
        content_of = bytearray(segment.read_bytes())
        second = 12 + struct.unpack_from(">i", content_of, 8)[0]
        content_of[second + 80] ^= 0x10
        segment.write_bytes(content_of)
        one.start()
        for _ in range(2):  # which copies nothing twice
            with running(mirror({"bootstrap.servers": one.bootstrap, **ALL})) as errors:
                wait_for(lambda errors=errors: errors, "the mirror ends")
            assert isinstance(errors[0], CorruptRecord)
            assert f"{name}-0 at offset 10" in str(errors[0])
        assert is_committed(one, f"group-of-{name}", 10)
        assert len(content(at(target), name)[0]) == 10
