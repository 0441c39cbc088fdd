"""What `exactly_once=True` adds to a mirror: transactions of the target that hold records and positions.

    begin ─▶ records ─▶ … ─▶ notes of offsets ─▶ positions ─▶ commit        then: commit in the source's group

A mirror that is started again continues at the positions in the target. The source's group gets them
afterwards, for tools that show lag. The transactional.id follows from the group, so a newer mirror of the
group replaces an older one: there is one writer at any time, wherever the source's group sends partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from ottla.mirror.mirror_settings import Properties, client_config, is_classic, normalised
from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import (
    ConfigError,
    LocalProtocolError,
    MirrorFailed,
    OttlaError,
    ProducerFenced,
    Unsupported,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.producer import Producer

log = logging.getLogger(__name__)

TIMEOUT_MS = 60_000
"""The default of transaction.timeout.ms."""


def transactional_id(group: str) -> str:
    """Return the name of the mirror's producer, and of the group of the target that has its positions."""
    return f"{group}.exactly-once"


def timeout_ms(producer: Properties) -> int:
    """Return how long the brokers of the target keep a transaction open."""
    return int(str(normalised(producer).get("transaction_timeout_ms", TIMEOUT_MS)))


def check_exactly_once(
    consumer: Properties,
    producer: Properties,
    *,
    streams: int,
    interval_ms: float,
    aborts_on_failure: bool,
) -> None:
    """Raise ConfigError if settings contradict exactly_once."""
    given = normalised(producer)
    isolation = normalised(consumer).get("isolation_level", "read_committed")
    limit_ms = timeout_ms(producer)
    obstacles = {
        f"streams=1, not {streams}: a transaction has one writer; "
        "for more, run mirrors of different groups with different topics": streams != 1,
        "a group of the source's brokers: give bootstrap.servers, not zookeeper.connect": is_classic(
            consumer
        ),
        "aborts_on_failure=True: a record that fails takes its whole transaction with it": (
            not aborts_on_failure
        ),
        f"isolation.level=read_committed, not {isolation}": isolation != "read_committed",
        "no transactional.id: it follows from the group, so that a newer mirror replaces an older one": (
            "transactional_id" in given
        ),
        f"a commit interval of less than a quarter of transaction.timeout.ms={limit_ms}, "
        f"not {interval_ms:.0f} ms": interval_ms * 4 > limit_ms,
    }
    missing = [need for need, is_missing in obstacles.items() if is_missing]
    if missing:
        raise ConfigError(f"exactly_once needs {'; and '.join(missing)}")


class TargetTransactions:
    """The transactions of a mirror's only stream.

    As a context manager it aborts the open transaction if an error ends the block.
    """

    def __init__(
        self, producer: Producer, group: str, positions: Mapping[TopicAndPartition, int], timeout_ms: int
    ) -> None:
        self._producer = producer
        self._group = group
        self._member = GroupMetadata(transactional_id(group))
        self._is_open = False
        self.longest_ms = timeout_ms / 4
        """How long a transaction may wait for a cut of the source."""
        self.positions = dict(positions)
        """The positions that are committed in the target."""

    @classmethod
    def take_over(cls, producer: Producer, group: str, target: Properties) -> Self:
        """Abort the transaction that the last mirror of the group has left open, and read its positions.

        Raises Unsupported if the target has no transactions, and what connections raise.
        """
        producer.check_brokers()
        try:
            producer.init_transactions()
        except (LocalProtocolError, Unsupported) as error:
            raise Unsupported(
                f"exactly_once: the target has no transactions, which Kafka has since 0.11: {error}"
            ) from error
        with KafkaOffsets(client_config(target)) as store:
            stored = store.fetch_all(transactional_id(group))
        log.info("group %s: the target has positions of %d partitions", group, len(stored))
        positions = {each: position.offset for each, position in stored.items()}
        return cls(producer, group, positions, timeout_ms(target))

    def begin(self) -> bool:
        """Begin a transaction unless one is open; return whether it is new. Raises ProducerFenced."""
        is_new = not self._is_open
        if is_new:
            self._producer.begin()
            self._is_open = True
        return is_new

    def commit(self, positions: Mapping[TopicAndPartition, int]) -> None:
        """Commit what was sent since `begin`, together with `positions`. Raises as `Producer.commit`."""
        self._producer.send_offsets(positions, self._member)
        self._producer.commit()
        self._is_open = False
        self.positions |= positions

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        refusal: OttlaError | None = None
        if self._is_open:
            try:
                self._producer.abort()
            except OttlaError as failure:  # the next mirror aborts it, or the brokers after a while
                refusal = failure
        if error is not None and (_is_fenced(error) or _is_fenced(refusal)):
            raise MirrorFailed(
                f"group {self._group!r}: this mirror has been replaced. A newer mirror of the same group "
                f"writes into this target, and continues where this one has committed; or the target did not "
                f"answer for longer than transaction.timeout.ms. What is not committed does not count "
                f"({error})"
            ) from error


def _is_fenced(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ProducerFenced):
            return True
        error = error.__cause__
    return False
