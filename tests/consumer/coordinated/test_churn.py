"""Processes that join, leave, are killed and stopped; see `churn`, which is also a command."""

from __future__ import annotations

import pytest

from tests.consumer.coordinated.churn import Scale, churn
from tests.scale import SEED, sized

MANY = sized(
    Scale(processes=4, members_each=3, partitions=16, messages=100_000, events=6),
    Scale(processes=10, members_each=5, partitions=64, messages=1_000_000, events=25),
)


@pytest.mark.parametrize("strategy", ["range", "consumer"])
def test_none_is_missed_and_each_partition_has_one_owner(strategy: str) -> None:
    scale = Scale(
        processes=3, members_each=2, partitions=8, messages=20_000, events=6, session_timeout_ms=2_000
    )
    churn(scale, strategy, own_offsets=False, seed=SEED)


def test_many_members_store_each_message_once() -> None:
    churn(MANY, "cooperative-sticky", own_offsets=True, seed=SEED)
