"""What a log, its readers and its groups may not do, as a pure function over a history.

A history has what clients did and were told, and what was seen of it: while it happened, and in the end.
Values are unique, so a value tells who wrote it.

    lost            nothing is seen of what was acknowledged: a record, a committed transaction, a change;
                    or a value of a transaction that a reader saw is gone in the end
    duplicate       a value is seen twice by one reader
    gap             an offset is missing between two that a reader saw
    disorder        a reader goes back, or sees values of one writer in another order than they were sent
    offset          an offset has two values, or a writer's acknowledgements are not in the order of its sends
    made up         a value that nobody has sent is seen
    went back       a committed offset, a topic or a setting has a value that a later change had replaced
    double owner    a partition of a group has two members in one generation, or at one time
    aborted read    a value of a transaction that was aborted, or that was refused, is seen
    torn            a part of a transaction is seen, and a part is not
    fenced          a value is seen of a transaction that began after its writer was replaced
    positions       the positions that seen transactions have stored do not follow each other without a gap
                    or an overlap up to the group's position
    wrong table     a table has other rows than the records that went into it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from ottla import TopicAndPartition

NEVER = float("inf")


class Outcome(Enum):
    """What the client was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Placed(NamedTuple):
    """A value with its offset."""

    offset: int
    value: str


Seen = Mapping[TopicAndPartition, Sequence[str | Placed]]


@dataclass
class Transaction:
    """A transaction. `reads` are the input offsets [first, next) whose position it stores.

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


@dataclass(frozen=True, slots=True)
class Write:
    """A record outside of transactions. The writes of a writer are in the order in which it sent them."""

    writer: str
    partition: TopicAndPartition
    value: str
    outcome: Outcome = Outcome.COMMITTED
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something got another value: a group's committed offset, a topic, a setting. None removes it."""

    key: Hashable
    value: Hashable
    began_at: float
    ended_at: float = NEVER
    outcome: Outcome = Outcome.COMMITTED


@dataclass(frozen=True, slots=True)
class Look:
    """The value that something was seen to have."""

    key: Hashable
    value: Hashable
    began_at: float = NEVER
    ended_at: float = NEVER


@dataclass(frozen=True, slots=True)
class Ownership:
    """A member had a partition of a group. Generation -1 is not known; times are those of its own clock."""

    group: str
    partition: TopicAndPartition
    member: str
    generation: int = -1
    since: float = NEVER
    until: float = NEVER


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that a table must have, and those that it has, each with its value or its count."""

    name: str
    expected: Mapping[Any, object]
    seen: Mapping[Any, object]


@dataclass
class History:
    """`takeovers`: when each writer of a transactional id began to replace the others, and when it had.

    `final` is what a reader saw when all had ended; `readers` is what others saw meanwhile. `positions` are
    those of the group, and `starts` where it began. `log_starts` are the first offsets that logs still have.
    In `sparse` partitions offsets may be missing: of markers, or of what compaction removed.
    `repeats`: clients may have written or read a value again.
    """

    transactions: Sequence[Transaction] = ()
    final: Seen = field(default_factory=dict)
    readers: Sequence[Seen] = ()
    takeovers: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    positions: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    writes: Sequence[Write] = ()
    changes: Sequence[Change] = ()
    looks: Sequence[Look] = ()
    owners: Sequence[Ownership] = ()
    tables: Sequence[Table] = ()
    log_starts: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    sparse: frozenset[TopicAndPartition] = frozenset()
    repeats: bool = False


def anomalies(history: History) -> list[str]:
    """Everything that is wrong, a line each; empty if all is well."""
    checks = (_of_readers, _of_offsets, _of_writes, _of_transactions, _of_positions, _of_changes)
    lines = {line for check in checks for line in check(history)}
    return sorted(lines.union(_of_owners(history.owners), _of_tables(history.tables)))


def value_of(item: str | Placed) -> str:
    """The value, with an offset or without."""
    return item if isinstance(item, str) else item.value


def _values(seen: Seen) -> Iterator[str]:
    return (value_of(item) for items in seen.values() for item in items)


# --- records


def _of_readers(history: History) -> Iterator[str]:
    owners: dict[str, Transaction | Write] = {
        value: transaction for transaction in history.transactions for value in transaction.values
    }
    owners |= {write.value: write for write in history.writes}
    for seen in (history.final, *history.readers):
        for value, count in Counter(_values(seen)).items():
            owner = owners.get(value)
            if owner is None:
                yield f"made up: {value}"
            elif owner.outcome is Outcome.ABORTED:
                yield f"aborted read: {value} of the {owner}"
            if count > 1 and not history.repeats:
                yield f"duplicate: {value} is seen {count} times"
        yield from _disorder(history, seen)


def _disorder(history: History, seen: Seen) -> Iterator[str]:
    numbers: dict[str, int] = {}
    for items in seen.values():
        for number, item in enumerate(items):
            numbers.setdefault(value_of(item), number)  # the first time counts, where values are repeated
    for name, values in _sent(history):
        order = [numbers[value] for value in values if value in numbers]
        if order != sorted(order):
            yield f"disorder: {values[0]} and what came after it of {name}"
    for partition, items in seen.items():
        offsets = [item.offset for item in items if isinstance(item, Placed)]
        if not history.repeats and any(later <= earlier for earlier, later in pairwise(offsets)):
            yield f"disorder: a reader of {partition} goes back in {offsets[:5]}…"


def _sent(history: History) -> Iterator[tuple[str, list[str]]]:
    """What was sent in order to a partition, with the name of its sender."""
    for transaction in history.transactions:
        for values in transaction.writes.values():
            yield f"the {transaction}", values
    for (writer, _), writes in _by_writer(history.writes).items():
        yield writer, [write.value for write in writes]


def _by_writer(writes: Iterable[Write]) -> dict[tuple[str, TopicAndPartition], list[Write]]:
    grouped: dict[tuple[str, TopicAndPartition], list[Write]] = {}
    for write in writes:
        grouped.setdefault((write.writer, write.partition), []).append(write)
    return grouped


def _of_offsets(history: History) -> Iterator[str]:
    known: dict[tuple[TopicAndPartition, int], str] = {
        (write.partition, write.offset): write.value for write in history.writes if write.offset is not None
    }
    if len(known) < sum(write.offset is not None for write in history.writes):
        yield "offset: two records were acknowledged with the same offset"
    for (writer, partition), writes in _by_writer(history.writes).items():
        offsets = [write.offset for write in writes if write.offset is not None]
        if offsets != sorted(offsets):
            yield f"offset: {writer} got offsets of {partition} in another order than it sent"
    for seen in (history.final, *history.readers):
        for partition, items in seen.items():
            placed = [item for item in items if isinstance(item, Placed)]
            for offset, value in placed:
                if known.setdefault((partition, offset), value) != value:
                    yield f"offset: {partition} {offset} is {known[partition, offset]}, and {value}"
            yield from _gaps(history, partition, [item.offset for item in placed])


def _gaps(history: History, partition: TopicAndPartition, offsets: list[int]) -> Iterator[str]:
    if not offsets:
        return
    last = [item.offset for item in history.final.get(partition, ()) if isinstance(item, Placed)]
    wanted = set(last) if partition in history.sparse else set(range(min(offsets), max(offsets)))
    missing = {offset for offset in wanted if min(offsets) < offset < max(offsets)} - set(offsets)
    if missing:
        yield f"gap: {partition} {min(missing)} and {len(missing) - 1} more are passed over"


def _of_writes(history: History) -> Iterator[str]:
    final = set(_values(history.final))
    for write in history.writes:
        if write.outcome is not Outcome.COMMITTED or write.value in final:
            continue
        start = history.log_starts.get(write.partition, 0)
        if write.offset is None or write.offset >= start:
            yield f"lost: {write.value} of {write.writer}, {write.partition} {write.offset}"


# --- transactions


def _of_transactions(history: History) -> Iterator[str]:
    final = set(_values(history.final))
    gone = {value for seen in history.readers for value in _values(seen)} - final
    for transaction in history.transactions:
        values = set(transaction.values)
        seen = values & final
        if values & gone:
            yield f"lost: a reader saw {min(values & gone)} of the {transaction}, and it is gone"
        first = f"{transaction.values[0]} of the {transaction}" if values else ""
        if seen and seen != values:
            yield f"torn: {len(seen)} of {len(values)} values are seen, from {first} on"
        elif values and not seen and transaction.outcome is Outcome.COMMITTED:
            yield f"lost: {first}"
        if seen and _is_fenced(transaction, history):
            yield f"fenced: {first}, which was replaced before it began"


def _is_fenced(transaction: Transaction, history: History) -> bool:
    """Whether another writer took over between the writer's own start and this transaction."""
    own = history.takeovers.get((transaction.transactional_id, transaction.writer))
    return own is not None and any(
        transactional_id == transaction.transactional_id
        and own[1] < began_at
        and had_at < transaction.begun_at
        for (transactional_id, _), (began_at, had_at) in history.takeovers.items()
    )


def _of_positions(history: History) -> Iterator[str]:
    final = set(_values(history.final))
    counted = [item for item in history.transactions if final.intersection(item.values)]
    for partition, end in history.positions.items():
        ranges = sorted(item.reads[partition] for item in counted if partition in item.reads)
        reached = history.starts.get(partition, 0)
        for first, next_offset in ranges:
            if first != reached:
                what = "left out" if first > reached else "read again"
                yield f"positions: {partition} from {min(first, reached)} to {max(first, reached)} is {what}"
            reached = max(reached, next_offset)
        if reached != end:
            yield f"positions: {partition} is at {end}, and results were seen up to {reached}"


# --- changes, owners, tables


def _of_changes(history: History) -> Iterator[str]:
    """Each thing is a register: a look gives the value of the last change, or of one under way."""
    by_key: dict[Hashable, list[Change]] = {}
    for change in history.changes:
        if change.outcome is not Outcome.ABORTED:
            by_key.setdefault(change.key, []).append(change)
    for look in history.looks:
        changes = [change for change in by_key.get(look.key, ()) if change.began_at <= look.ended_at]
        settled = [
            change
            for change in changes
            if change.outcome is Outcome.COMMITTED and change.ended_at <= look.began_at
        ]
        latest = max((change.began_at for change in settled), default=-NEVER)
        sources = [change for change in changes if change.value == look.value]
        if any(_may_be_last(source, latest) for source in sources):
            continue
        if look.value is None and not settled:
            continue
        if look.value is None:
            yield f"lost: {look.key} has no value, and {settled[-1].value} was acknowledged"
        elif sources:
            yield f"went back: {look.key} is {look.value}, and {settled[-1].value} was acknowledged later"
        else:
            yield f"made up: {look.key} is {look.value}"


def _may_be_last(change: Change, latest_settled_began_at: float) -> bool:
    """Whether no settled change began after this one had ended; one that is not known may end at any time."""
    if change.outcome is Outcome.UNKNOWN:
        return True
    return change.ended_at >= latest_settled_began_at


def _of_owners(owners: Sequence[Ownership]) -> Iterator[str]:
    shared: dict[tuple[str, TopicAndPartition], list[Ownership]] = {}
    for owner in owners:
        shared.setdefault((owner.group, owner.partition), []).append(owner)
    for (group, partition), periods in shared.items():
        for first, second in combinations(periods, 2):
            if first.member == second.member:
                continue
            names = f"{partition} of {group} has {first.member} and {second.member}"
            if first.generation == second.generation >= 0:
                yield f"double owner: {names} in generation {first.generation}"
            elif max(first.since, second.since) < min(first.until, second.until):
                yield f"double owner: {names} at the same time"


def _of_tables(tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        for row in table.expected.keys() | table.seen.keys():
            expected, seen = table.expected.get(row), table.seen.get(row)
            if expected != seen:
                yield f"wrong table: {table.name} has {seen} for {row}, not {expected}"
