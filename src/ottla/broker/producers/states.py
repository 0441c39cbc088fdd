"""What a partition knows of its idempotent producers, so that a batch that is sent twice is stored once.

A producer numbers its records per partition: a batch takes the sequences behind those of the batch before it,
and after 2^31 - 1 comes 0. The rules are those of Kafka 2.5 to 4.x:

    the id is not known                       accepted with any sequence: the broker may have forgotten it
    epoch is lower than the last one          47 INVALID_PRODUCER_EPOCH: a newer producer has taken over
    epoch is higher, sequence 0               accepted; what was known of the old epoch is forgotten
    epoch is higher, another sequence         45 OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, the next sequence             accepted
    same epoch, one of the last 5 batches     Duplicate: acknowledged as the first time, not stored
    same epoch, anything else                 45, also for a duplicate that is older than 5 batches
    the batch is transactional                48 INVALID_TXN_STATE: there is no coordinator, so none is open

Two codes of the protocol are not given: 46 DUPLICATE_SEQUENCE_NUMBER (0.11 alone did) and 59
UNKNOWN_PRODUCER_ID (1.0 to 2.4 did, for what is now accepted).

A batch counts from when it is staged, so that a retry behind it in the same turn is seen. A turn ends with
`commit` or, if its write failed, with `rollback`, which forgets what it staged.

Producers are forgotten by time alone: retention and DeleteRecords remove batches, not what is known of who
wrote them. No clock, no file: what survives a restart is told in `restart`. Owner: the broker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView
from typing import NamedTuple

from ottla.log.batch_header import TRANSACTIONAL, BatchHeader, named
from ottla.log.producer_snapshots import ProducerEntry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

# As many requests as an idempotent producer may have under way on a connection.
BATCHES_KEPT = 5
SEQUENCE_MAX = (1 << 31) - 1
NO_SEQUENCE = -1

# A batch that would be acknowledged again: first and last sequence, base and last offset, timestamp.
StoredBatch = tuple[int, int, int, int, int]


class ProducerState(NamedTuple):
    """What is known of a producer. Replaced, never changed; `batches` are of this epoch, the newest last."""

    epoch: int
    last_sequence: int  # -1 if this epoch has no batch yet
    timestamp: int  # of its newest record in its last batch, by which it expires
    batches: tuple[StoredBatch, ...]


class Duplicate(NamedTuple):
    """What the response says of a batch that is there already.

    `append_time_ms` is the stored batch's largest timestamp, also in topics with create time: as in Kafka.
    The batch may be staged only, or not be flushed yet: the answer waits for `last_offset` as its own did.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int


class ProducerStates:
    """Of one partition. A produced batch goes through `check`, the log's `append`, and `stage`.

    Only batches with a producer id go that way. A set has one batch, as Produce 3 and later demand: of
    several, each would be checked without those before it.
    """

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._undo: list[tuple[int, ProducerState | None]] = []

    def __len__(self) -> int:
        return len(self._states)

    @property
    def ids(self) -> KeysView[int]:
        """Ids of the producers that are known."""
        return self._states.keys()

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer, with what is staged."""
        return self._states.get(producer_id)

    # ---- produce

    def check(self, header: BatchHeader) -> Duplicate | None:
        """None if the batch is to be appended. Raises KafkaError; nothing is changed in any case."""
        if header.attributes & TRANSACTIONAL:
            what = f"producer {header.producer_id}: this broker has no transactions; unset transactional.id"
            raise KafkaError(Code.INVALID_TXN_STATE, what)
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch == state.epoch:
            if header.base_sequence == (state.last_sequence + 1) & SEQUENCE_MAX:
                return None
            return _duplicate(header, state)
        if header.producer_epoch < state.epoch:
            what = f"producer {header.producer_id}: epoch {header.producer_epoch} is below {state.epoch}"
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH, what)
        if header.base_sequence:
            what = f"sequence {header.base_sequence} begins epoch {header.producer_epoch}, not 0"
            raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {header.producer_id}: {what}")
        return None

    def stage(self, header: BatchHeader, base_offset: int, append_time_ms: int = -1) -> None:
        """Count a batch that `check` let pass and the log has staged at `base_offset`.

        `header` is as the producer sent it. `append_time_ms` is -1 in topics with create time.
        """
        _, _, first, last, _, _, _, timestamp, _, _, producer_id, epoch, sequence = header
        if append_time_ms >= 0:
            timestamp = append_time_ms
        # By offsets: compaction takes records out of a batch, and its offsets and sequences stay.
        last_sequence = (sequence + last - first) & SEQUENCE_MAX
        batch = (sequence, last_sequence, base_offset, base_offset + last - first, timestamp)
        batches: tuple[StoredBatch, ...] = (batch,)
        state = self._states.get(producer_id)
        if state is not None and state.epoch == epoch:
            batches = state.batches[1 - BATCHES_KEPT :] + batches
        self._undo.append((producer_id, state))
        self._states[producer_id] = named(ProducerState, (epoch, last_sequence, timestamp, batches))

    def commit(self) -> None:
        """What is staged has been written."""
        self._undo.clear()

    def rollback(self) -> None:
        """What is staged has not been written, and is forgotten."""
        while self._undo:
            producer_id, state = self._undo.pop()
            _put(self._states, producer_id, state)

    # ---- time

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget who wrote nothing for `producer.id.expiration.ms`, by the time of the records; how many."""
        oldest = now_ms - expiration_ms
        gone = [producer_id for producer_id, state in self._states.items() if state.timestamp <= oldest]
        for producer_id in gone:
            del self._states[producer_id]
        return len(gone)

    # ---- restart

    def rebuild(self, headers: Iterable[BatchHeader]) -> None:
        """Forget everything and learn it from stored batches, in order: they are counted, not checked."""
        self._states.clear()
        self._undo.clear()
        for header in headers:
            if header.producer_id >= 0:
                if not header.is_control:
                    self.stage(header, header.base_offset)
                elif header.record_count:
                    state = self._states.get(header.producer_id)
                    self._states[header.producer_id] = _with_marker(state, header)
                self._undo.clear()

    def add_missing(self, entries: Iterable[ProducerEntry]) -> None:
        """Learn of producers that no walked batch told of."""
        for entry in entries:
            self._states.setdefault(entry.producer_id, _from_entry(entry))

    def entries(self) -> list[ProducerEntry]:
        """What a snapshot keeps, as of the batches that are written: what is staged does not count."""
        written = dict(self._states)
        for producer_id, state in reversed(self._undo):
            _put(written, producer_id, state)
        return [_to_entry(producer_id, state) for producer_id, state in written.items()]


def _duplicate(header: BatchHeader, state: ProducerState) -> Duplicate:
    """The kept batch of just these sequences. Raises KafkaError 45 if there is none."""
    last_sequence = (header.base_sequence + header.last_offset - header.base_offset) & SEQUENCE_MAX
    for first, last, base_offset, last_offset, timestamp in state.batches:
        if first == header.base_sequence and last == last_sequence:
            return Duplicate(base_offset, last_offset, timestamp)
    wanted = (state.last_sequence + 1) & SEQUENCE_MAX
    what = (
        f"producer {header.producer_id}, epoch {state.epoch}: sequence {header.base_sequence}, not {wanted}"
    )
    raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, what)


def _with_marker(state: ProducerState | None, header: BatchHeader) -> ProducerState:
    """Behind the end of a transaction, which only Apache Kafka can have written: it may begin an epoch."""
    if state is None or state.epoch != header.producer_epoch:
        return ProducerState(header.producer_epoch, NO_SEQUENCE, header.max_timestamp, ())
    return state._replace(timestamp=header.max_timestamp)


def _from_entry(entry: ProducerEntry) -> ProducerState:
    if entry.last_offset < 0:
        return ProducerState(entry.epoch, NO_SEQUENCE, entry.timestamp, ())
    batch = (
        (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX,
        entry.last_sequence,
        entry.last_offset - entry.offset_delta,
        entry.last_offset,
        entry.timestamp,
    )
    return ProducerState(entry.epoch, entry.last_sequence, entry.timestamp, (batch,))


def _to_entry(producer_id: int, state: ProducerState) -> ProducerEntry:
    last_offset, delta = -1, 0
    if state.batches:
        _, _, base_offset, last_offset, _ = state.batches[-1]
        delta = last_offset - base_offset
    return ProducerEntry(producer_id, state.epoch, state.last_sequence, last_offset, delta, state.timestamp)


def _put(states: dict[int, ProducerState], producer_id: int, state: ProducerState | None) -> None:
    if state is None:
        states.pop(producer_id, None)
    else:
        states[producer_id] = state
