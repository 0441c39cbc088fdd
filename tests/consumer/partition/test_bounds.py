"""What users write as bounds, and what that means in a log; trimming to the record. Without a broker."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla import ConfigError, KafkaError
from ottla.client.list_offsets import LogEnds
from ottla.consumer.partition.replay_bounds import parse_bounds, range_to_read
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange, Trimmer
from ottla.fetching.fetch_config import OffsetReset
from ottla.model.errors import NoTimestamps
from ottla.model.offset_spec import EARLIEST, LATEST, OffsetOrTime
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import Message, MessageSet

PLACE = TopicAndPartition("orders", 3)
NOW_MS = 1_800_000_000_000
ENDS = LogEnds(100, 200, {1000: 150, 2000: -1, 3000: None})


def test_partitions_may_have_bounds_of_their_own() -> None:
    assert parse_bounds("since", 5, "earliest", [0, 1], NOW_MS) == {0: OffsetOrTime(5), 1: OffsetOrTime(5)}
    assert parse_bounds("since", {1: 5}, "earliest", [0, 1], NOW_MS) == {
        0: OffsetOrTime(time=EARLIEST),
        1: OffsetOrTime(5),
    }
    with pytest.raises(ConfigError, match="until has a bound for partition 7"):
        parse_bounds("until", {7: 5}, "latest", [0, 1], NOW_MS)


EARLY, LATE = OffsetOrTime(time=EARLIEST), OffsetOrTime(time=LATEST)


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (EARLY, LATE, ReadRange(OffsetRange(100, 200))),
        (OffsetOrTime(120), OffsetOrTime(130), ReadRange(OffsetRange(120, 130))),
        (OffsetOrTime(120), OffsetOrTime(999), ReadRange(OffsetRange(120, 200))),
        (OffsetOrTime(200), LATE, ReadRange(OffsetRange(200, 200))),
        (LATE, EARLY, ReadRange(OffsetRange(200, 200))),
        (OffsetOrTime(time=1000), OffsetOrTime(time=2000), ReadRange(OffsetRange(150, 200))),
        (OffsetOrTime(time=2000), LATE, ReadRange(OffsetRange(200, 200))),
        (OffsetOrTime(180), OffsetOrTime(time=1000), ReadRange(OffsetRange(180, 180))),
        (EARLY, OffsetOrTime(50), ReadRange(OffsetRange(100, 100))),
        (OffsetOrTime(time=3000), OffsetOrTime(time=3000), ReadRange(OffsetRange(100, 200), 3000, 3000)),
    ],
)
def test_a_passage_is_within_the_log(since: OffsetOrTime, until: OffsetOrTime, wanted: ReadRange) -> None:
    assert range_to_read(PLACE, since, until, ENDS, OffsetReset.NONE) == wanted


def test_a_beginning_that_the_log_does_not_have_is_an_error_or_what_is_left() -> None:
    with pytest.raises(KafkaError, match="orders-3: since=50, and the log has offsets 100 to 200"):
        range_to_read(PLACE, OffsetOrTime(50), LATE, ENDS, OffsetReset.NONE)
    assert range_to_read(PLACE, OffsetOrTime(50), LATE, ENDS, OffsetReset.SMALLEST).offsets == (100, 200)
    with pytest.raises(KafkaError, match="since=201"):
        range_to_read(PLACE, OffsetOrTime(201), LATE, ENDS, OffsetReset.SMALLEST)


@pytest.mark.parametrize(
    ("since", "until"), [(OffsetOrTime(7), OffsetOrTime(6)), (OffsetOrTime(time=7), OffsetOrTime(time=6))]
)
def test_bounds_the_wrong_way_round_are_refused(since: OffsetOrTime, until: OffsetOrTime) -> None:
    with pytest.raises(ConfigError, match="since is behind until"):
        range_to_read(PLACE, since, until, LogEnds(0, 10, {6: 1, 7: 2}), OffsetReset.NONE)


def test_bounds_are_told_as_a_user_would() -> None:
    bounds = [OffsetOrTime(7), OffsetOrTime(time=1500), OffsetOrTime(time=EARLIEST), OffsetOrTime()]
    assert [*map(str, bounds)] == ["offset 7", "1970-01-01T00:00:01.500+00:00", "earliest", "latest"]


# --- trimming


def batches(times: list[int], *, at_once: int = 2, magic: int = 2) -> list[pa.RecordBatch]:
    """Records with offsets from 10 on."""
    made = []
    for first in range(0, len(times), at_once):
        messages = [Message(b"v", timestamp_ms=time) for time in times[first : first + at_once]]
        (piece,) = MessageSet.of(messages, magic=magic, base_offset=10 + first).decoded()
        made.append(piece.batch)
    return made


def trimmed(given: list[pa.RecordBatch], wanted: ReadRange) -> tuple[list[int], bool]:
    trimmer, found = Trimmer(PLACE, wanted), []
    for batch in given:
        if not trimmer.is_done:
            found += trimmer.trim(batch).column("offset").to_pylist()
    return found, trimmer.is_done


def test_offsets_are_cut_exactly() -> None:
    given = batches([0] * 6, at_once=4)
    assert trimmed(given, ReadRange(OffsetRange(11, 13))) == ([11, 12], True)
    assert trimmed(given, ReadRange(OffsetRange(10, 16))) == ([*range(10, 16)], False)
    assert trimmed(given, ReadRange(OffsetRange(0, 5))) == ([], True)


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_times_begin_and_end_at_the_first_record_of_that_time(at_once: int) -> None:
    given = batches([100, 300, 200, -1, 500, 400, 50], at_once=at_once)
    whole = OffsetRange(10, 17)
    assert trimmed(given, ReadRange(whole, 200, 450)) == ([11, 12, 13], True)
    assert trimmed(given, ReadRange(whole, 400)) == ([14, 15, 16], False)
    assert trimmed(given, ReadRange(whole, None, 50)) == ([], True)
    assert trimmed(given, ReadRange(whole, 501, 600)) == ([], False)


def test_records_without_times_say_so() -> None:
    with pytest.raises(
        NoTimestamps, match=r"orders-3: .*format 0 carry none; give since and until as offsets"
    ):
        trimmed(batches([5], magic=0), ReadRange(OffsetRange(0, 99), 5))
