"""A part of a topic that ends by itself: by offsets and times, through gaps, retention and old brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError, Producer
from ottla.consumer.partition import OffsetRange, Progress, Replay, replay
from ottla.consumer.partition.replay_bounds import ReplayBound
from ottla.fetching.fetch_errors import Reaction
from ottla.model.errors import NoTimestamps, ReplayStalled
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import FetchRequest
from tests.consumer.partition.rows import checked, column, offsets
from tests.fetching.traffic import Writer
from tests.log.record_sets import batch, values
from tests.naive.record_set import marker
from tests.waiting import PATIENCE_S

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
COUNT = 100


@pytest.fixture(scope="module")
def timed(broker: EmbeddedBroker) -> str:
    """A topic of two partitions; record n is of n seconds after START, in partition n % 2."""
    broker.create_topic("timed", 2, config={"retention.ms": "-1"})
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in range(COUNT):
            value = b"v%d-" % (n // 2)
            producer.send("timed", value, b"k%d" % (n // 2), n % 2, START_MS + 1000 * n)
    return "timed"


@pytest.fixture
def read(broker: EmbeddedBroker) -> partial[Replay]:
    """`replay` of the module's broker."""
    return partial(replay, bootstrap_servers=broker.bootstrap)


def test_a_whole_topic_comes_once(read: partial[Replay], timed: str) -> None:
    with read(timed) as whole:
        table = whole.to_table()
        assert whole.progress == Progress(COUNT, COUNT, COUNT)
    assert table.column_names == ["partition", "offset", "timestamp", "timestamp_type", "key", "value"]
    assert sorted(
        zip(*(table.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
    ) == [(number, offset) for number in range(2) for offset in range(COUNT // 2)]


def test_messages_come_with_decoders_and_end(read: partial[Replay], timed: str) -> None:
    found = list(read(timed, [1], key_deserializer=bytes.decode).messages())
    assert [(one.topic, one.partition, one.key) for one in found] == [
        (timed, 1, f"k{n}") for n in range(COUNT // 2)
    ]


OFFSETS = [
    (10, 20, {0: (10, 20), 1: (10, 20)}),
    ({0: 45}, {1: 3}, {0: (45, 50), 1: (0, 3)}),
    ("earliest", "latest", {0: (0, 50), 1: (0, 50)}),
    ("latest", "latest", {0: (50, 50), 1: (50, 50)}),
]
TIMES = [
    (START + timedelta(seconds=10), START + timedelta(seconds=21), {0: (5, 11), 1: (5, 10)}),
    ("2026-01-31T12:01:30Z", "latest", {0: (45, 50), 1: (45, 50)}),
    (START + timedelta(days=1), "latest", {0: (50, 50), 1: (50, 50)}),
    (START - timedelta(days=1), START, {0: (0, 0), 1: (0, 0)}),
    ({0: START + timedelta(seconds=98), 1: 49}, 1000, {0: (49, 50), 1: (49, 50)}),
]


@pytest.mark.parametrize(
    ("version", "since", "until", "wanted"),
    [*(("", *row) for row in OFFSETS + TIMES), *(("0.9", *row) for row in OFFSETS)],
)
def test_bounds_are_met_exactly(
    read: partial[Replay],
    timed: str,
    version: str,
    since: ReplayBound,
    until: ReplayBound,
    wanted: dict[int, tuple[int, int]],
) -> None:
    with read(timed, since=since, until=until, broker_version=version) as part:
        assert part.ranges == wanted
        found = [(one.partition, one.offset) for one in checked(part.messages())]
        assert part.progress.fraction == 1.0
    expected = [(number, n) for number, (start, stop) in wanted.items() for n in range(start, stop)]
    assert sorted(found) == expected


def test_a_broker_that_knows_no_times_says_so(read: partial[Replay], timed: str) -> None:
    with (
        read(timed, since=START, broker_version="0.9") as part,
        pytest.raises(NoTimestamps, match=r"older than 0\.10\.1.*give since and until as offsets"),
    ):
        list(part)


def test_how_long_ago_is_a_bound(read: partial[Replay], topic: str, writer: Writer) -> None:
    writer.write(TopicAndPartition(topic, 0), 10)  # of 2023
    with Producer(bootstrap_servers=read.keywords["bootstrap_servers"]) as producer:
        producer.send(topic, b"now", partition=0)
    assert column(read(topic, since=timedelta(hours=1))) == [10]


def test_what_is_written_meanwhile_is_not_read(read: partial[Replay], topic: str, writer: Writer) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 100)
    with read(topic) as part:
        assert part.ranges[0] == OffsetRange(0, 100)
        writer.write(place, 100)
        assert column(part) == [*range(100)]


def test_empty_partitions_end_at_once(read: partial[Replay], topic: str) -> None:
    assert list(read(topic)) == []


def test_progress_goes_up(read: partial[Replay], topic: str, writer: Writer) -> None:
    writer.write(TopicAndPartition(topic, 0), 200, at_once=20)
    with read(topic, fetch_message_max_bytes=1000) as part:
        assert part.progress == Progress(0, 0, 0)
        seen = [part.progress for _ in part]
    assert len(seen) > 1
    assert (
        [one.records for one in seen] == [one.offsets for one in seen] == sorted(one.offsets for one in seen)
    )
    assert seen[-1] == Progress(200, 200, 200)


def test_it_is_read_once(read: partial[Replay], timed: str) -> None:
    part = read(timed)
    assert len(column(part)) == COUNT
    with pytest.raises(ConfigError, match=r"call replay\(\) again"):
        next(part.messages())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partitions": [7]}, r"has no partition 7; it has \[0, 1\]"),
        ({"since": {7: 0}}, "since has a bound for partition 7"),
        ({"since": 9, "until": 8}, "since is behind until"),
    ],
)
def test_what_cannot_be_read_is_refused(
    read: partial[Replay], timed: str, settings: dict[str, object], said: str
) -> None:
    with read(timed, **settings) as part, pytest.raises(ConfigError, match=said):
        list(part)


def test_nothing_is_an_empty_table(read: partial[Replay], topic: str) -> None:
    with read(topic) as nothing:
        assert repr(nothing) == f"<Replay of '{topic}': not begun>"
        table = nothing.to_table()
    assert (table.num_rows, table.schema) == (0, nothing.schema)
    assert table.column_names == ["partition", "offset", "timestamp", "timestamp_type", "key", "value"]
    assert read(topic, include_headers=True).to_table().column_names[-1] == "headers"
    assert repr(nothing) == f"<Replay of '{topic}': closed>"


def test_chunks_end_where_the_replay_does(read: partial[Replay], timed: str) -> None:
    with read(timed, [0], since=5, until=15) as part:
        assert [chunk.next_offset for chunk in part.chunks()][-1] == 15


def test_a_single_number_is_no_list_of_partitions() -> None:
    with pytest.raises(ConfigError, match=r"partitions=1: give a list, as in \[1\]"):
        replay("t", 1, bootstrap_servers="127.0.0.1:9")  # type: ignore[arg-type]


def test_a_reset_to_the_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="smallest or none"):
        replay("t", bootstrap_servers="127.0.0.1:9", auto_offset_reset="latest")


def test_a_topic_that_is_not_there_is_not_made(broker: EmbeddedBroker, read: partial[Replay]) -> None:
    with (
        read("nowhere", request_timeout_ms=200) as part,
        pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        list(part)


# --- offsets without records


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A log as compaction and transactions leave it: offsets 0-9, 30-39, markers at 40 and 41."""
    data_dir = tmp_path_factory.mktemp("gaps")
    with EmbeddedBroker(data_dir) as broker:
        broker.create_topic("t", config={"cleanup.policy": "compact"})
        broker.stop()
        pieces = [bytes(batch(*values(first, 10), base_offset=first)) for first in (0, 30)]
        pieces += [marker(1, base_offset=offset, kind=1) for offset in (40, 41)]
        (data_dir / "t-0" / f"{0:020}.log").write_bytes(b"".join(pieces))
        broker.start()
        yield broker


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        ("earliest", "latest", [*range(10), *range(30, 40)]),
        (5, 35, [*range(5, 10), *range(30, 35)]),
        (10, 30, []),
        (15, 20, []),
        (40, "latest", []),
        (0, 20, [*range(10)]),
    ],
)
def test_offsets_without_records_are_passed(
    gaps: EmbeddedBroker, since: int | str, until: int | str, wanted: list[int]
) -> None:
    with replay("t", since=since, until=until, bootstrap_servers=gaps.bootstrap) as part:
        assert [one.offset for one in checked(part.messages())] == wanted
        assert part.progress.fraction == 1.0


# --- retention


def test_a_beginning_that_is_gone_is_an_error_or_what_is_left(
    read: partial[Replay], topic: str, writer: Writer
) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 10)
    writer.delete_before(place, 4)
    with read(topic, [0], since=2) as part, pytest.raises(KafkaError, match="the log has offsets 4 to 10"):
        list(part)
    assert column(read(topic, [0], since=2, auto_offset_reset="smallest")) == [*range(4, 10)]


@pytest.mark.parametrize("reset", ["none", "smallest"])
def test_retention_overtakes_a_replay(read: partial[Replay], topic: str, writer: Writer, reset: str) -> None:
    """The broker removes what lies ahead of a reader that is slow."""
    place = TopicAndPartition(topic, 0)
    writer.write(place, 1000, at_once=10)
    slow = {"fetch_message_max_bytes": 500, "queued_max_message_chunks": 1, "auto_offset_reset": reset}
    with read(topic, [0], **slow) as part:
        messages = checked(part.messages())
        assert offsets(messages, 10) == [*range(10)]
        writer.delete_before(place, 990)
        if reset == "none":
            with pytest.raises(KafkaError, match=f"{topic}-0 at offset .*OFFSET_OUT_OF_RANGE"):
                list(messages)
        else:
            rest = [one.offset for one in messages]
            assert rest == sorted(set(rest))
            assert rest[-10:] == [*range(990, 1000)]
            assert part.progress.fraction == 1.0
    assert part.errors[0].reaction is (Reaction.STOP if reset == "none" else Reaction.RESET)


# --- the end


def test_a_replay_without_progress_says_where_and_why(
    broker: EmbeddedBroker, read: partial[Replay], timed: str
) -> None:
    broker.fail(FetchRequest.API.key, 3, times=1_000_000)
    try:
        with (
            read(timed, [0], stall_timeout=0.3) as part,
            pytest.raises(ReplayStalled, match=r"for 0.3 s: timed-0 at 0; last error: .*UNKNOWN_TOPIC"),
        ):
            list(part)
    finally:
        broker.clear_faults()


@pytest.mark.parametrize("iterate", ["batches", "chunks", "messages"])
def test_it_is_closed_from_another_thread(
    read: partial[Replay], topic: str, writer: Writer, iterate: str
) -> None:
    writer.write(TopicAndPartition(topic, 0), 1000, at_once=100)
    part = read(topic, fetch_message_max_bytes=500, queued_max_message_chunks=1)
    pieces = getattr(part, iterate)()
    next(pieces)
    closer = threading.Thread(target=part.close)
    closer.start()
    closer.join(PATIENCE_S)
    assert not closer.is_alive()
    assert list(pieces) == []
    part.close()


def test_it_is_closed_while_it_looks_for_brokers() -> None:
    part = replay("t", bootstrap_servers="127.0.0.1:9")
    found: list[list[object]] = []
    thread = threading.Thread(target=lambda: found.append(list(part)))
    thread.start()
    part.close()
    thread.join(PATIENCE_S)
    assert found == [[]]


def test_an_iterator_that_is_dropped_ends_its_threads(read: partial[Replay], timed: str) -> None:
    before = threading.active_count()
    assert len(list(islice(read(timed).messages(), 3))) == 3
    assert threading.active_count() == before


def test_a_log_without_records_has_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Writer(broker.bootstrap) as writer:
        broker.create_topic("t")
        writer.write(TopicAndPartition("t", 0), 10)
        writer.delete_before(TopicAndPartition("t", 0), 10)
        assert column(replay("t", bootstrap_servers=broker.bootstrap)) == []
