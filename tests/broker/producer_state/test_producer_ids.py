"""Producer ids and InitProducerId."""

from __future__ import annotations

import pytest

from ottla.broker.producer_state.producer_ids import (
    BLOCK_IDS,
    ID_MAX,
    MADE_UP_FROM,
    ProducerIds,
    init_producer_id,
)
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from tests.scale import seeded


class Disk:
    """What `store_end` writes to; it can be full."""

    def __init__(self) -> None:
        self.end = 0
        self.is_full = False

    def store(self, end: int) -> None:
        if self.is_full:
            raise StorageError("no room")
        self.end = end


def test_the_end_of_a_block_is_stored_before_its_first_id_is_given() -> None:
    disk = Disk()
    ids = ProducerIds(disk.end, disk.store)
    assert disk.end == 0
    given = [ids.take() for _ in range(2 * BLOCK_IDS + 1)]
    assert given == list(range(2 * BLOCK_IDS + 1))
    assert disk.end == 3 * BLOCK_IDS


def test_no_id_is_given_twice_across_restarts_and_failed_writes() -> None:
    random, disk, given = seeded(), Disk(), []
    for _ in range(50):
        ids = ProducerIds(disk.end, disk.store)
        for _ in range(random.choice([0, 1, 3, BLOCK_IDS, BLOCK_IDS + 1])):
            disk.is_full = random.random() < 0.01
            try:
                given.append(ids.take())
            except StorageError:
                continue
            assert given[-1] < disk.end
    assert len(set(given)) == len(given)


def test_a_failed_write_loses_no_id() -> None:
    disk = Disk()
    ids = ProducerIds(disk.end, disk.store)
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(StorageError):
            ids.take()
    disk.is_full = False
    assert ids.take() == 0


@pytest.mark.parametrize(
    ("end", "seen", "first"),
    [
        (0, [], 0),
        (2000, [7], 2000),
        (0, [4711, 12], 4712),
        (0, [12, MADE_UP_FROM, ID_MAX], 13),
    ],
)
def test_ids_begin_behind_those_that_logs_have(end: int, seen: list[int], first: int) -> None:
    disk = Disk()
    ids = ProducerIds(end, disk.store, seen)
    assert ids.take() == first
    assert disk.end == first + BLOCK_IDS


def test_the_end_of_all_ids_is_an_error() -> None:
    ids = ProducerIds(ID_MAX - BLOCK_IDS, Disk().store)
    for _ in range(BLOCK_IDS):
        assert ids.take() < ID_MAX
    with pytest.raises(KafkaError, match="used up"):
        ids.take()
    assert init_producer_id(ids).error_code == Code.UNKNOWN_SERVER_ERROR


def test_init_producer_id() -> None:
    answer = init_producer_id(ProducerIds(2000, Disk().store))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 2000, 0)


def test_a_full_disk_is_the_callers_to_answer() -> None:
    disk = Disk()
    disk.is_full = True
    with pytest.raises(StorageError):
        init_producer_id(ProducerIds(0, disk.store))
