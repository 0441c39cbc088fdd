"""The part of the executors: a producer for each open transaction of this process, kept for the next batch.

Ids of transactions contain the process. So no other process uses them, and a task that Spark has given up
cannot disturb another task. A process uses its ids again in the next batch: by then the driver has ended
their transactions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from ottla.model.errors import OttlaError
from ottla.producer import Producer
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.sequences import Identity
from ottla.spark.exactly_once.write_driver import WritePlan

PRODUCERS_MAX = 4
"""How many producers are kept for the next batch."""
OWNERS_MAX = 1_000

MakeProducer = Callable[[str], Producer]


class _Process:
    """The ids that this process has used, and the producers that it has kept. Used by its only task."""

    def __init__(self) -> None:
        self._token = ""
        self._used: dict[str, tuple[Identity, int]] = {}  # by owner, the last used at the end
        self._kept: dict[str, Producer] = {}

    def next_id(self, plan: WritePlan) -> str:
        """Return an id that this process has not used in the batch."""
        self._token = self._token or uuid.uuid4().hex[:12]
        identity, number = self._used.pop(plan.owner, (plan.identity, 0))
        number = number if identity == plan.identity else 0
        self._used[plan.owner] = plan.identity, number + 1
        if len(self._used) > OWNERS_MAX:
            del self._used[next(iter(self._used))]
        return f"{plan.owner}.{self._token}.{number}"

    def producer(self, transactional_id: str, make: MakeProducer) -> Producer:
        """The kept producer of an id, or a new one."""
        return self._kept.pop(transactional_id, None) or make(transactional_id)

    def keep(self, transactional_id: str, producer: Producer) -> None:
        """Keep a producer for the next batch; the oldest is closed if there are too many."""
        self._kept[transactional_id] = producer
        if len(self._kept) > PRODUCERS_MAX:
            self._kept.pop(next(iter(self._kept))).close()

    def close(self) -> None:
        """Close all producers."""
        while self._kept:
            self._kept.popitem()[1].close()


_PROCESS = _Process()


def close_producers() -> None:
    """Close the producers that this process has kept."""
    _PROCESS.close()


def prepare(
    plan: WritePlan, make: MakeProducer, send: Callable[[Producer], int]
) -> tuple[int, PreparedTransaction | None]:
    """Send rows in a new transaction that stays open.

    Returns their number, and its identity if there are any.

    Raises why a record failed; then the transaction is aborted.
    """
    transactional_id = _PROCESS.next_id(plan)
    producer = _PROCESS.producer(transactional_id, make)
    try:
        producer.begin()
        rows = send(producer)
        prepared = producer.hand_over()
    except BaseException:
        with suppress(OttlaError):  # the error of the task itself is raised
            producer.close()
        raise
    _PROCESS.keep(transactional_id, producer)
    return rows, prepared
