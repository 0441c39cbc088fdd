"""What a reader sees of one partition and of several: chunks, positions, errors, seeks, the end."""

from __future__ import annotations

import threading

import pytest

from ottla.fetching.error_channel import REPORTS_MAX, ErrorChannel
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import Want
from ottla.fetching.fetch_errors import PartitionError, Reaction
from ottla.fetching.inbox import Inbox
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.model.offset_spec import EARLIEST, UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from tests.fetching.tables import PLACE, PLENTY, HandClock, chunk, feed

OTHER = TopicAndPartition("t", 1)
DAMAGE = CorruptRecord("t-0 at offset 5: broken", offset=5, next_offset=8)


def want(one: PartitionFeed) -> Want:
    return one.wanted(share_bytes=PLENTY, expected_bytes=1, pending_bytes=0).want


class Note:
    """An attendant that counts."""

    def __init__(self) -> None:
        self.room = self.orders = 0

    def room_was_made(self) -> None:
        self.room += 1

    def orders_changed(self) -> None:
        self.orders += 1


def test_the_position_moves_when_the_reader_takes() -> None:
    one = feed(start=5)
    assert one.deliver(0, chunk(5, 3))
    assert (one.position, one.info().fetched_offset, one.high_watermark) == (5, 8, 8)
    taken = one.poll(0)
    assert taken is not None
    assert (taken.fetch_offset, one.position) == (5, 8)
    assert one.poll(0) is None


def test_offsets_without_records_are_passed() -> None:
    one = feed(start=5)
    assert one.passed(0, 7, 20)
    assert (one.position, one.high_watermark, one.info().lag) == (7, 20, 13)
    one.deliver(0, chunk(7))
    one.passed(0, 10, 20)
    assert one.position == 7  # the chunk before the gap is not taken yet
    one.poll(0)
    assert one.position == 10


def test_a_seek_drops_what_waits_and_what_is_under_way() -> None:
    one = feed(start=0)
    one.deliver(0, chunk(0))
    one.seek(50)
    assert (one.position, one.poll(0)) == (50, None)
    assert not one.deliver(0, chunk(1))  # of before the seek
    assert not one.passed(0, 9, 9)
    assert not one.stop(0, DAMAGE)
    assert one.deliver(1, chunk(50))
    assert one.poll(0) is not None


def test_a_seek_to_an_end_of_the_log_has_no_position_until_it_is_found() -> None:
    one = feed(start=3)
    one.seek(EARLIEST)
    assert one.position == UNKNOWN_OFFSET
    assert not one.started(0, 11)
    assert one.started(1, 11)
    assert one.position == 11


@pytest.mark.parametrize("offset", [-4, -100])
def test_there_are_no_other_offsets_below_zero(offset: int) -> None:
    with pytest.raises(ConfigError, match="no offset -"):
        feed().seek(offset)


def test_an_error_comes_behind_the_last_chunk_until_the_reader_decides() -> None:
    one = feed(start=4)
    one.deliver(0, chunk(4))
    one.stop(0, DAMAGE)
    assert one.failure is DAMAGE
    assert one.poll(0) is not None
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            one.poll(0)
    assert one.skip() == 8
    assert (one.position, one.failure, want(one)) == (8, None, Want.FETCH)


def test_a_skip_keeps_what_waits() -> None:
    one = feed(start=4)
    one.deliver(0, chunk(4))
    one.stop(0, DAMAGE)
    assert one.skip() == 8
    taken = one.poll(0)
    assert taken is not None
    assert (taken.fetch_offset, one.position) == (4, 8)


def test_only_damage_can_be_skipped() -> None:
    with pytest.raises(ConfigError, match="no records to skip: it is read"):
        feed().skip()


def test_a_paused_partition_is_not_fetched_and_gives_what_it_has() -> None:
    one = feed()
    one.deliver(0, chunk())
    one.pause()
    assert (want(one), one.info().is_paused) == (Want.IDLE, True)
    assert one.poll(0) is not None
    one.resume()
    assert want(one) is Want.FETCH


def test_the_attendant_learns_what_concerns_it() -> None:
    one, note = feed(), Note()
    one.attach(note)
    one.deliver(0, chunk())
    one.poll(0)
    assert (note.room, note.orders) == (1, 0)
    one.resume()
    one.seek(3)
    one.close()
    assert (note.room, note.orders) == (1, 3)


def test_a_full_queue_waits_then_parks_then_opens() -> None:
    clock = HandClock()
    one = feed(clock=clock)
    one.deliver(0, chunk(0))
    assert want(one) is Want.FETCH
    one.deliver(0, chunk(1))
    assert want(one) is Want.FULL
    clock.ms += 100
    assert (want(one), one.is_parked) == (Want.PARKED, True)
    one.poll(0)
    assert want(one) is Want.PARKED
    one.poll(0)
    assert (want(one), one.is_parked) == (Want.FETCH, False)


def test_a_closed_feed_gives_nothing_and_takes_nothing() -> None:
    one = feed()
    one.deliver(0, chunk())
    one.close()
    assert one.is_closed
    assert want(one) is Want.CLOSED
    assert one.poll() is None
    assert one.errors.poll(None) is None
    assert not one.deliver(0, chunk(1))


def test_closing_ends_a_reader_that_waits() -> None:
    one = feed()
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(one.poll()))
    reader.start()
    one.close()
    reader.join(10)
    assert got == [None]


def test_an_inbox_gives_partitions_in_turns() -> None:
    inbox = Inbox()
    first, second = feed(PLACE, inbox=inbox), feed(OTHER, inbox=inbox)
    for offset in (0, 1):
        first.deliver(0, chunk(offset))
    second.deliver(0, chunk(0, place=OTHER))
    order = [inbox.poll(0) for _ in range(4)]
    assert [one and one.topic_partition.partition for one in order] == [0, 1, 0, None]


def test_an_inbox_forgets_what_was_taken_otherwise() -> None:
    inbox = Inbox()
    one = feed(inbox=inbox)
    one.deliver(0, chunk(0))
    assert one.poll(0) is not None
    assert inbox.poll(0) is None
    one.deliver(0, chunk(1))
    assert inbox.poll(0) is not None


def test_an_inbox_tells_an_error_once_and_the_others_go_on() -> None:
    inbox = Inbox()
    broken, sound = feed(PLACE, inbox=inbox), feed(OTHER, inbox=inbox)
    broken.deliver(0, chunk(4))
    broken.stop(0, DAMAGE)
    assert inbox.poll(0) is not None
    with pytest.raises(CorruptRecord):
        inbox.poll(0)
    assert inbox.poll(0) is None
    sound.deliver(0, chunk(0, place=OTHER))
    assert inbox.poll(0) is not None
    assert [one for one in (broken, sound) if one.failure] == [broken]
    broken.skip()
    broken.deliver(1, chunk(8))
    assert inbox.poll(0) is not None


def test_closing_an_inbox_ends_its_reader() -> None:
    inbox = Inbox()
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(inbox.poll()))
    reader.start()
    inbox.close()
    reader.join(10)
    assert got == [None]


def test_an_inbox_can_be_waited_at_without_taking() -> None:
    inbox = Inbox()
    one = feed(inbox=inbox)
    assert not inbox.wait(0)
    assert not one.wait(0)
    one.deliver(0, chunk(0))
    assert inbox.wait()
    assert one.wait()
    assert inbox.poll(0) is not None
    one.stop(0, DAMAGE)
    assert inbox.wait()
    one.close()  # and its error is nobody's any more
    assert not inbox.wait(0)
    assert one.wait()


def test_who_waits_at_an_inbox_can_be_woken_once() -> None:
    inbox = Inbox()
    inbox.wake()
    assert inbox.poll() is None
    inbox.wake()
    assert inbox.wait()
    assert not inbox.wait(0)


def error(offset: int = 0, text: str = "gone") -> PartitionError:
    return PartitionError(PLACE, OSError(text), Reaction.MOVE, offset)


def test_the_same_error_again_is_counted() -> None:
    channel = ErrorChannel()
    for one in (error(), error(), error(), error(1), error()):
        channel.report(one)
    told = [channel.poll() for _ in range(4)]
    assert [one and (one.offset, one.times) for one in told] == [(0, 3), (1, 1), (0, 1), None]
    assert str(told[0]) == "t-0 at offset 0: gone; looked for at another broker, 3 times"


def test_errors_that_nobody_takes_are_bounded_and_the_lost_ones_counted() -> None:
    channel = ErrorChannel()
    for offset in range(REPORTS_MAX + 5):
        channel.report(error(offset))
    assert (len(channel), channel.lost) == (REPORTS_MAX, 5)
    first = channel.poll()
    assert first is not None
    assert first.offset == 5
