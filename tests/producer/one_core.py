"""A producer's core with one broker, and what tests do with it."""

from __future__ import annotations

import random

from ottla.client.reactions import Action
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.producer.accumulator import Accumulator
from ottla.producer.batches import BatchOutcome, ProducerBatch
from ottla.producer.sequences import Identity
from tests.producer.simulated_cluster import TOPIC, limits, numbers, part

BROKER = 1


def core(*, is_idempotent: bool = True, partitions: int = 1, **changes: object) -> Accumulator:
    """A core whose partitions have a leader, and whose producer has an id."""
    one = Accumulator(limits(**changes), is_idempotent=is_idempotent, chance=random.Random(0))
    one.identity = Identity(9, 0)
    for partition in range(partitions):
        one.led(TOPIC, partition, BROKER)
    return one


def add(one: Accumulator, *values: int, partition: int = 0, now_ms: float = 0.0) -> None:
    one.add(TOPIC, partition, [part([value], now_ms) for value in values])


def carried(batch: ProducerBatch) -> list[int]:
    return [value for one in batch.parts for value in numbers(one)]


def take_one(one: Accumulator, now_ms: float = 1_000.0) -> ProducerBatch:
    (batch,) = one.take(BROKER, now_ms)
    return batch


def in_flight(one: Accumulator, count: int) -> list[ProducerBatch]:
    """Batches of one record each, of a producer that the broker knows."""
    one.in_hurry = True
    add(one, -1)
    one.stored(take_one(one), 0, -1)
    batches = []
    for value in range(count):
        add(one, value)
        batches.append(take_one(one))
    return batches


def refuse(
    one: Accumulator, batch: ProducerBatch, code: Code, now_ms: float = 0.0
) -> tuple[Action, list[BatchOutcome]]:
    return one.refused(batch, KafkaError(code), now_ms)
