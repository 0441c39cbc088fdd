"""What the processes of a simulation did and were told; it survives when they are killed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from ottla import TopicAndPartition
from tests.proof.checker import (
    Change,
    History,
    Look,
    Outcome,
    Ownership,
    Placed,
    Seen,
    Table,
    Transaction,
    Write,
)

Places = dict[TopicAndPartition, list[str | Placed]]


@dataclass
class Account:
    """Whatever was begun and not ended has an unknown outcome."""

    writes: dict[str, Write] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    takeovers: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    owners: list[Ownership] = field(default_factory=list)
    periods: dict[Hashable, Ownership] = field(default_factory=dict)
    readers: list[Places] = field(default_factory=list)
    processed: dict[str, dict[str, int]] = field(default_factory=dict)
    accepted: dict[str, Places] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    _accepted_at: dict[tuple[str, str], int] = field(default_factory=dict)
    _steps: int = 0

    def step(self) -> int:
        """A number that is larger than all before."""
        self._steps += 1
        return self._steps

    def new_life(self, name: str) -> int:
        """How often a process of this name has been started before."""
        self.lives[name] = self.lives.get(name, -1) + 1
        return self.lives[name]

    # --- records

    def sent(self, writer: str, partition: TopicAndPartition, value: str) -> None:
        """A record is handed in."""
        self.writes[value] = Write(writer, partition, value, Outcome.UNKNOWN)

    def acked(self, value: str, offset: int) -> None:
        """It was acknowledged."""
        self.writes[value] = replace(self.writes[value], outcome=Outcome.COMMITTED, offset=offset)

    # --- changes of anything with a value

    def ordered(self, key: Hashable, value: Hashable) -> int:
        """A change begins; `done` with this number ends it."""
        number = self.step()
        self.changes[number] = Change(key, value, number, outcome=Outcome.UNKNOWN)
        return number

    def done(self, number: int) -> None:
        """It was acknowledged."""
        self.changes[number] = replace(self.changes[number], ended_at=self.step(), outcome=Outcome.COMMITTED)

    # --- reading

    def assigned(
        self, group: str, member: str, generation: int, partitions: Iterable[TopicAndPartition]
    ) -> Places:
        """A member got partitions. What it sees of them until it gets others goes into the result."""
        seen: Places = {partition: [] for partition in partitions}
        self.readers.append(seen)
        self.owners += [Ownership(group, partition, member, generation) for partition in seen]
        return seen

    def held(
        self, group: str, member: str, partition: TopicAndPartition, since_s: float, until_s: float
    ) -> None:
        """A member has handed out records of a partition in that time; again with a later end."""
        key = group, member, partition, since_s
        self.periods[key] = Ownership(group, partition, member, since=since_s, until=until_s)

    def worked(self, group: str, value: str) -> None:
        """A member of a group has done what a record asks for."""
        counts = self.processed.setdefault(group, {})
        counts[value] = counts.get(value, 0) + 1

    def delivered(self, group: str, partition: TopicAndPartition, value: str, asked_at: int) -> None:
        """A record of a share group is delivered: wrong if it was accepted before `asked_at`.

        An answer on its way may hold a record whose lock has run out, and which another member has accepted.
        """
        if self._accepted_at.get((group, value), asked_at) < asked_at:
            self.accepted[group][partition].append(value)

    def confirmed(self, group: str, partition: TopicAndPartition, value: str) -> None:
        """It was confirmed that a record is accepted."""
        if (group, value) not in self._accepted_at:
            self._accepted_at[group, value] = self.step()
            self.accepted.setdefault(group, {}).setdefault(partition, []).append(value)

    # --- the end

    def history(
        self,
        final: Seen,
        positions: dict[TopicAndPartition, int],
        looks: list[Look],
        sparse: frozenset[TopicAndPartition],
        worked_on: str,
    ) -> History:
        """All of it, with what was seen in the end. Every group has done all of `worked_on`, a topic."""
        values = [
            item.value if isinstance(item, Placed) else item
            for partition, items in final.items()
            if partition.topic == worked_on
            for item in items
        ]
        expected = dict.fromkeys(values, True)
        return History(
            transactions=self.transactions,
            final=final,
            readers=[*self.readers, *self._accepted_in_order()],
            takeovers=self.takeovers,
            positions=positions,
            writes=list(self.writes.values()),
            changes=list(self.changes.values()),
            looks=looks,
            owners=[*self.owners, *self.periods.values()],
            tables=[
                Table(group, expected, dict.fromkeys(counts, True))
                for group, counts in self.processed.items()
            ],
            sparse=sparse,
        )

    def _accepted_in_order(self) -> list[Places]:
        """Acceptances come in any order, so each value is a history of its own."""
        return [
            {partition: [value] * values.count(value)}
            for places in self.accepted.values()
            for partition, values in places.items()
            for value in dict.fromkeys(map(str, values))
        ]
