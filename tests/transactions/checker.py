"""What transactions may not do, as a pure function over a history.

A history has what writers did and what they were told, what readers of committed records saw, and which
positions the group had in the end. Values are unique, so each value tells its transaction.

    aborted read    a value of a transaction that was aborted is seen
    lost            nothing of a committed transaction is seen
    torn            a part of a transaction is seen, and a part is not
    duplicate       a value is seen twice by one reader
    out of order    values of one transaction are seen in another order than they were sent
    made up         a value that nobody has sent is seen
    fenced          a value is seen of a transaction that began after its writer was replaced
    positions       the positions that seen transactions have stored do not follow each other without a gap
                    or an overlap up to the group's position
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla import TopicAndPartition


class Outcome(Enum):
    """What the writer was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    """One transaction. `reads` are the input offsets [first, next) whose position it stores.

    `writer` is the number of the writer among those of its transactional id.
    """

    transactional_id: str
    writer: int
    begun_at: int
    writes: dict[TopicAndPartition, list[str]] = field(default_factory=dict)
    reads: dict[TopicAndPartition, tuple[int, int]] = field(default_factory=dict)
    outcome: Outcome = Outcome.UNKNOWN

    @property
    def values(self) -> list[str]:
        return [value for values in self.writes.values() for value in values]

    def __str__(self) -> str:
        return f"{self.outcome.value} transaction of {self.transactional_id}, writer {self.writer}"


@dataclass
class History:
    """`takeovers`: when each writer of a transactional id began to replace the others, and when it had.

    `final` is what a reader saw when all had ended; `readers` is what others saw meanwhile. `positions` are
    those of the group, and `starts` where it began.
    """

    transactions: Sequence[Transaction]
    final: Mapping[TopicAndPartition, Sequence[str]]
    readers: Sequence[Mapping[TopicAndPartition, Sequence[str]]] = ()
    takeovers: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    positions: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicAndPartition, int] = field(default_factory=dict)


def anomalies(history: History) -> list[str]:
    """Everything that is wrong, one line each; empty if all is well."""
    found = [*_of_readers(history), *_of_transactions(history), *_of_positions(history)]
    return sorted(set(found))


def _of_readers(history: History) -> Iterator[str]:
    owners = {value: one for one in history.transactions for value in one.values}
    for seen in (history.final, *history.readers):
        counts = Counter(value for values in seen.values() for value in values)
        for value, count in counts.items():
            if value not in owners:
                yield f"made up: {value}"
            elif owners[value].outcome is Outcome.ABORTED:
                yield f"aborted read: {value} of the {owners[value]}"
            if count > 1:
                yield f"duplicate: {value} is seen {count} times"
        yield from _out_of_order(history, seen)


def _out_of_order(history: History, seen: Mapping[TopicAndPartition, Sequence[str]]) -> Iterator[str]:
    places = {value: number for values in seen.values() for number, value in enumerate(values)}
    for one in history.transactions:
        for values in one.writes.values():
            order = [places[value] for value in values if value in places]
            if order != sorted(order):
                yield f"out of order: {values[0]} of the {one}"


def _of_transactions(history: History) -> Iterator[str]:
    final = {value for values in history.final.values() for value in values}
    for one in history.transactions:
        values = set(one.values)
        seen = values & final
        if seen and seen != values:
            yield f"torn: {len(seen)} of {len(values)} values of the {one} are seen, from {one.values[0]} on"
        elif values and not seen and one.outcome is Outcome.COMMITTED:
            yield f"lost: {one.values[0]} of the {one}"
        if seen and _is_fenced(one, history):
            yield f"fenced: {one.values[0]} of the {one}, which was replaced before it began"


def _is_fenced(one: Transaction, history: History) -> bool:
    """Whether another writer took over between the writer's own start and this transaction."""
    _, ready_at = history.takeovers[one.transactional_id, one.writer]
    return any(
        transactional_id == one.transactional_id and ready_at < began_at and had_at < one.begun_at
        for (transactional_id, _), (began_at, had_at) in history.takeovers.items()
    )


def _of_positions(history: History) -> Iterator[str]:
    final = {value for values in history.final.values() for value in values}
    counted = [one for one in history.transactions if final.intersection(one.values)]
    for partition, end in history.positions.items():
        ranges = sorted(one.reads[partition] for one in counted if partition in one.reads)
        reached = history.starts.get(partition, 0)
        for first, next_offset in ranges:
            if first != reached:
                what = "left out" if first > reached else "read again"
                yield f"positions: {partition} from {min(first, reached)} to {max(first, reached)} is {what}"
            reached = max(reached, next_offset)
        if reached != end:
            yield f"positions: {partition} is at {end}, and results were seen up to {reached}"
