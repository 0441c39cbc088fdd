"""Processes that join, leave, are killed and stopped; see `churn`, which is also a command.

OTTLA_SEED=n does the same things to the same processes, in the same order.
"""

from __future__ import annotations

import os
import random

from tests.grouped.churn import Scale, churn


def seed() -> int:
    return int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1 << 30))


def test_none_is_missed_and_each_partition_has_one_owner() -> None:
    scale = Scale(
        processes=3, members_each=2, partitions=8, messages=20_000, events=6, session_timeout_ms=2_000
    )
    churn(scale, "range", own_offsets=False, seed=seed())


def test_fifty_members_store_each_of_a_million_messages_once() -> None:
    churn(Scale(events=15), "cooperative-sticky", own_offsets=True, seed=seed())
