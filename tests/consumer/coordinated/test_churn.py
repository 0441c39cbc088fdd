"""Processes that join, leave, are killed and stopped; see `churn`, which is also a command."""

from __future__ import annotations

import pytest

from tests.consumer.coordinated.churn import CLIENTS, OURS, Scale, churn
from tests.consumer.coordinated.foreign_members import go_program
from tests.consumer.coordinated.member_process import LIBRDKAFKA
from tests.scale import SEED, sized
from tools.peer_cache import Unavailable

MANY = sized(
    Scale(processes=4, members_each=3, partitions=16, messages=100_000, events=6),
    Scale(processes=10, members_each=5, partitions=64, messages=1_000_000, events=25),
)


FEW, ALL = [OURS, LIBRDKAFKA, "franz-go"], list(CLIENTS)


def clients() -> list[str]:
    """The clients of a mixed group: all in a soak, those that start at once in the suite."""
    try:
        go_program("franzmember")
    except Unavailable:
        return [OURS, LIBRDKAFKA]
    return sized(FEW, ALL)


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_none_is_missed_and_each_partition_has_one_owner(strategy: str) -> None:
    scale = Scale(
        processes=3, members_each=2, partitions=8, messages=20_000, events=6, session_timeout_ms=2_000
    )
    churn(scale, strategy, own_offsets=False, seed=SEED, clients=clients())


def test_many_members_store_each_message_once() -> None:
    churn(MANY, "cooperative-sticky", own_offsets=True, seed=SEED, clients=[OURS])
