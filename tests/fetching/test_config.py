"""Settings by Kafka's names, classic and new."""

from __future__ import annotations

import random

import pytest

from ottla.client.client_config import CLIENT_PROPERTIES
from ottla.fetching.budget import FetchBudget
from ottla.fetching.fetch_config import (
    FETCH_PROPERTIES,
    DamagePolicy,
    FetchConfig,
    IsolationLevel,
    OffsetReset,
)
from ottla.model.errors import ConfigError
from ottla.model.property_table import parse_properties


def test_defaults_of_the_table_are_those_of_the_class() -> None:
    assert FetchConfig.from_properties({}) == FetchConfig()


@pytest.mark.parametrize(
    ("name", "value", "field", "parsed"),
    [
        ("fetch.min.bytes", "64", "fetch_min_bytes", 64),
        ("fetch.wait.max.ms", 100, "fetch_wait_max_ms", 100),
        ("fetch.max.wait.ms", 100, "fetch_wait_max_ms", 100),
        ("fetch.message.max.bytes", 5, "fetch_message_max_bytes", 5),
        ("max_partition_fetch_bytes", 5, "fetch_message_max_bytes", 5),
        ("queued.max.message.chunks", 10, "queued_max_message_chunks", 10),
        ("num.consumer.fetchers", "4", "num_consumer_fetchers", 4),
        ("max.processing.time", 250, "max_processing_time_ms", 250),
        ("auto.offset.reset", "smallest", "auto_offset_reset", OffsetReset.SMALLEST),
        ("auto.offset.reset", "earliest", "auto_offset_reset", OffsetReset.SMALLEST),
        ("auto.offset.reset", "latest", "auto_offset_reset", OffsetReset.LARGEST),
        ("auto.offset.reset", "none", "auto_offset_reset", OffsetReset.NONE),
        ("isolation.level", "read_committed", "isolation_level", IsolationLevel.READ_COMMITTED),
        ("check.crcs", "false", "check_crcs", False),
        ("damaged.records", "skip", "damaged_records", DamagePolicy.SKIP),
    ],
)
def test_names_are_kafkas(name: str, value: object, field: str, parsed: object) -> None:
    assert getattr(FetchConfig.from_properties({name: value}), field) == parsed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("auto.offset.reset", "newest", r"auto\.offset\.reset=newest: it must be smallest or"),
        ("num.consumer.fetchers", 0, r"num\.consumer\.fetchers=0: it must be at least 1"),
        ("fetch.min.byte", 1, r"did you mean fetch\.min\.bytes\?"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FetchConfig.from_properties({name: value})


def test_the_table_goes_with_the_clients() -> None:
    given = {"bootstrap.servers": "localhost:9092", "fetch.min.bytes": 7}
    values = parse_properties((*CLIENT_PROPERTIES, *FETCH_PROPERTIES), given)
    assert FetchConfig.from_values(values).fetch_min_bytes == 7


def test_half_of_a_budget_is_shared_equally_and_half_is_for_whoever_comes_first() -> None:
    budget = FetchBudget(600)
    assert budget.share_bytes(0) == 600
    budget.divide(3)
    assert budget.share_bytes(0) == 100 + 300
    budget.hold(400)
    assert budget.share_bytes(0) == 100  # others have all of the second half
    assert budget.share_bytes(400) == 400  # what one holds itself does not count
    budget.release(150)
    assert budget.share_bytes(0) == 100 + 50


def test_partitions_that_stay_within_their_shares_stay_within_the_budget() -> None:
    chance = random.Random(1)
    budget, held = FetchBudget(1000), [0] * 7
    budget.divide(len(held))
    for _ in range(5000):
        number = chance.randrange(len(held))
        if chance.random() < 0.3:
            budget.release(held[number])
            held[number] = 0
        elif held[number] + (more := chance.randrange(1, 200)) <= budget.share_bytes(held[number]):
            budget.hold(more)
            held[number] += more
        assert sum(held) == budget.held_bytes <= 1000
