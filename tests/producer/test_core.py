"""The core's rules one by one: what is ready, the order of leaving and coming again, the numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.client.network_errors import NetworkErrors
from ottla.client.reactions import Action, Call, action_for
from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, DeliveryExpired, KafkaError
from ottla.producer.partition_queue import NEVER, NO_LEADER
from ottla.producer.parts import ColumnSource, Part, Sizes, joined, taken
from ottla.producer.sequences import EPOCH_MAX, Identity
from ottla.producer.whole_parts import WholePart
from ottla.records.builder import Records
from ottla.records.columns import HEADERS
from tests.producer.one_core import BROKER, add, carried, core, in_flight, refuse, take_one
from tests.producer.simulated_cluster import TOPIC, numbers, part, whole_part

# ---- what is ready


def test_small_batches_linger_and_full_ones_do_not() -> None:
    one = core(batch_size=100)
    add(one, 1, now_ms=50.0)
    assert one.ready_at(BROKER) == 55.0
    assert one.take(BROKER, 54.9) == []
    add(one, 2, 3, 4, 5, now_ms=51.0)
    assert one.ready_at(BROKER) == 0.0
    assert carried(take_one(one, 52.0)) == [1]


def test_who_is_in_a_hurry_does_not_linger() -> None:
    one = core()
    add(one, 1)
    one.in_hurry = True
    assert one.ready_at(BROKER) == 0.0


def test_nothing_leaves_without_a_leader_or_an_id() -> None:
    one = core()
    one.identity = None
    add(one, 1)
    assert one.wants_identity
    assert (one.ready_at(BROKER), one.take(BROKER, 1e9)) == (NEVER, [])
    one.identity = Identity(1, 0)
    one.led(TOPIC, 0, NO_LEADER)
    assert one.leaderless == [(TOPIC, 0)]
    assert (one.ready_at(BROKER), one.take(BROKER, 1e9)) == (NEVER, [])
    one.led(TOPIC, 0, 2)
    assert one.ready_at(2) == 5.0


def test_a_request_has_one_batch_a_partition_within_its_size() -> None:
    one = core(partitions=5, batch_size=60, max_request_size=300, is_idempotent=False)
    for partition in range(5):
        add(one, 1, 2, 3, 4, partition=partition)
    first = one.take(BROKER, 1_000.0)
    assert [batch.partition for batch in first] == [0, 1, 2]
    assert [batch.partition for batch in one.take(BROKER, 1_000.0)] == [3, 4]
    for batch in first:
        one.stored(batch, 0, -1)
    add(one, 9, partition=4)
    assert [batch.partition for batch in one.take(BROKER, 1_000.0)] == [0, 1, 2]


def test_parts_are_joined_up_to_a_batch() -> None:
    one = core(batch_size=200)
    add(one, *range(20))
    sizes = [len(carried(take_one(one)))]
    assert 5 <= sizes[0] <= 8


# ---- order


def test_the_first_batch_of_an_id_goes_alone() -> None:
    one = core()
    one.in_hurry = True
    add(one, 1)
    first = take_one(one)
    add(one, 2)
    assert one.take(BROKER, 1e9) == []
    one.stored(first, 0, -1)
    assert carried(take_one(one)) == [2]


@pytest.mark.parametrize(("retries", "acks", "expected"), [(5, -1, 1), (0, -1, 2), (5, 0, 2)])
def test_without_idempotence_one_batch_is_in_flight_if_it_may_come_again(
    retries: int, acks: int, expected: int
) -> None:
    one = core(is_idempotent=False, retries=retries, acks=acks)
    one.in_hurry = True
    add(one, 1)
    found = [take_one(one)]
    add(one, 2)
    found += one.take(BROKER, 1e9)
    assert len(found) == expected


def test_after_a_failure_batches_come_again_alone_and_by_age() -> None:
    one = core()
    batches = in_flight(one, 3)
    refuse(one, batches[0], Code.NOT_ENOUGH_REPLICAS)
    refuse(one, batches[1], Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
    refuse(one, batches[2], Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
    add(one, 3)
    sequences = [batch.base_sequence for batch in batches]
    for expected in range(4):
        again = take_one(one, 1e9)
        assert carried(again) == [expected]
        assert one.take(BROKER, 1e9) == [] or expected == 3
        one.stored(again, expected + 1, -1)
    assert sequences == [1, 2, 3]
    assert one.is_empty


def test_a_partition_that_moves_waits_for_what_is_in_flight_elsewhere() -> None:
    one = core()
    (batch,) = in_flight(one, 1)
    add(one, 5)
    one.led(TOPIC, 0, 2)
    assert one.take(2, 1e9) == []
    one.lost([batch], ConnectionLost("gone"), 0.0)
    assert carried(one.take(2, 1e9)[0]) == [0]


# ---- numbers


def test_a_batch_that_failed_for_good_makes_a_new_epoch() -> None:
    one = core()
    first, second = in_flight(one, 2)
    _, outcomes = refuse(one, first, Code.INVALID_RECORD)
    assert [type(outcome.error) for outcome in outcomes] == [KafkaError]
    assert one.take(BROKER, 1e9) == [], "numbers change only when nothing is in flight"
    refuse(one, second, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
    again = take_one(one, 1e9)
    assert (again.identity, again.base_sequence, carried(again)) == (Identity(9, 1), 0, [1])


def test_a_batch_given_up_that_is_stored_all_the_same_costs_no_epoch() -> None:
    one = core(delivery_timeout_ms=100.0)
    first, second = in_flight(one, 2)
    first.created_ms, second.created_ms = 0.0, 50.0
    (outcome,) = one.expired(100.0, NetworkErrors(lambda: 0.0))
    assert "they may be stored all the same" in str(outcome.error)
    assert one.stored(first, 1, -1) == [], "it was told already"
    assert [len(outcome.parts) for outcome in one.stored(second, 2, -1)] == [1]
    add(one, 9)
    assert take_one(one).identity == Identity(9, 0)


def test_what_follows_a_lost_batch_finds_out_whether_it_was_stored() -> None:
    one = core(delivery_timeout_ms=100.0)
    first, second = in_flight(one, 2)
    one.lost([first, second], ConnectionLost("gone"), 0.0)
    first.created_ms, second.created_ms = 0.0, 50.0
    assert [outcome.parts for outcome in one.expired(100.0, NetworkErrors(lambda: 0.0))] == [first.parts]
    again = take_one(one, 1e9)
    assert (again.base_sequence, again.identity) == (2, Identity(9, 0)), "the old numbers, to find out"
    refuse(one, again, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
    again = take_one(one, 1e9)
    assert (again.base_sequence, again.identity) == (0, Identity(9, 1))


def test_epochs_that_are_used_up_need_another_id() -> None:
    one = core()
    one.identity = Identity(9, EPOCH_MAX)
    one.in_hurry = True
    add(one, 1)
    refuse(one, take_one(one), Code.INVALID_RECORD)
    add(one, 2)
    assert one.take(BROKER, 1e9) == []
    assert one.wants_identity
    assert one.ready_at(BROKER) == NEVER
    one.identity = Identity(10, 0)
    assert not one.wants_identity
    assert take_one(one, 1e9).identity == Identity(10, 0)


def test_numbers_go_on_at_0_behind_the_largest() -> None:
    one = core()
    in_flight(one, 0)
    sequences = one._queues[TOPIC, 0].sequences
    assert sequences is not None
    sequences.following = (1 << 31) - 2
    one.add(TOPIC, 0, [part([1, 2, 3], 0.0)])
    first = take_one(one)
    add(one, 4)
    second = take_one(one)
    assert (first.base_sequence, second.base_sequence) == ((1 << 31) - 2, 1), "as Kafka counts"
    halves = first.halves()
    assert [half.base_sequence for half in halves] == [(1 << 31) - 2, (1 << 31) - 1]


@pytest.mark.parametrize("code", [Code.UNKNOWN_PRODUCER_ID, Code.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_broker_that_forgot_the_producer_gets_all_of_it_under_a_new_epoch(code: Code) -> None:
    one = core()
    batches = in_flight(one, 3)
    for batch in batches:
        refuse(one, batch, code)
    again = []
    for _ in batches:
        batch = take_one(one, 1e9)
        again.append((carried(batch), batch.identity, batch.base_sequence))
        one.stored(batch, 0, -1)
    assert again == [([n], Identity(9, 1), n) for n in range(3)]


def test_a_split_batch_keeps_its_numbers() -> None:
    one = core(batch_size=2_000)
    one.in_hurry = True
    one.add(TOPIC, 0, [part(list(range(7)), 0.0)])
    action, _ = refuse(one, take_one(one), Code.MESSAGE_TOO_LARGE)
    assert action is Action.SPLIT
    halves = []
    for _ in range(2):
        half = take_one(one, 1e9)
        halves.append((half.base_sequence, carried(half)))
        one.stored(half, half.base_sequence, -1)
    assert halves == [(0, [0, 1, 2]), (3, [3, 4, 5, 6])]


# ---- batches that stay whole


def test_a_whole_batch_goes_at_once_and_alone() -> None:
    one = core(max_request_size=10_000)
    large = whole_part(list(range(500)), 0.0)
    assert large.size > one.limits.batch_size
    one.add(TOPIC, 0, [large, part([1], 0.0), whole_part([2], 0.0), part([3], 0.0)])
    assert one.ready_at(BROKER) == 0.0
    sent = []
    for _ in range(4):
        batch = take_one(one)
        sent.append((batch.base_sequence, [type(each) for each in batch.parts]))
        one.stored(batch, 0, -1)
    assert sent == [(0, [WholePart]), (500, [Part]), (501, [WholePart]), (502, [Part])]


def test_a_whole_batch_that_is_too_large_is_decoded_and_later_ones_before_they_are_sent() -> None:
    one = core(batch_size=100_000, max_request_size=100_000)
    one.in_hurry = True
    first, second = whole_part(list(range(70)), 0.0), whole_part(list(range(70, 140)), 0.0)
    one.add(TOPIC, 0, [first, second])
    refuse(one, take_one(one), Code.MESSAGE_TOO_LARGE)
    records: list[Any] = []
    held_bytes = 0
    while (batches := one.take(BROKER, 1e9)) != []:
        (batch,) = batches
        assert not any(each.is_whole for each in batch.parts)
        assert batch.base_sequence == len(records)
        records += carried(batch)
        held_bytes += sum(each.held_bytes for each in batch.parts)
        one.stored(batch, 0, -1)
    assert records == list(range(140))
    assert held_bytes == first.held_bytes + second.held_bytes


# ---- giving up


def test_records_that_were_never_sent_expire() -> None:
    one = core(delivery_timeout_ms=100.0)
    one.led(TOPIC, 0, NO_LEADER)
    add(one, 1, now_ms=10.0)
    add(one, 2, now_ms=60.0)
    assert one.expires_at() == 110.0
    (outcome,) = one.expired(110.0, NetworkErrors(lambda: 0.0))
    assert isinstance(outcome.error, DeliveryExpired)
    assert "they are not stored; no broker leads the partition" in str(outcome.error)
    assert numbers(outcome.parts[0]) == [1]
    assert one.expires_at() == 160.0


def test_retries_are_counted() -> None:
    one = core(retries=1)
    one.in_hurry = True
    add(one, 1)
    assert refuse(one, take_one(one), Code.REQUEST_TIMED_OUT)[1] == []
    (outcome,) = refuse(one, take_one(one, 1e9), Code.REQUEST_TIMED_OUT)[1]
    assert isinstance(outcome.error, KafkaError)
    assert one.is_empty


def test_what_is_abandoned_in_flight_may_still_be_answered() -> None:
    one = core()
    first, second = in_flight(one, 2)
    refuse(one, second, Code.NOT_ENOUGH_REPLICAS)
    add(one, 7)
    assert len(one.abandoned(ConnectionLost("over"))) == 3
    assert one.stored(first, 1, -1) == []
    assert one.is_empty
    add(one, 8)
    assert (take_one(one).identity, one.expired(0.0, NetworkErrors(lambda: 0.0))) == (Identity(9, 1), [])


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (Code.NONE, Action.NONE),
        (Code.DUPLICATE_SEQUENCE_NUMBER, Action.STORED),
        (Code.NOT_LEADER_OR_FOLLOWER, Action.REFRESH),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Action.REFRESH),
        (Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Action.RETRY),
        (Code.UNSUPPORTED_COMPRESSION_TYPE, Action.FAIL),
        (Code.PRODUCER_FENCED, Action.FAIL),
        (12345, Action.FAIL),
    ],
)
def test_error_codes_of_produce_responses_have_actions(code: int, action: Action) -> None:
    assert action_for(code, Call.PRODUCE) is action


# ---- parts


def sizes_of(values: list[bytes]) -> Sizes:
    return Sizes(Records.of(pa.record_batch({"value": pa.array(values, pa.binary())}), 0))


def test_sizes_count_keys_values_and_headers() -> None:
    columns = pa.record_batch(
        {
            "key": pa.array([b"kk", None, b""]),
            "value": pa.array([b"v" * 10, b"v", None]),
            "headers": pa.array(
                [[], [{"key": "h", "value": b"12"}, {"key": "i", "value": None}], []], HEADERS
            ),
        }
    )
    for piece in (columns, pa.concat_batches([columns.slice(2), columns]).slice(1)):
        sizes = Sizes(Records.of(piece, 0))
        assert (sizes.reach - sizes.reach[0]).tolist() == [0, 33, 33 + 46, 33 + 46 + 21]
        assert sizes.largest == 46


def test_runs_keep_within_the_limit_but_for_single_records() -> None:
    sizes = sizes_of([b"", bytes(100), b"", b"", b""])
    assert list(sizes.runs(50)) == [(0, 1, 21), (1, 2, 121), (2, 4, 42), (4, 5, 21)]
    assert list(sizes.runs(10_000)) == [(0, 5, 205)]
    assert list(sizes_of([]).runs(5)) == []
    assert sizes_of([]).largest == 0


def test_parts_of_different_columns_are_joined() -> None:
    first, second = part([1], 0.0), part([2, 3], 0.0)
    first.wall_ms, second.wall_ms = 100, 200
    second.source = ColumnSource.of(
        pa.record_batch(
            {
                "key": pa.array([b"a", None]),
                "value": pa.array([b"2", b"3"]),
                "timestamp": pa.array([7, None], pa.int64()),
                "headers": pa.array([[{"key": "h", "value": b""}], []], HEADERS),
            }
        ),
        0,
    )
    columns, _ = joined([first, second])
    assert columns.column("timestamp").to_pylist() == [100, 7, 200]
    assert columns.column("key").to_pylist() == [None, b"a", None]
    assert columns.column("headers").to_pylist()[1:] == [[{"key": "h", "value": b""}], []]


def test_a_table_in_chunks_is_taken_as_it_is() -> None:
    chunk = pa.array([b"v"] * 1_000)
    assert [piece.num_rows for piece in taken(pa.table({"value": pa.chunked_array([chunk, chunk])}))] == [
        1_000
    ] * 2
    tiny = pa.chunked_array([pa.array([b"v"])] * 10)
    assert [piece.num_rows for piece in taken(pa.table({"value": tiny}))] == [10]
