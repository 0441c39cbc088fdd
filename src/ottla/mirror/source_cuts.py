"""Where the logs of a source can be cut so that no committed transaction is divided. Pure.

    partition 0    a a A . b b | b B        a, b: records of two transactions; A, B: their markers
    partition 1    a . b | a A b B          |: a cut that divides both

A cut has an offset for each partition. It divides a transaction that has records before the cut, in whatever
partition, and others after it. Of two cuts that divide none, the larger offsets of both make another one. So
below any limit there is a greatest cut, and `greatest_cut` finds it by moving back from the limit.

A log says which producer wrote a batch, but not which batches of other partitions belong to the same
transaction. Producers before KIP-890 keep their epoch from one transaction to the next. So all transactions
of a producer and an epoch since the last cut count as one, with two exceptions that the order of questions
allows:

    1. `stable`     how far each partition is decided. What has records below was decided before the next
                    question, and all of its records were stored.
    2. `ends`       where each log ends. Records behind it are of later transactions.
    3. `settled`    producers whose coordinator is not about to write markers. What they had decided
                    before has all its markers, so what has none behind here is a later transaction.
    4. the logs     from the last cut up to where they end now.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.model.topic_partition import TopicAndPartition
from ottla.records.transactions import COMMIT_MARKER, TransactionStep

Offsets = Mapping[TopicAndPartition, int]


class Writer(NamedTuple):
    """The writer of a transaction. From KIP-890 on each transaction has an epoch of its own."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class Span:
    """The records of a transaction in a partition, from the first to the last offset."""

    writer: Writer
    first: int
    last: int


class LogSpans:
    """The transactions of one log from an offset on: those with a commit marker, and those without a marker
    so far.
    """

    def __init__(self, start: int) -> None:
        self.end = start
        """The offset up to which the log was read."""
        self.steps = 0
        """The number of batches that belong to transactions."""
        self._open: dict[int, Span] = {}
        self._committed: list[Span] = []

    def see(self, step: TransactionStep) -> None:
        """Add the next batch of a transaction."""
        self.steps += 1
        if step.marker is None:
            writer = Writer(step.producer_id, step.producer_epoch)
            span = self._open.setdefault(step.producer_id, Span(writer, step.first_offset, 0))
            span.last = step.last_offset
            return
        ended = self._open.pop(step.producer_id, None)
        if ended is not None and step.marker == COMMIT_MARKER:
            self._committed.append(ended)

    def forget_before(self, offset: int) -> None:
        """Drop transactions that begin before an offset: they are copied, in whole or in part."""
        self._committed = [span for span in self._committed if span.first >= offset]
        self._open = {owner: span for owner, span in self._open.items() if span.first >= offset}

    @property
    def committed(self) -> Iterator[Span]:
        """Yield the transactions with a commit marker."""
        return iter(self._committed)

    @property
    def unmarked(self) -> Iterator[Span]:
        """Yield the transactions without a marker."""
        return iter(self._open.values())


Logs = Mapping[TopicAndPartition, LogSpans]


def unclear_producers(logs: Logs) -> set[int]:
    """Return the producers that have a marker in one partition and none in another, with the same epoch.

    Their coordinator may be about to write it, or the next transaction has begun.
    """
    committed = {span.writer for log in logs.values() for span in log.committed}
    unmarked = {span.writer for log in logs.values() for span in log.unmarked}
    return {writer.producer_id for writer in committed & unmarked}


def greatest_cut(
    stable: Offsets, ends: Offsets, logs: Logs, settled: Container[int]
) -> dict[TopicAndPartition, int]:
    """Return the greatest cut at or before `stable` that divides no committed transaction."""
    units: dict[Writer, list[tuple[TopicAndPartition, Span]]] = {}
    for topic_partition, log in logs.items():
        spans = [*log.committed, *(span for span in log.unmarked if span.writer.producer_id not in settled)]
        for span in spans:
            if span.last < ends[topic_partition]:
                units.setdefault(span.writer, []).append((topic_partition, span))
    cut = dict(stable)
    is_moving = True
    while is_moving:
        is_moving = False
        for unit in units.values():
            if _is_divided(cut, unit):
                is_moving = True
                for topic_partition, span in unit:
                    cut[topic_partition] = min(cut[topic_partition], span.first)
    return cut


def _is_divided(cut: Offsets, unit: list[tuple[TopicAndPartition, Span]]) -> bool:
    is_within = all(span.last < cut[topic_partition] for topic_partition, span in unit)
    is_behind = all(span.first >= cut[topic_partition] for topic_partition, span in unit)
    return not is_within and not is_behind


# --- the order of questions


class CutQuestions(Protocol):
    """The questions to a source. Calls raise OttlaError."""

    def stable(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Return the offset of each partition up to which no transaction is open."""

    def ends(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Return the end of each log."""

    def read_on(self, logs: Logs, ends: Offsets) -> bool:
        """Read the logs at least up to these ends. Returns False if that is too much, or not possible."""

    def settled(self, producer_ids: Iterable[int]) -> frozenset[int]:
        """Return the producers whose coordinator is known not to write markers at this moment."""


class Cut(NamedTuple):
    """An offset for each partition; `is_whole`: no transaction of the source is divided there."""

    offsets: Offsets
    is_whole: bool


class CutSearch:
    """Finds one cut after the other. Each header is read once, and only where transactions are open."""

    def __init__(self, source: CutQuestions) -> None:
        self._source = source
        self._last = Cut({}, is_whole=True)
        self._logs: dict[TopicAndPartition, LogSpans] = {}

    def cut(self, positions: Offsets, *, is_patient: bool) -> Cut:
        """Return the next cut: the greatest that divides no transaction. It may be the last one.

        If too much has to be read for that, or if not `is_patient`, return the offsets of `stable`, which may
        divide one. `positions` may still be before the last cut. Raises OttlaError.
        """
        stable = self._source.stable(positions)
        cut = self._whole_cut(positions, stable)
        if cut is None or (not is_patient and cut != stable):
            self._last = Cut(stable, is_whole=False)
            return self._last
        # Two cuts that divide nothing make another one, so no offset goes back before the last cut.
        last = {each: self._last.offsets.get(each, 0) for each in cut}
        is_ahead = all(cut[each] >= offset for each, offset in last.items())
        greater = {each: max(offset, last[each]) for each, offset in cut.items()}
        self._last = Cut(greater, is_whole=is_ahead or self._last.is_whole)
        return self._last

    def _whole_cut(self, positions: Offsets, stable: Offsets) -> Offsets | None:
        """Return the greatest cut before `stable` that divides nothing; None if the logs cannot be read for
        it.
        """
        source, ends = self._source, self._source.ends(positions)
        between = {each: LogSpans(offset) for each, offset in stable.items() if offset < ends[each]}
        if not source.read_on(between, ends):
            return None
        if not any(log.steps for log in between.values()):
            return stable
        self._keep(positions)
        if not source.read_on(self._logs, ends):
            return None
        unclear, settled = unclear_producers(self._logs), frozenset[int]()
        if unclear:
            settled = source.settled(unclear)
            if not source.read_on(self._logs, source.ends(positions)):
                return None
        return greatest_cut(stable, ends, self._logs, settled)

    def _keep(self, positions: Offsets) -> None:
        """Keep what was read of the logs from these positions on."""
        logs, self._logs = self._logs, {}
        for topic_partition, position in positions.items():
            known = logs.get(topic_partition)
            if known is None or known.end < position:
                known = LogSpans(position)
            known.forget_before(position)
            self._logs[topic_partition] = known
