"""A reader that is slow holds up nobody but itself, loses nothing, and catches up when it wants to."""

from __future__ import annotations

import threading

from ottla.model.topic_partition import TopicAndPartition
from tests.fetching.conftest import Engines
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import wait_for

COUNT = 2000


def test_a_slow_partition_is_parked_and_the_others_flow_on(
    topic: str, writer: Writer, engine: Engines
) -> None:
    slow_place, place = (TopicAndPartition(topic, number) for number in range(2))
    for one in (slow_place, place):
        writer.write(one, COUNT, size=100)
    reader = engine(fetch_message_max_bytes=5000, max_processing_time_ms=20, queued_max_message_chunks=2)
    slow, feed = reader.add(slow_place, 0), reader.add(place, 0)
    ledger = Ledger()
    ledger.read(feed.poll, {place: COUNT})
    wait_for(lambda: slow.is_parked)
    parked = slow.info()
    assert (parked.queued_chunks, parked.consumed_offset) == (2, 0)
    writer.write(place, COUNT, size=100)
    ledger.read(feed.poll, {place: 2 * COUNT})
    assert slow.info() == parked  # kept, and nothing more was fetched

    slow_ledger = Ledger()
    for _ in range(2):
        chunk = slow.poll(0)
        assert chunk is not None
        slow_ledger.enter(chunk)
    assert not slow.is_parked
    slow_ledger.read(slow.poll, {slow_place: COUNT})


def test_a_reader_that_is_always_too_slow_gets_everything(
    topic: str, writer: Writer, engine: Engines
) -> None:
    place, idle = (TopicAndPartition(topic, number) for number in range(2))
    writer.write(place, COUNT, size=100)
    reader = engine(fetch_message_max_bytes=20_000, max_processing_time_ms=1, queued_max_message_chunks=2)
    reader.add(idle, 0)  # its long polls must not keep the slow one waiting for good
    feed, ledger = reader.add(place, 0), Ledger()
    while ledger.nexts.get(place, 0) < COUNT:
        chunk = feed.poll(10_000)
        assert chunk is not None
        ledger.enter(chunk)
        threading.Event().wait(0.005)


def test_a_partition_whose_reader_waits_is_not_starved_by_partitions_that_nobody_reads(
    topic: str, writer: Writer, engine: Engines
) -> None:
    places = [TopicAndPartition(topic, number) for number in range(3)]
    for place in places:
        writer.write(place, COUNT, size=200)
    reader = engine(queued_max_bytes=150_000, fetch_message_max_bytes=50_000)
    unread = [reader.add(place, 0) for place in places[1:]]
    wait_for(lambda: all(feed.is_parked for feed in unread))
    Ledger().read(reader.add(places[0], 0).poll, {places[0]: COUNT})
    assert sum(feed.info().queued_bytes for feed in unread) <= 150_000


def test_what_waits_is_bounded_by_chunks_and_by_bytes(topic: str, writer: Writer, engine: Engines) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 5 * COUNT, size=200, at_once=20)
    by_chunks = engine(fetch_message_max_bytes=10_000, queued_max_message_chunks=5).add(place, 0)
    by_bytes = engine(
        fetch_message_max_bytes=50_000, queued_max_message_chunks=1000, queued_max_bytes=400_000
    ).add(place, 0)
    wait_for(lambda: by_chunks.is_parked and by_bytes.is_parked)
    assert by_chunks.info().queued_chunks == 5
    assert 200_000 < by_bytes.info().queued_bytes <= 400_000
    for feed in (by_chunks, by_bytes):
        Ledger().read(feed.poll, {place: 5 * COUNT})
