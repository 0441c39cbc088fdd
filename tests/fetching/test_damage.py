"""A damaged batch in a segment file: what is sound is read, the place is named, skipping is a decision."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_errors import Reaction
from ottla.fetching.inbox import Inbox
from ottla.model.errors import CorruptRecord
from ottla.model.topic_partition import TopicAndPartition
from tests.fetching.conftest import Engines
from tests.fetching.tables import offsets_of, taken
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import PATIENCE_S

DAMAGED, SOUND = TopicAndPartition("t", 0), TopicAndPartition("t", 1)
PER_BATCH, BATCHES, BROKEN = 10, 6, 3
END = PER_BATCH * BATCHES
FIRST_BAD, FIRST_GOOD = PER_BATCH * BROKEN, PER_BATCH * (BROKEN + 1)
SEGMENT = "00000000000000000000.log"
PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One that stores two partitions of six batches; the fourth of the first has a flipped bit."""
    data_dir = tmp_path_factory.mktemp("damaged")
    with EmbeddedBroker(data_dir) as one:
        one.create_topic("t", 2)
        with Writer(one.bootstrap) as writer:
            for place in (DAMAGED, SOUND):
                writer.write(place, END, at_once=PER_BATCH)
        one.stop()
        flip(data_dir / "t-0" / SEGMENT)
        one.start()
        yield one


def flip(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    at = 0
    for _ in range(BROKEN):
        at += 12 + struct.unpack_from(">i", content, at + 8)[0]
    content[at + 80] ^= 0x10
    segment.write_bytes(content)


def test_the_reader_gets_what_is_sound_then_the_place_and_goes_on_by_skipping(engine: Engines) -> None:
    feed = engine().add(DAMAGED, 0)
    Ledger().read(feed.poll, {DAMAGED: FIRST_BAD})
    with pytest.raises(
        CorruptRecord, match=f"t-0 at offset {FIRST_BAD}: .*skip\\(\\) goes on at offset {FIRST_GOOD}"
    ):
        feed.poll(PATIENCE_MS)
    assert feed.position == FIRST_BAD
    assert feed.skip() == FIRST_GOOD
    Ledger(FIRST_GOOD).read(feed.poll, {DAMAGED: END})


def test_damage_is_skipped_without_asking_if_the_user_says_so(engine: Engines) -> None:
    feed = engine(damaged_records="skip").add(DAMAGED, 0)
    Ledger().read(feed.poll, {DAMAGED: FIRST_BAD})
    Ledger(FIRST_GOOD).read(feed.poll, {DAMAGED: END})
    report = feed.errors.poll(0)
    assert report is not None
    assert (report.reaction, report.offset) == (Reaction.SKIP, FIRST_BAD)


def test_other_partitions_of_the_fetcher_are_not_held_up(engine: Engines) -> None:
    inbox, reader = Inbox(), engine()
    for place in (DAMAGED, SOUND):
        reader.add(place, 0, inbox=inbox)
    ledger, failures = Ledger(), 0
    while ledger.nexts.get(SOUND, 0) < END or not failures:
        try:
            chunk = inbox.poll(PATIENCE_MS)
        except CorruptRecord:
            failures += 1
        else:
            assert chunk is not None
            ledger.enter(chunk)
    assert failures == 1
    assert ledger.nexts == {DAMAGED: FIRST_BAD, SOUND: END}


def test_reading_may_begin_in_the_middle_of_the_damage(engine: Engines) -> None:
    feed = engine().add(DAMAGED, FIRST_BAD + 5)
    with pytest.raises(CorruptRecord, match=f"t-0 at offset {FIRST_BAD + 5}"):
        feed.poll(PATIENCE_MS)
    assert feed.skip() == FIRST_GOOD
    Ledger(FIRST_GOOD).read(feed.poll, {DAMAGED: END})


def test_damage_that_checksums_would_find_is_read_without_them(engine: Engines) -> None:
    reader: FetchEngine = engine(check_crcs=False)
    feed = reader.add(DAMAGED, FIRST_BAD)
    chunk = feed.poll(PATIENCE_MS)
    assert chunk is not None
    found = offsets_of([chunk, *taken(feed)])
    assert found[0] == FIRST_BAD
