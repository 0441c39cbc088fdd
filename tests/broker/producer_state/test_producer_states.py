"""Idempotent producers: what is accepted, acknowledged again or refused, now and after a restart."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.producer_state import Duplicate, ProducerStates, load, save, save_if_rolled
from ottla.broker.producer_state.producer_states import SEQUENCE_MAX, ProducerState
from ottla.log.batch_header import BatchHeader, header_at
from ottla.log.compaction import compact
from ottla.log.end_markers import EndMarker
from ottla.log.log_config import LogConfig, MessageTimestampType
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_snapshots import Snapshot, write
from ottla.log.validation import checked
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.record_layout import CONTROL, TRANSACTIONAL
from tests.log.faulty_files import FullDisk, QuickFiles
from tests.log.record_sets import NOW, batch, open_log, values
from tests.scale import seeded

DAY_MS = 86_400_000
OUT_OF_ORDER = Code.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = Code.INVALID_PRODUCER_EPOCH


def header(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer_id: int = 7,
    attributes: int = 0,
    time: int = NOW,
) -> BatchHeader:
    """A batch as a producer sends it."""
    return BatchHeader(
        0, 100, 0, count - 1, 2, attributes, time, time, count, -1, producer_id, epoch, sequence
    )


def stored(base_offset: int, sent: BatchHeader) -> BatchHeader:
    """The same batch as the log has it."""
    delta = sent.last_offset - sent.base_offset
    return sent._replace(base_offset=base_offset, last_offset=base_offset + delta)


class Partition:
    """The way of a produce through states and offsets, without a log."""

    def __init__(self, *history: BatchHeader) -> None:
        self.states = ProducerStates()
        self.next_offset = 0
        for sent in history:
            assert self.produce(sent) is None
        self.states.commit()

    def produce(self, sent: BatchHeader) -> Duplicate | Code | None:
        """None if it was staged."""
        try:
            duplicate = self.states.check(sent)
        except KafkaError as error:
            return Code(error.code)  # type: ignore[call-arg]
        if duplicate is None:
            self.states.stage(sent, self.next_offset)
            self.next_offset += sent.record_count
        return duplicate


@pytest.mark.parametrize(
    ("history", "sent", "outcome"),
    [
        pytest.param([], header(0), None, id="a new producer"),
        pytest.param([], header(41, epoch=3), None, id="an unknown producer goes on"),
        pytest.param([header(0, 3)], header(3), None, id="the next sequence"),
        pytest.param([header(0, 3)], header(4), OUT_OF_ORDER, id="a gap"),
        pytest.param([header(0, 3)], header(2), OUT_OF_ORDER, id="an overlap"),
        pytest.param([header(0, 3)], header(0, 3), Duplicate(0, 2, NOW), id="the last batch again"),
        pytest.param([header(0, 3)], header(0, 2), OUT_OF_ORDER, id="its first records again"),
        pytest.param([header(0, 3)], header(0, 4), OUT_OF_ORDER, id="it, and one record more"),
        pytest.param([header(5, 3)], header(5, 3), Duplicate(0, 2, NOW), id="one that began anywhere"),
        pytest.param([header(0), header(1)], header(0), Duplicate(0, 0, NOW), id="the one before it"),
        pytest.param([header(n) for n in range(5)], header(0), Duplicate(0, 0, NOW), id="5 batches back"),
        pytest.param([header(n) for n in range(6)], header(0), OUT_OF_ORDER, id="6 batches back"),
        pytest.param([header(0, epoch=2)], header(1, epoch=1), FENCED, id="an old epoch"),
        pytest.param([header(0, epoch=2)], header(0, epoch=1), FENCED, id="an old epoch from its start"),
        pytest.param([header(0)], header(0, epoch=1), None, id="a new epoch"),
        pytest.param([header(0)], header(1, epoch=1), OUT_OF_ORDER, id="a new epoch that goes on counting"),
        pytest.param(
            [header(0), header(0, epoch=1)], header(0, epoch=0), FENCED, id="no retry of old epochs"
        ),
        pytest.param([header(0)], header(9, producer_id=8), None, id="producers do not meet"),
        pytest.param([], header(0, attributes=TRANSACTIONAL), None, id="a transaction"),
        pytest.param(
            [header(0, attributes=TRANSACTIONAL)],
            header(1),
            Code.INVALID_TXN_STATE,
            id="beside its own",
        ),
    ],
)
def test_what_a_produce_is_answered(
    history: list[BatchHeader], sent: BatchHeader, outcome: Duplicate | Code | None
) -> None:
    assert Partition(*history).produce(sent) == outcome


def test_an_answer_names_producer_sequence_and_what_was_due() -> None:
    states = Partition(header(0, 3)).states
    with pytest.raises(KafkaError, match=r"producer 7, epoch 0: sequence 9, not 3: OUT_OF_ORDER"):
        states.check(header(9))
    with pytest.raises(KafkaError, match=r"producer 7: sequence 5 begins epoch 1, not 0: OUT_OF_ORDER"):
        states.check(header(5, epoch=1))


@pytest.mark.parametrize(
    ("last", "sent", "outcome"),
    [
        (header(SEQUENCE_MAX - 2, 3), header(0), None),
        (header(SEQUENCE_MAX - 1, 3), header(1), None),
        (header(SEQUENCE_MAX - 1, 3), header(SEQUENCE_MAX - 1, 3), Duplicate(0, 2, NOW)),
        (header(SEQUENCE_MAX - 1, 3), header(0), OUT_OF_ORDER),
        (header(SEQUENCE_MAX - 2, 3), header(1), OUT_OF_ORDER),
    ],
)
def test_behind_the_last_sequence_comes_the_first(
    last: BatchHeader, sent: BatchHeader, outcome: Duplicate | Code | None
) -> None:
    assert Partition(last).produce(sent) == outcome


def test_the_kept_batches_reach_over_the_wrap_around() -> None:
    partition = Partition(*(header((SEQUENCE_MAX - 3 + 2 * n) & SEQUENCE_MAX, 2) for n in range(4)))
    for number in range(4):
        sent = header((SEQUENCE_MAX - 3 + 2 * number) & SEQUENCE_MAX, 2)
        assert partition.produce(sent) == Duplicate(2 * number, 2 * number + 1, NOW)


def test_a_retry_in_the_same_turn_is_seen_before_the_write() -> None:
    partition = Partition()
    assert partition.produce(header(0, 2)) is None
    assert partition.produce(header(2, 2)) is None
    assert partition.produce(header(0, 2)) == Duplicate(0, 1, NOW)
    assert partition.produce(header(2, 2)) == Duplicate(2, 3, NOW)
    assert partition.produce(header(5)) is OUT_OF_ORDER


def test_what_was_not_written_is_forgotten() -> None:
    partition = Partition(*(header(n) for n in range(5)))
    before = partition.states.get(7)
    for sent in (header(5), header(6), header(0, epoch=1), header(1, epoch=1), header(0, producer_id=8)):
        assert partition.produce(sent) is None
    partition.states.rollback()
    assert partition.states.get(7) == before
    assert partition.states.get(8) is None
    assert partition.produce(header(0)) == Duplicate(0, 0, NOW)
    assert partition.produce(header(5)) is None
    partition.states.commit()
    partition.states.rollback()
    assert partition.produce(header(5)) == Duplicate(5 + 5, 5 + 5, NOW)


def test_producers_expire_by_the_time_of_their_records() -> None:
    partition = Partition(header(0, time=NOW - DAY_MS), header(0, producer_id=8, time=NOW - DAY_MS + 1))
    assert partition.states.expire(NOW, DAY_MS) == 1
    assert set(partition.states.ids) == {8}
    assert partition.produce(header(77)) is None


def test_expiry_in_a_turn_that_fails_leaves_no_staged_batch() -> None:
    partition = Partition()
    partition.produce(header(0, time=0))
    partition.states.expire(NOW, DAY_MS)
    partition.states.rollback()
    assert len(partition.states) == 0


# ---- stored batches


def test_markers_of_transactions_that_apache_kafka_wrote() -> None:
    control = header(-1, attributes=CONTROL | TRANSACTIONAL, time=NOW + 5)
    data = stored(0, header(0, 2, attributes=TRANSACTIONAL)), None
    states = ProducerStates()
    states.rebuild([data])
    assert (states.get(7), states.first_unstable) == (
        ProducerState(0, 1, NOW, ((0, 1, 0, 1, NOW),), -1, 0),
        0,
    )
    states.rebuild([data, (stored(2, control), EndMarker(7, 0, 3, is_commit=True))])
    assert states.get(7) == ProducerState(0, 1, NOW + 5, ((0, 1, 0, 1, NOW),), 3, -1)
    # Since 4.0 a marker begins the next epoch.
    later = stored(2, control._replace(producer_epoch=1))
    states.rebuild([data, (later, EndMarker(7, 1, 3, is_commit=False))])
    assert (states.get(7), states.first_unstable) == (ProducerState(1, -1, NOW + 5, (), 3, -1), -1)
    assert states.check(header(0, epoch=1)) is None
    # Compaction may leave an empty one: its transaction is gone.
    states.rebuild([(stored(2, control._replace(record_count=0)), None)])
    assert len(states) == 0


def header_of(data: bytearray) -> BatchHeader:
    """Of a set that is not appended yet."""
    found = header_at(data, 0, 0)
    assert found is not None
    return found


def produced(log: PartitionLog, states: ProducerStates, *sets: bytearray, now: int = NOW) -> None:
    """One turn. A write that fails is undone."""
    for data in sets:
        accepted = checked(data, log.config, now)
        sent = header_of(data)
        if sent.producer_id < 0:
            log.append(accepted, now)
        elif states.check(sent) is None:
            appended = log.append(accepted, now)
            states.stage(sent, appended.base_offset, appended.append_time_ms)
    try:
        log.write_staged()
    except StorageError:
        states.rollback()
        raise
    states.commit()


def numbered(first: int, count: int, *, producer_id: int = 7, epoch: int = 0, size: int = 20) -> bytearray:
    """A batch of an idempotent producer."""
    return batch(
        *values(first, count, size), producer_id=producer_id, producer_epoch=epoch, base_sequence=first
    )


def known(states: ProducerStates) -> dict[int, ProducerState | None]:
    return {producer_id: states.get(producer_id) for producer_id in states.ids}


def rebuilt(log: PartitionLog) -> ProducerStates:
    states = ProducerStates()
    states.rebuild(log.history())
    return states


def test_a_log_tells_the_same_as_its_live_states(tmp_path: Path) -> None:
    log, states = open_log(tmp_path / "t-0", file_system=QuickFiles()), ProducerStates()
    produced(log, states, numbered(0, 3), numbered(3, 2), batch(*values(0, 4)))
    produced(log, states, numbered(0, 1, producer_id=8), numbered(0, 3), numbered(0, 2, epoch=1))
    assert log.high_watermark == 3 + 2 + 4 + 1 + 2
    assert known(rebuilt(log)) == known(states)


def test_a_duplicate_of_a_topic_with_append_time_has_the_first_time(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME)
    log, states = open_log(tmp_path / "t-0", config, QuickFiles()), ProducerStates()
    produced(log, states, numbered(0, 3), now=NOW + 11)
    assert states.check(header_of(numbered(0, 3))) == Duplicate(0, 2, NOW + 11)
    assert known(rebuilt(log)) == known(states)


def test_deleted_records_do_not_make_a_producer_unknown(tmp_path: Path) -> None:
    log, states = open_log(tmp_path / "t-0", file_system=QuickFiles()), ProducerStates()
    produced(log, states, numbered(0, 3))
    log.delete_records(-1)
    with pytest.raises(KafkaError, match="OUT_OF_ORDER"):
        produced(log, states, numbered(5, 1))


def test_compaction_leaves_what_a_restart_needs(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, cleanup_policy=frozenset({"compact"}))
    log, states = open_log(tmp_path / "t-0", config, QuickFiles()), ProducerStates()
    for number in range(30):
        rows = [(b"same", b"v" * 100)] * 3
        stamp: dict[str, Any] = {
            "producer_id": number % 3,
            "producer_epoch": 0,
            "base_sequence": number // 3 * 3,
        }
        produced(log, states, batch(*rows, **stamp))
    assert compact(log, 0, NOW).records_dropped
    after = rebuilt(log)
    for producer_id in range(3):
        live, found = states.get(producer_id), after.get(producer_id)
        assert live is not None
        assert found is not None
        assert found[:3] == live[:3]
        assert found.batches[-1] == live.batches[-1]


# ---- restart

SMALL_SEGMENTS = LogConfig(segment_bytes=100_000)


def filled(path: Path, batches: int = 300) -> tuple[PartitionLog, ProducerStates]:
    """A log that is worth a snapshot, of two producers and a third who wrote first and never again."""
    log, states = open_log(path, SMALL_SEGMENTS, QuickFiles()), ProducerStates()
    produced(log, states, numbered(0, 2, producer_id=3))
    for number in range(batches):
        produced(log, states, numbered(number // 2, 1, producer_id=1 + number % 2, size=1000))
    return log, states


def loaded(log: PartitionLog, now: int = NOW) -> ProducerStates:
    states = ProducerStates()
    load(states, log, now, DAY_MS)
    return states


def reopened(log: PartitionLog) -> PartitionLog:
    log.close()
    return open_log(log.path, log.config, QuickFiles(), clean=True, start_offset=log.start_offset)


def snapshot_offsets(log: PartitionLog) -> list[int]:
    return sorted(int(path.stem) for path in log.path.glob("*.snapshot"))


def offsets_walked(log: PartitionLog) -> list[int]:
    """Where walks over the log begin from now on."""
    asked: list[int] = []
    walk = log.history

    def history(offset: int = 0) -> Iterator[tuple[BatchHeader, EndMarker | None]]:
        asked.append(offset)
        return walk(offset)

    log.history = history  # type: ignore[method-assign]
    return asked


def test_a_clean_restart_knows_every_batch_that_was_under_way(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    assert save(states, log)
    assert snapshot_offsets(log) == [log.high_watermark]
    log = reopened(log)
    assert known(loaded(log)) == known(states)


def test_a_clean_restart_walks_nothing(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    save(states, log)
    log = reopened(log)
    walked = offsets_walked(log)
    assert known(loaded(log)) == known(states)
    assert walked == [log.high_watermark]
    assert [segment.is_read for segment in log.segments] == [False] * (len(log.segments) - 1) + [True]


def test_after_a_crash_the_batches_behind_the_snapshot_count(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0", 250)
    assert save_if_rolled(states, log)
    assert not save_if_rolled(states, log)
    written = snapshot_offsets(log)
    for number in range(250, 270):
        produced(log, states, numbered(number // 2, 1, producer_id=1 + number % 2, size=1000))
    log.abandon()
    log = open_log(log.path, SMALL_SEGMENTS, QuickFiles())
    assert snapshot_offsets(log) == written
    assert known(loaded(log)) == known(states)


def test_batches_under_way_are_known_although_a_segment_has_just_begun(tmp_path: Path) -> None:
    """A client that lost the answers of several sends the first of them again."""
    log, states = filled(tmp_path / "t-0")
    log._segments.roll(log.high_watermark, log.config, NOW)
    save(states, log)
    log.abandon()
    log = open_log(log.path, SMALL_SEGMENTS, QuickFiles())
    assert log.active.size == 0
    assert known(loaded(log)) == known(states)


def test_a_snapshot_is_of_what_is_written(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    before = known(states)
    data = numbered(150, 1, producer_id=1)
    sent = header_of(data)
    states.stage(sent, log.append(checked(data, log.config, NOW), NOW).base_offset)
    states.stage(header(0, producer_id=99), 5000)
    save(states, log)
    log.abandon()
    log = open_log(log.path, SMALL_SEGMENTS, QuickFiles())
    assert known(loaded(log)) == before


def test_a_snapshot_above_the_end_of_a_cut_log_is_gone_before_the_next_append(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    save(states, log)
    log.truncate(log.high_watermark - 40)
    states = loaded(log)
    assert snapshot_offsets(log) == []
    assert known(states) == known(rebuilt(log))
    assert states.check(header(130, producer_id=1)) is None


@pytest.mark.parametrize("damage", [b"", b"\0\1", b"garbage that is long enough to have a checksum"])
def test_a_damaged_snapshot_costs_a_walk_and_nothing_else(tmp_path: Path, damage: bytes) -> None:
    log, states = filled(tmp_path / "t-0")
    save(states, log)
    log = reopened(log)
    next(log.path.glob("*.snapshot")).write_bytes(damage)
    assert known(loaded(log)) == known(states)
    assert snapshot_offsets(log) == []


def test_a_snapshot_by_kafka_has_the_last_batch_of_each_producer(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    write(log.path, Snapshot(log.high_watermark, states.entries()), QuickFiles())
    after = loaded(reopened(log))
    for producer_id in (1, 2, 3):
        live, found = states.get(producer_id), after.get(producer_id)
        assert live is not None
        assert found == live._replace(batches=live.batches[-1:])


def test_a_snapshot_knows_producers_whose_records_were_deleted(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    log.delete_records(log.high_watermark)
    log.purge()
    save(states, log)
    after = loaded(reopened(log))
    assert set(after.ids) == {1, 2, 3}
    with pytest.raises(KafkaError, match="OUT_OF_ORDER"):
        after.check(header(9, producer_id=3))


def test_a_snapshot_below_the_start_is_not_believed(tmp_path: Path) -> None:
    """Producer 1 went on behind it, and the batches that would tell are deleted: it may go on again."""
    log, states = filled(tmp_path / "t-0")
    save(states, log)
    produced(log, states, numbered(150, 1, producer_id=1), numbered(0, 1, producer_id=4))
    log.delete_records(log.high_watermark)
    log = reopened(log)
    after = loaded(log)
    assert 1 not in after.ids
    assert after.check(header(151, producer_id=1)) is None


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    log, states = filled(tmp_path / "t-0")
    save(states, log)
    assert len(loaded(reopened(log), NOW + DAY_MS)) == 0


def test_small_logs_get_no_snapshot(tmp_path: Path) -> None:
    log, states = open_log(tmp_path / "t-0"), ProducerStates()
    produced(log, states, numbered(0, 3))
    assert not save(states, log)
    assert not save_if_rolled(states, log)
    assert known(loaded(reopened(log))) == known(states)


# ---- random walk


class QuickFullDisk(QuickFiles, FullDisk):
    """A disk that may be full, and is not waited for."""


class NaiveProducers:
    """The rules once more: every batch that was ever written, looked through each time."""

    def __init__(self) -> None:
        self.written: list[tuple[int, BatchHeader]] = []

    def outcome(self, sent: BatchHeader) -> Duplicate | Code | None:
        mine = [(at, old) for at, old in self.written if old.producer_id == sent.producer_id]
        if not mine:
            return None
        epoch = mine[-1][1].producer_epoch
        if sent.producer_epoch < epoch:
            return FENCED
        if sent.producer_epoch > epoch:
            return None if sent.base_sequence == 0 else OUT_OF_ORDER
        of_epoch = deque(((at, old) for at, old in mine if old.producer_epoch == epoch), maxlen=5)
        for at, old in of_epoch:
            if (old.base_sequence, old.record_count) == (sent.base_sequence, sent.record_count):
                return Duplicate(at, at + old.record_count - 1, old.max_timestamp)
        last = of_epoch[-1][1]
        due = (last.base_sequence + last.record_count) % (SEQUENCE_MAX + 1)
        return None if sent.base_sequence == due else OUT_OF_ORDER


def drawn(random: Random, model: NaiveProducers) -> tuple[int, int, int, int]:
    """Producer, epoch, first sequence and count of what a client might send: mostly something sensible."""
    producer_id = random.randrange(3)
    mine = [old for _, old in model.written if old.producer_id == producer_id]
    if not mine:
        return producer_id, random.randrange(2), random.choice([0, 5, SEQUENCE_MAX - 3]), random.randint(1, 4)
    last, kind = mine[-1], random.random()
    if kind < 0.55:
        due = (last.base_sequence + last.record_count) % (SEQUENCE_MAX + 1)
        return producer_id, last.producer_epoch, due, random.randint(1, 4)
    if kind < 0.8:
        old = random.choice(mine[-8:])
        return producer_id, old.producer_epoch, old.base_sequence, old.record_count
    if kind < 0.88:
        return producer_id, last.producer_epoch + 1, random.choice([0, 0, 3]), random.randint(1, 4)
    jumped = (last.base_sequence + random.randint(-5, 9)) & SEQUENCE_MAX
    return producer_id, last.producer_epoch - random.randrange(2), jumped, random.randint(1, 4)


@pytest.mark.parametrize("number", range(8))
def test_random_turns_agree_with_a_naive_model(tmp_path: Path, number: int) -> None:
    random, disk = seeded(number), QuickFullDisk()
    config = LogConfig(segment_bytes=60_000)
    log, states, model = open_log(tmp_path / "t-0", config, disk), ProducerStates(), NaiveProducers()
    outcomes = set()
    for turn in range(120):
        before = list(model.written)
        for _ in range(random.randint(1, 8)):
            producer_id, epoch, first, count = drawn(random, model)
            stamp: dict[str, Any] = {
                "producer_id": producer_id,
                "producer_epoch": max(epoch, 0),
                "base_sequence": first,
            }
            rows = [(None, b"v" * random.choice([1, 900]))] * count
            data = batch(*rows, timestamp=NOW + turn, **stamp)
            sent = header_of(data)
            try:
                outcome: Duplicate | Code | None = states.check(sent)
            except KafkaError as error:
                outcome = Code(error.code)  # type: ignore[call-arg]
            assert outcome == model.outcome(sent)
            outcomes.add(outcome if isinstance(outcome, Code) else type(outcome))
            if outcome is None:
                appended = log.append(checked(data, config, NOW), NOW)
                states.stage(sent, appended.base_offset)
                model.written.append((appended.base_offset, sent))
        disk.room = random.choice([1 << 60] * 4 + [0, 70])
        try:
            log.write_staged()
            states.commit()
        except StorageError:
            states.rollback()
            model.written = before
        disk.room = 1 << 60
        if random.random() < 0.1:
            save_if_rolled(states, log)
        if random.random() < 0.05:
            assert known(rebuilt(log)) == known(states)
    assert outcomes == {type(None), Duplicate, OUT_OF_ORDER, FENCED}
    save(states, log)
    after = loaded(reopened(log))

    def without_time(states: ProducerStates) -> dict[int, tuple[object, ...]]:
        return {number: tuple(states.get(number) or ())[:3] for number in states.ids}

    assert without_time(after) == without_time(states)
