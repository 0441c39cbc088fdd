"""What answers do to the partitions of a fetcher: turns, errors, resets, retries, damage, answers ahead."""

from __future__ import annotations

import pytest

from ottla import kernels
from ottla.client.list_offsets import OffsetAnswer, OffsetQuestion
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_config import DamagePolicy, FetchConfig, OffsetReset
from ottla.fetching.fetch_errors import Reaction, reaction_to
from ottla.fetching.request_plan import FetchPlan
from ottla.kernels import layout
from ottla.model.cluster_view import LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, MessageSizeTooLarge
from ottla.model.offset_spec import EARLIEST, LATEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.wire.api.fetch import FetchPartitionResponse
from ottla.wire.leader_hint import LeaderIdAndEpoch
from tests.fetching.tables import PLACE, Table, answer, chunk, offsets_of, reader_of, records, response, taken
from tests.naive.record_set import batch


def places(*partitions: int) -> list[TopicAndPartition]:
    return [TopicAndPartition("t", number) for number in partitions]


def exchange(one: Table, *answers: FetchPartitionResponse, is_limited: bool = True) -> FetchPlan:
    """Ask, get these answers, deliver them."""
    plan = one.table.plan(is_limited=is_limited)
    for delivery in one.table.note(plan, response(*answers)):
        one.table.deliver([delivery])
    return plan


def broken(data: bytes) -> bytes:
    return data[:70] + bytes([data[70] ^ 0xFF]) + data[71:]


def reported(cursor: Cursor) -> list[tuple[Reaction, int]]:
    found = []
    while (report := reader_of(cursor).errors.poll()) is not None:
        found.append((report.reaction, report.offset))
    return found


# --- turns and data


def test_records_are_delivered_and_the_next_request_goes_on_behind_them() -> None:
    one = Table()
    cursor = one.add(start=0)
    exchange(one, answer(records(0, 3)))
    assert offsets_of(taken(cursor.feed)) == [0, 1, 2]
    assert (cursor.position, cursor.ahead) == (3, 3)
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 3


def test_the_next_request_is_planned_before_this_answer_is_decoded() -> None:
    one = Table()
    cursor = one.add()
    (delivery,) = one.table.note(one.table.plan(is_limited=True), response(answer(records(0, 3))))
    ahead = one.table.plan(is_limited=True)
    assert (ahead.requests[PLACE].offset, cursor.position) == (3, 0)
    one.table.deliver([delivery])
    (delivery,) = one.table.note(ahead, response(answer(records(3, 3))))
    one.table.deliver([delivery])
    assert offsets_of(taken(cursor.feed)) == list(range(6))


def test_no_more_is_asked_for_than_the_queue_can_take() -> None:
    one = Table(FetchConfig(queued_max_message_chunks=2))
    cursor = one.add()
    one.table.note(one.table.plan(is_limited=True), response(answer(records(0, 3))))
    ahead = one.table.plan(is_limited=True)
    assert PLACE in ahead.requests  # one pending, one asked for: that is two
    cursor.feed.deliver(cursor.generation, chunk())
    assert PLACE not in one.table.plan(is_limited=True).requests


def test_who_got_data_goes_to_the_back() -> None:
    one = Table()
    for place in places(0, 1, 2):
        one.add(place)
    exchange(one, answer(records(0, 1), 0), answer(None, 1), answer(records(0, 1), 2))
    assert list(one.table.plan(is_limited=True).requests) == places(1, 0, 2)


def test_who_has_no_more_goes_to_the_back_and_who_was_left_out_stays_in_front() -> None:
    one = Table()
    for place in places(0, 1, 2):
        one.add(place)
    exchange(one, answer(None, 0, high_watermark=0), answer(records(0, 1), 1), answer(None, 2))
    assert list(one.table.plan(is_limited=True).requests) == places(2, 0, 1)


def test_records_of_unknown_size_are_guessed_by_those_of_others() -> None:
    one = Table()
    for place in places(*range(4)):
        one.add(place)
    exchange(one, answer(records(0, 10), 0))
    others = [answer(None, number, high_watermark=5_000) for number in range(1, 4)]
    exchange(one, answer(records(10, 10), 0), *others)
    assert list(one.table.plan(is_limited=True).requests) == places(1, 2, 3)  # 1 MB each would be two


def test_partitions_are_expected_to_fill_what_others_have_filled() -> None:
    one = Table()
    for number in range(100):
        one.add(TopicAndPartition("t", number))
    assert len(one.table.plan(is_limited=True).requests) == 16
    exchange(one, *(answer(records(0, 100, size=1000), number, high_watermark=100) for number in range(16)))
    assert len(one.table.plan(is_limited=True).requests) == 20  # 100 KB each


def test_a_partition_at_its_end_is_requested_again_without_a_question() -> None:
    one = Table()
    cursor = one.add()
    resting = exchange(one, answer(high_watermark=0)).requests[PLACE]
    assert exchange(one, answer(high_watermark=0)).requests[PLACE] is not resting, "its end is known since"
    resting = one.table.plan(is_limited=True).requests[PLACE]
    assert exchange(one, answer(high_watermark=0)).requests[PLACE] is resting
    reader_of(cursor).pause()
    one.table.attend()
    assert one.table.plan(is_limited=True).requests == {}
    reader_of(cursor).resume()
    one.table.attend()
    assert exchange(one, answer(records(0, 2), high_watermark=2)).requests[PLACE].offset == 0
    assert exchange(one, answer(high_watermark=2)).requests[PLACE].offset == 2
    reader_of(cursor).seek(7)
    one.table.attend()
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 7


@pytest.mark.parametrize(
    "change", [answer(error=Code.NOT_LEADER_OR_FOLLOWER), answer(error=Code.UNKNOWN_SERVER_ERROR)]
)
def test_an_error_ends_the_rest_of_a_partition(change: FetchPartitionResponse) -> None:
    one = Table()
    one.add()
    for _ in range(3):
        exchange(one, answer(high_watermark=0))
    assert one.table.plan(is_limited=True).requests
    exchange(one, change)
    assert one.table.plan(is_limited=True).requests == {}


def test_before_version_3_who_was_asked_goes_to_the_back() -> None:
    one = Table(FetchConfig(fetch_max_bytes=2 << 20, fetch_message_max_bytes=1 << 20))
    for place in places(0, 1, 2):
        one.add(place)
    assert list(exchange(one, is_limited=False).requests) == places(0, 1)
    assert list(exchange(one, is_limited=False).requests) == places(2, 0)
    assert list(exchange(one, is_limited=False).requests) == places(1, 2)


def test_an_empty_answer_means_that_nobody_is_behind() -> None:
    one = Table()
    for place in places(*range(20)):
        one.add(place)
    plan = exchange(one, *(answer(None, number, high_watermark=50) for number in range(16)))
    assert len(plan.requests) == 16  # these may fill an answer
    assert len(one.table.plan(is_limited=True).requests) == 20  # they did not


def test_memory_is_held_for_answers_until_they_are_queued() -> None:
    one = Table()
    cursor = one.add()
    exchange(one, answer(records(0, 10)))
    one.table.plan(is_limited=True)
    one.table.settle()
    held_bytes = one.budget.held_bytes
    assert held_bytes > cursor.feed.queued_bytes > 0
    exchange(one, answer(None, high_watermark=10))
    one.table.settle()
    taken(cursor.feed)
    assert one.budget.held_bytes < held_bytes
    one.table.clear()
    assert one.budget.held_bytes == 0


def test_what_expands_beyond_the_memory_is_decoded_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.fetching.cursor.CHUNK_BYTES_TIGHT", 70_000)
    one = Table(budget_bytes=100_000)
    cursor = one.add()
    one.budget.hold(200_000)  # others were quicker
    cursor.expansion = 1000.0
    batches = [records(first, 100, size=300, codec=Codec.GZIP) for first in (0, 100, 200)]
    exchange(one, answer(b"".join(batches)))
    assert cursor.position == 200


def test_topics_are_recognised_by_their_ids() -> None:
    one = Table()
    cursor = one.add()
    told = response(answer(records(0, 2)))
    told.responses[0].topic = ""
    for delivery in one.table.note(one.table.plan(is_limited=True), told):
        one.table.deliver([delivery])
    assert offsets_of(taken(cursor.feed)) == [0, 1]


def test_partitions_that_nobody_asked_for_are_ignored() -> None:
    one = Table()
    one.add()
    exchange(one, answer(records(0, 1), 7), answer(error=Code.NOT_LEADER_OR_FOLLOWER, partition=8))
    assert len(one.table) == 1


def test_an_answer_to_what_a_reader_does_not_want_any_more_is_ignored() -> None:
    one = Table()
    cursor = one.add()
    plan = one.table.plan(is_limited=True)
    reader_of(cursor).seek(50)
    one.table.attend()
    assert one.table.note(plan, response(answer(records(0, 3)))) == []
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 50


def test_a_seek_between_receiving_and_decoding_drops_the_records() -> None:
    one = Table()
    cursor = one.add()
    (delivery,) = one.table.note(one.table.plan(is_limited=True), response(answer(records(0, 3))))
    reader_of(cursor).seek(50)
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 50
    one.table.deliver([delivery])
    assert (taken(cursor.feed), cursor.position) == ([], 50)


def test_a_closed_partition_is_forgotten() -> None:
    one = Table()
    reader_of(one.add()).close()
    one.table.attend()
    assert len(one.table) == 0


def test_leaving_partitions_go_back_to_what_was_delivered() -> None:
    one = Table()
    one.add()
    one.table.note(one.table.plan(is_limited=True), response(answer(records(0, 3))))
    (left,) = one.table.clear()
    assert (left.position, left.ahead, left.pending_bytes) == (0, 0, 0)


# --- errors


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Reaction.MOVE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Reaction.MOVE),
        (Code.LEADER_NOT_AVAILABLE, Reaction.MOVE),
        (Code.REPLICA_NOT_AVAILABLE, Reaction.MOVE),
        (Code.FENCED_LEADER_EPOCH, Reaction.MOVE),
        (Code.UNKNOWN_TOPIC_ID, Reaction.MOVE),
        (Code.INCONSISTENT_TOPIC_ID, Reaction.MOVE),
        (Code.KAFKA_STORAGE_ERROR, Reaction.MOVE),
        (Code.UNKNOWN_LEADER_EPOCH, Reaction.RETRY),
        (Code.OFFSET_NOT_AVAILABLE, Reaction.RETRY),
        (Code.REQUEST_TIMED_OUT, Reaction.RETRY),
        (Code.FETCH_SESSION_ID_NOT_FOUND, Reaction.RETRY),
        (Code.OFFSET_OUT_OF_RANGE, Reaction.RESET),
        (Code.CORRUPT_MESSAGE, Reaction.STOP),
        (Code.TOPIC_AUTHORIZATION_FAILED, Reaction.STOP),
        (Code.UNSUPPORTED_COMPRESSION_TYPE, Reaction.STOP),
        (Code.UNKNOWN_SERVER_ERROR, Reaction.RETRY),
        (4711, Reaction.RETRY),
    ],
)
def test_every_code_has_a_reaction(code: int, reaction: Reaction) -> None:
    assert reaction_to(code) is reaction


def test_a_partition_that_moved_departs_with_its_reason_and_the_hint_is_kept() -> None:
    one = Table()
    cursor = one.add(start=7)
    hint = LeaderIdAndEpoch(leader_id=3, leader_epoch=9)
    exchange(one, answer(error=Code.NOT_LEADER_OR_FOLLOWER, current_leader=hint))
    (departure,) = one.table.take_departed()
    assert departure.cursor is cursor
    assert "t-0 at offset 7" in str(departure.reason)
    assert one.table.hints == [LeaderHint("t", 0, 3, 9)]
    assert (len(one.table), one.table.take_departed()) == (0, [])
    assert reported(cursor) == [(Reaction.MOVE, 7)]


def test_what_may_be_cured_is_tried_again_after_growing_pauses() -> None:
    one = Table()
    cursor = one.add()
    pauses = []
    for _ in range(3):
        exchange(one, answer(error=Code.REQUEST_TIMED_OUT))
        pauses.append(cursor.retry_at_ms - one.clock.ms)
        assert one.table.plan(is_limited=True).requests == {}
        one.clock.ms = cursor.retry_at_ms
    assert pauses == [100, 200, 400]
    exchange(one, answer(records(0, 1)))
    assert cursor.failures == 0


def test_an_error_of_the_whole_answer_is_one_of_every_partition() -> None:
    one = Table()
    cursor = one.add()
    told = response(error=Code.FETCH_SESSION_ID_NOT_FOUND)
    told.responses = []
    one.table.note(one.table.plan(is_limited=True), told)
    assert reported(cursor) == [(Reaction.RETRY, 0)]


def test_an_error_that_nothing_cures_stops_the_partition() -> None:
    one = Table()
    cursor = one.add()
    exchange(one, answer(error=Code.TOPIC_AUTHORIZATION_FAILED))
    assert one.table.plan(is_limited=True).requests == {}
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        reader_of(cursor).poll(0)
    reader_of(cursor).seek(5)
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 5


# --- offsets


@pytest.mark.parametrize(("reset", "time"), [(OffsetReset.SMALLEST, EARLIEST), (OffsetReset.LARGEST, LATEST)])
def test_an_offset_out_of_range_is_looked_up_anew(reset: OffsetReset, time: int) -> None:
    one = Table(FetchConfig(auto_offset_reset=reset))
    cursor = one.add(start=99)
    exchange(one, answer(error=Code.OFFSET_OUT_OF_RANGE))
    assert one.table.plan(is_limited=True).requests == {}
    assert one.table.questions() == [OffsetQuestion(PLACE, time)]
    one.table.take_offsets([OffsetAnswer(PLACE, 0, 42)])
    assert one.table.plan(is_limited=True).requests[PLACE].offset == 42
    assert (reader_of(cursor).position, one.table.questions()) == (42, [])
    assert reported(cursor) == [(Reaction.RESET, 99)]


def test_a_broker_that_refuses_what_it_has_told_is_not_asked_in_a_loop() -> None:
    one = Table(FetchConfig(auto_offset_reset=OffsetReset.SMALLEST))
    one.add(start=99)
    for expected_ms in (0, 100, 200):
        exchange(one, answer(error=Code.OFFSET_OUT_OF_RANGE))
        if expected_ms:
            assert one.table.questions() == []
            one.clock.ms += expected_ms
        assert len(one.table.questions()) == 1
        one.table.take_offsets([OffsetAnswer(PLACE, 0, 42)])


def test_without_a_reset_an_offset_out_of_range_stops_the_partition() -> None:
    one = Table(FetchConfig(auto_offset_reset=OffsetReset.NONE))
    cursor = one.add(start=99)
    exchange(one, answer(error=Code.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaError, match=r"t-0 at offset 99, and auto\.offset\.reset is none"):
        reader_of(cursor).poll(0)


def test_chunks_from_before_a_reset_are_delivered() -> None:
    one = Table(FetchConfig(auto_offset_reset=OffsetReset.SMALLEST))
    cursor = one.add()
    exchange(one, answer(records(0, 2)))
    exchange(one, answer(error=Code.OFFSET_OUT_OF_RANGE))
    one.table.questions()
    one.table.take_offsets([OffsetAnswer(PLACE, 0, 40)])
    exchange(one, answer(records(40, 2)))
    assert offsets_of(taken(cursor.feed)) == [0, 1, 40, 41]


@pytest.mark.parametrize("start", [EARLIEST, LATEST, BY_RESET_POLICY])
def test_a_partition_may_begin_without_an_offset(start: int) -> None:
    one = Table(FetchConfig(auto_offset_reset=OffsetReset.SMALLEST))
    cursor = one.add(start=start)
    (question,) = one.table.questions()
    assert question.time == (LATEST if start == LATEST else EARLIEST)
    one.table.take_offsets([OffsetAnswer(PLACE, 0, 13)])
    assert (reader_of(cursor).position, cursor.position) == (13, 13)


@pytest.mark.parametrize(
    ("code", "departs"), [(Code.NOT_LEADER_OR_FOLLOWER, True), (Code.REQUEST_TIMED_OUT, False), (0, False)]
)
def test_a_lookup_that_fails_is_an_error_like_others(code: int, departs: bool) -> None:
    one = Table()
    one.add(start=EARLIEST)
    one.table.questions()
    one.table.take_offsets([OffsetAnswer(PLACE, code, -1)])
    assert bool(one.table.take_departed()) is departs
    assert one.table.questions() == []
    if not departs:
        one.clock.ms += 1000
        assert len(one.table.questions()) == 1


def test_a_lookup_that_falls_due_just_before_the_next_request_is_planned_is_not_forgotten() -> None:
    """The thread would sleep for ever: nothing is in flight, and no reader acts."""
    one = Table()
    one.add(start=EARLIEST)
    one.table.questions()
    one.table.take_offsets([OffsetAnswer(PLACE, Code.REQUEST_TIMED_OUT, -1)])
    assert one.table.questions() == []
    one.clock.ms += 1000
    plan = one.table.plan(is_limited=True)
    assert plan.wake_at_ms is not None
    assert plan.wake_at_ms <= one.clock.ms
    assert len(one.table.questions()) == 1


def test_a_seek_during_a_lookup_wins() -> None:
    one = Table()
    cursor = one.add(start=EARLIEST)
    one.table.questions()
    reader_of(cursor).seek(77)
    one.table.take_offsets([OffsetAnswer(PLACE, 0, 13)])
    one.table.attend()
    assert (reader_of(cursor).position, cursor.position) == (77, 77)


# --- damage and size


def test_damage_stops_the_partition_behind_what_is_sound() -> None:
    one = Table(scans_once=False)
    cursor = one.add()
    rest = broken(records(3, 4)) + records(7, 1)
    plan = one.table.plan(is_limited=True)
    (delivery,) = one.table.note(plan, response(answer(records(0, 3) + rest)))
    ahead = one.table.plan(is_limited=True)
    assert ahead.requests[PLACE].offset == 8
    one.table.deliver([delivery])
    assert one.table.note(ahead, response(answer(records(8, 1)))) == []  # asked for too far ahead
    assert offsets_of(taken(cursor.feed)) == [0, 1, 2]
    exchange(one, answer(rest))
    with pytest.raises(CorruptRecord, match="t-0 at offset 3"):
        reader_of(cursor).poll(0)
    assert reported(cursor) == [(Reaction.STOP, 3)]
    assert one.table.plan(is_limited=True).requests == {}
    assert reader_of(cursor).skip() == 7
    exchange(one, answer(records(7, 2)))
    assert offsets_of(taken(cursor.feed)) == [7, 8]


def test_damage_of_one_among_small_partitions_leaves_the_others_alone() -> None:
    one = Table()
    first, hurt, last = (one.add(place) for place in places(0, 1, 2))
    damaged_record = bytes(batch([b"\x7f"], base_offset=0))  # its checksum is right
    exchange(one, answer(records(0, 3), 0), answer(damaged_record, 1), answer(records(0, 2), 2))
    assert [offsets_of(taken(cursor.feed)) for cursor in (first, last)] == [[0, 1, 2], [0, 1]]
    with pytest.raises(CorruptRecord, match="t-1 at offset 0"):
        reader_of(hurt).poll(0)
    assert reported(hurt) == [(Reaction.STOP, 0)]


def test_damage_that_is_seen_early_is_where_the_next_request_begins() -> None:
    if kernels.path().VERIFY == layout.VERIFY_LATER:
        pytest.skip("the NumPy kernels leave checksums for later")
    one = Table()
    cursor = one.add()
    rest = broken(records(3, 4)) + records(7, 1)
    (delivery,) = one.table.note(one.table.plan(is_limited=True), response(answer(records(0, 3) + rest)))
    ahead = one.table.plan(is_limited=True)
    assert ahead.requests[PLACE].offset == 3
    one.table.deliver([delivery])
    one.table.deliver(one.table.note(ahead, response(answer(rest))))
    chunk_before = reader_of(cursor).poll(0)
    assert chunk_before is not None
    assert offsets_of([chunk_before]) == [0, 1, 2]
    assert reported(cursor) == [(Reaction.STOP, 3)]


def test_damage_is_skipped_on_request() -> None:
    one = Table(FetchConfig(damaged_records=DamagePolicy.SKIP))
    cursor = one.add()
    rest = broken(records(3, 4)) + records(7, 2)
    exchange(one, answer(records(0, 3) + rest))
    exchange(one, answer(rest))
    exchange(one, answer(records(7, 2)))
    assert offsets_of(taken(cursor.feed)) == [0, 1, 2, 7, 8]
    assert reported(cursor) == [(Reaction.SKIP, 3)]


def test_what_was_asked_for_behind_skipped_damage_counts() -> None:
    one = Table(FetchConfig(damaged_records=DamagePolicy.SKIP), scans_once=False)
    cursor = one.add(start=3)
    (delivery,) = one.table.note(one.table.plan(is_limited=True), response(answer(broken(records(3, 4)))))
    ahead = one.table.plan(is_limited=True)
    one.table.deliver([delivery])
    for delivery in one.table.note(ahead, response(answer(records(7, 2)))):
        one.table.deliver([delivery])
    assert offsets_of(taken(cursor.feed)) == [7, 8]


def test_what_was_not_decompressed_is_asked_for_again_in_smaller_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.fetching.cursor.CHUNK_BYTES_MAX", 70_000)
    one = Table()
    cursor = one.add()
    batches = [records(first, 100, size=300, codec=Codec.GZIP) for first in (0, 100, 200)]
    first = exchange(one, answer(b"".join(batches))).requests[PLACE]
    second = exchange(one, answer(batches[-1])).requests[PLACE]
    assert (second.offset, cursor.position) == (200, 300)
    assert second.size < first.size
    assert offsets_of(taken(cursor.feed)) == list(range(300))


def test_damage_that_the_broker_finds_stops_the_partition_too() -> None:
    one = Table()
    cursor = one.add(start=5)
    exchange(one, answer(error=Code.CORRUPT_MESSAGE, high_watermark=-1))
    with pytest.raises(CorruptRecord, match="t-0"):
        reader_of(cursor).poll(0)
    assert reader_of(cursor).skip() == 6


def test_a_cut_batch_is_asked_for_again_with_more_room_up_to_the_limit() -> None:
    one = Table(FetchConfig(fetch_message_max_bytes=100_000), budget_bytes=40_000)
    cursor = one.add()
    sizes = []
    for _ in range(4):
        plan = one.table.plan(is_limited=False)
        sizes.append(plan.requests[PLACE].size)
        one.table.note(plan, response(answer(records(0, 1, size=200_000)[: sizes[-1]])))
    assert sizes == [20_000, 40_000, 80_000, 100_000]
    with pytest.raises(
        MessageSizeTooLarge, match=r"larger than the 100000 bytes of fetch\.message\.max\.bytes"
    ):
        reader_of(cursor).poll(0)


def test_an_answer_larger_than_was_asked_for_is_taken_whole() -> None:
    one = Table(FetchConfig(fetch_message_max_bytes=1000))
    cursor = one.add()
    exchange(one, answer(records(0, 1, size=200_000)))
    assert offsets_of(taken(cursor.feed)) == [0]
