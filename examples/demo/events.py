"""The ad events of the demo, and the totals that every reader must compute from them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla import Producer

TOPIC = "ExternalAdService"
PARTITIONS = 8
EVENTS = 400_000
STEP = EVENTS // 100
MINUTES = 5
START_MS = 1_700_000_040_000
"""The first minute begins here: event time is not the demo's time, in which five minutes take seconds."""
KINDS = ("view", "click", "buy")


def ad_events() -> pa.Table:
    """Five minutes of events, keyed by user, in the order of their time."""
    random = np.random.default_rng(seed=7)
    users = random.integers(0, 5_000, EVENTS)
    kinds = random.choice(KINDS, EVENTS, p=(0.90, 0.09, 0.01))
    cents = random.integers(1, 500, EVENTS)
    values = [
        f'{{"user":{user},"kind":"{kind}","cents":{price}}}'
        for user, kind, price in zip(users, kinds, cents, strict=True)
    ]
    return pa.table(
        {
            "key": pa.array([f"user-{user}" for user in users]),
            "value": pa.array(values),
            "timestamp": pa.array(START_MS + np.arange(EVENTS) * MINUTES * 60_000 // EVENTS),
            "kind": pa.array(kinds.astype(str)),
            "cents": pa.array(cents),
        }
    )


def per_minute(events: pa.Table) -> list[tuple[int, str, int, int]]:
    """The rows that the pipeline must produce: minute (in ms), kind, events, cents."""
    minute = pc.multiply(pc.divide(events["timestamp"], 60_000), 60_000)
    sums = events.append_column("minute", minute).group_by(["minute", "kind"])
    totals = sums.aggregate([([], "count_all"), ("cents", "sum")]).to_pylist()
    return sorted((row["minute"], row["kind"], row["count_all"], row["cents_sum"]) for row in totals)


def produce(bootstrap: str, events: pa.Table, seconds: float, sent: Callable[[int], None]) -> None:
    """Send the events evenly over `seconds`, and report the number sent after each step."""
    columns = events.select(["key", "value", "timestamp"])
    began = time.monotonic()
    with Producer(bootstrap_servers=bootstrap, acks="all", compression_type="lz4") as producer:
        for at in range(0, len(events), STEP):
            part = columns.slice(at, STEP)
            producer.send_batch(TOPIC, part)
            producer.flush()
            sent(len(part))
            done = (at + len(part)) / len(events)
            time.sleep(max(0.0, began + seconds * done - time.monotonic()))
