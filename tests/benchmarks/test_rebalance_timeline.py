"""What the benchmark of rebalances makes of deliveries. Nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.rebalance.__main__ import TABLES, replaced
from benchmarks.rebalance.hosts import Notes
from benchmarks.rebalance.member_host import parsed
from benchmarks.rebalance.timeline import (
    Delivery,
    Place,
    are_all_reading,
    is_shared,
    outcome,
    overlap,
)


def written(count: int, partitions: int = 2) -> dict[Place, float]:
    """A record a second in each partition."""
    return {(partition, at): float(at) for partition in range(partitions) for at in range(count)}


def test_a_partition_that_moves_is_settled_with_its_new_owner() -> None:
    before = [Delivery(at + 0.1, "a", partition, at) for at in range(5) for partition in (0, 1)]
    stays = [Delivery(at + 0.1, "a", 0, at) for at in range(5, 10)]
    moves = [Delivery(max(at, 7) + 0.1, "b", 1, at) for at in range(5, 10)]
    told = outcome(before + stays + moves, written(10), since_s=4.5, until_s=20.0)
    assert told.settled_s == pytest.approx(2.6)
    assert told.longest_wait_s == pytest.approx(2.1)
    assert told.moved == 1
    assert told.twice == 0


def test_what_nobody_reads_waits_until_the_end() -> None:
    told = outcome([Delivery(0.1, "a", 0, 0)], written(2, partitions=1), since_s=0.5, until_s=9.0)
    assert told.longest_wait_s == 8.0


def test_what_is_delivered_again_is_counted() -> None:
    again = [Delivery(1.1, "a", 0, 1), Delivery(1.5, "b", 0, 1)]
    assert outcome(again, written(2, partitions=1), since_s=1.0, until_s=9.0).twice == 1


def test_members_share_when_each_has_its_part_of_what_is_new() -> None:
    both = [Delivery(3.1, "a", 0, 3), Delivery(3.1, "b", 1, 3)]
    assert is_shared(both, written(5), {"a", "b"}, 2, since_s=2.5)
    assert not is_shared(both, written(5), {"a", "b"}, 2, since_s=3.5)
    assert not is_shared(both, written(5), {"a"}, 2, since_s=2.5)
    assert not is_shared(both, written(5), {"a", "b", "c"}, 3, since_s=2.5)
    assert is_shared(both, written(5), {"a", "b", "c"}, 2, since_s=2.5)
    assert is_shared(both, written(3), {"a", "b"}, 2, since_s=2.5), "the writer has not noted it yet"


def test_a_share_group_is_well_when_all_who_are_left_read_since_the_leaver_stopped() -> None:
    times = written(4, partitions=1)
    told = [Delivery(1.1, "a", 0, 1), Delivery(2.1, "left", 0, 2), Delivery(3.1, "a", 0, 3)]
    assert are_all_reading(told, times, ["a"], 1, since_s=0.5)
    assert not are_all_reading(told, times, ["a", "b"], 1, since_s=0.5)
    assert not are_all_reading(told[:2], times, ["a"], 1, since_s=0.5), "the leaver was the last to read"


def test_a_former_owner_is_stale_from_the_new_ones_first_delivery_on() -> None:
    seen = [Delivery(1.0, "old", 0, 1), Delivery(2.0, "new", 0, 1), Delivery(2.5, "old", 0, 2)]
    told = overlap(seen, "old", "new", since_s=1.5)
    assert (told.records, told.seconds) == (1, 0.5)


def test_notes_are_taken_of_what_hosts_say() -> None:
    notes = Notes()
    for line in ("joined a 1500000000", "record a 3 17 2000000000", "count a 2", "failed b no luck at all"):
        notes.take(f"{line}\n")
    assert notes.joined == {"a": 1.5}
    assert notes.deliveries == [Delivery(2.0, "a", 3, 17)]
    assert notes.counts == {"a": 2}
    assert notes.failed == {"b": "no luck at all"}


def test_properties_are_words() -> None:
    assert parsed(["group.id=billing", "x=a=b"]) == {"group.id": "billing", "x": "a=b"}


def test_tables_are_replaced_in_their_places() -> None:
    page = "# Title\n<!-- a -->\nold\n<!-- end -->\ntext\n<!-- b -->\nother\n<!-- end -->\n"
    assert replaced(page, "a", "new\n1") == page.replace("old", "new\n1")
    with pytest.raises(ValueError, match="0 places"):
        replaced(page, "c", "")


def test_the_page_has_a_place_for_every_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rebalance.md").read_text()
    for part in TABLES:
        assert replaced(page, part, "x") != page
