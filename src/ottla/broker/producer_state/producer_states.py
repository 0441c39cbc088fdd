"""The idempotent producers of a partition. With their states, a batch that is sent twice is stored once.

A producer numbers its records per partition: a batch takes the sequences after those of the batch before it,
and after 2^31 - 1 comes 0. The rules are those of Kafka 2.5 to 4.x:

    the id is not known                       accepted with any sequence: the broker may have forgotten it
    epoch is lower than the last one          47 INVALID_PRODUCER_EPOCH: a newer producer has taken over
    epoch is higher, sequence 0               accepted; what was known of the old epoch is forgotten
    epoch is higher, another sequence         45 OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, the next sequence             accepted
    same epoch, one of the last 5 batches     Duplicate: acknowledged as the first time, not stored
    same epoch, anything else                 45, also for a duplicate that is older than 5 batches
    a batch outside of its open transaction   48 INVALID_TXN_STATE

Whether a transaction may begin is not decided here: see `is_open` and `storage.open_transactions`. It ends
with a marker, which the transaction's coordinator has decided:

    epoch is lower than the last one          47
    coordinator epoch is lower                52 TRANSACTION_COORDINATOR_FENCED
    version 2, same epoch, and one is open    47: a late marker of the transaction before it
    anything else                             accepted, also where nothing is open

Two codes of the protocol are not given: 46 DUPLICATE_SEQUENCE_NUMBER (0.11 alone did) and 59
UNKNOWN_PRODUCER_ID (1.0 to 2.4 did, for what is now accepted).

A batch counts from when it is staged, so that a retry after it in the same turn is seen. A turn ends with
`commit` or, if its write failed, with `rollback`, which forgets what it staged.

Producers are forgotten by time alone, and not while they have an open transaction: retention and
DeleteRecords remove batches, not the state of their producers. No clock, no file: `producer_restart` says
what survives a restart. Owner: the broker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader, named
from ottla.log.end_markers import EndMarker
from ottla.log.producer_snapshots import ProducerEntry
from ottla.log.undecided import StoredAbort, UndecidedTransactions
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.record_layout import TRANSACTIONAL

# As many requests as an idempotent producer may have under way on a connection.
BATCHES_KEPT = 5
SEQUENCE_MAX = (1 << 31) - 1
NO_SEQUENCE = -1

# A batch that would be acknowledged again: first and last sequence, base and last offset, timestamp.
StoredBatch = tuple[int, int, int, int, int]


class ProducerState(NamedTuple):
    """The state of a producer. Replaced, never changed; `batches` are of this epoch, the newest last."""

    epoch: int
    last_sequence: int  # -1 if this epoch has no batch yet
    timestamp: int  # of its newest record in its last batch, by which it expires
    batches: tuple[StoredBatch, ...]
    coordinator_epoch: int = -1  # of its last marker
    transaction_offset: int = -1  # where its open transaction begins


class Duplicate(NamedTuple):
    """What the response says about a batch that was stored before.

    `append_time_ms` is the stored batch's largest timestamp, also in topics with create time: as in Kafka.
    The batch may be staged only, or not be flushed yet: the answer waits for `last_offset` as its own did.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int


class ProducerStates:
    """The producers of one partition. A batch goes through `check`, the log's `append`, and `stage`.

    `first_unstable` is where the first open transaction begins, of all that is written; -1 if none is open.
    Only batches with a producer id do. A record set has one batch, as Produce 3 and later demand: `check`
    does not see the batches before it in the same set.
    """

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._undo: list[tuple[int, ProducerState | None]] = []
        self._undecided = UndecidedTransactions()  # with what is staged
        self.first_unstable = -1

    def __len__(self) -> int:
        return len(self._states)

    @property
    def ids(self) -> KeysView[int]:
        """The ids of the known producers."""
        return self._states.keys()

    def timestamps(self) -> list[int]:
        """Return the last write time of each producer that may be forgotten."""
        return [state.timestamp for state in self._states.values() if state.transaction_offset < 0]

    def get(self, producer_id: int) -> ProducerState | None:
        """Return the state of a producer, with what is staged; None if it is not known."""
        return self._states.get(producer_id)

    # ---- produce

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Return None if a batch is to be appended, else its first copy. Raises KafkaError."""
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch == state.epoch:
            if header.base_sequence != (state.last_sequence + 1) & SEQUENCE_MAX:
                return _duplicate(header, state)
        else:
            check_epoch(header.producer_id, header.producer_epoch, state)
            if header.base_sequence:
                reason = f"sequence {header.base_sequence} begins epoch {header.producer_epoch}, not 0"
                text = f"producer {header.producer_id}: {reason}"
                raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        if state.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL:
            reason = (
                f"producer {header.producer_id}: its transaction is open, and the batch is not part of it"
            )
            raise KafkaError(Code.INVALID_TXN_STATE, reason)
        return None

    def check_own(self, header: BatchHeader) -> None:
        """Check a batch that the broker writes in a producer's transaction, without a sequence.

        Raises KafkaError.
        """
        state = self._states.get(header.producer_id)
        if state is not None:
            check_epoch(header.producer_id, header.producer_epoch, state)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has written here in a transaction that is not ended."""
        state = self._states.get(producer_id)
        return state is not None and state.transaction_offset >= 0 and state.epoch == epoch

    def stage(self, header: BatchHeader, base_offset: int, append_time_ms: int = -1) -> bool:
        """Count a batch that `check` accepted and the log has staged at `base_offset`.

        `header` is as the producer sent it. `append_time_ms` is -1 in topics with create time. Returns
        whether the producer is new.
        """
        _, _, first, last, _, attributes, _, timestamp, _, _, producer_id, epoch, sequence = header
        if append_time_ms >= 0:
            timestamp = append_time_ms
        batches: tuple[StoredBatch, ...] = ()
        last_sequence = NO_SEQUENCE  # as the broker's own batches in a transaction
        if sequence >= 0:
            # By offsets: compaction takes records out of a batch, and its offsets and sequences stay.
            last_sequence = (sequence + last - first) & SEQUENCE_MAX
            batches = ((sequence, last_sequence, base_offset, base_offset + last - first, timestamp),)
        state = self._states.get(producer_id)
        coordinator_epoch = transaction_offset = -1
        if state is not None:
            _, _, _, earlier, coordinator_epoch, transaction_offset = state
            if state.epoch == epoch:
                batches = earlier[1 - BATCHES_KEPT :] + batches
        if transaction_offset < 0 and attributes & TRANSACTIONAL:
            transaction_offset = base_offset
            self._undecided.begin(producer_id, base_offset)
        self._undo.append((producer_id, state))
        self._states[producer_id] = named(
            ProducerState, (epoch, last_sequence, timestamp, batches, coordinator_epoch, transaction_offset)
        )
        return state is None

    def commit(self) -> None:
        """Keep what is staged: it was written."""
        if self._undo:
            self._undo.clear()
            self.first_unstable = self._undecided.first_offset

    def rollback(self) -> None:
        """Forget what is staged: it was not written."""
        while self._undo:
            producer_id, state = self._undo.pop()
            _put(self._states, producer_id, state)
        self._find_undecided()

    def _find_undecided(self) -> None:
        begun = ((producer_id, state.transaction_offset) for producer_id, state in self._states.items())
        self._undecided = UndecidedTransactions({item[0]: item[1] for item in begun if item[1] >= 0})
        self.first_unstable = self._undecided.first_offset

    # ---- ends of transactions

    def check_marker(self, marker: EndMarker) -> None:
        """Raise KafkaError if a marker is of a producer or a coordinator that was replaced."""
        state = self._states.get(marker.producer_id)
        if state is None:
            return
        check_epoch(marker.producer_id, marker.producer_epoch, state)
        if marker.coordinator_epoch < state.coordinator_epoch:
            reason = f"coordinator epoch {marker.coordinator_epoch} is below {state.coordinator_epoch}"
            text = f"producer {marker.producer_id}: {reason}"
            raise KafkaError(Code.TRANSACTION_COORDINATOR_FENCED, text)
        is_late = marker.transaction_version >= 2 and marker.producer_epoch == state.epoch
        if is_late and state.transaction_offset >= 0:
            reason = f"the marker of epoch {state.epoch} is of the transaction before the open one"
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH, f"producer {marker.producer_id}: {reason}")

    def aborted_by(self, marker: EndMarker, offset: int) -> StoredAbort | None:
        """Return the transaction that a marker at an offset aborts; None if it commits, or ends nothing."""
        return self._undecided.aborted_by(marker, offset)

    def stage_marker(self, marker: EndMarker, timestamp: int) -> bool:
        """Count a marker that `check_marker` accepted and the log has staged; whether the producer is new."""
        state = self._states.get(marker.producer_id)
        self._undo.append((marker.producer_id, state))
        self._undecided.end(marker.producer_id)
        sequence = NO_SEQUENCE
        batches: tuple[StoredBatch, ...] = ()
        if state is not None and state.epoch == marker.producer_epoch:
            sequence, batches = state.last_sequence, state.batches
        ended = (marker.producer_epoch, sequence, timestamp, batches, marker.coordinator_epoch, -1)
        self._states[marker.producer_id] = ProducerState(*ended)
        return state is None

    # ---- time

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without a record in the last `expiration_ms`; returns how many.

        One with an open transaction stays.
        """
        oldest = now_ms - expiration_ms
        gone = [
            producer_id
            for producer_id, state in self._states.items()
            if state.timestamp <= oldest and state.transaction_offset < 0
        ]
        for producer_id in gone:
            del self._states[producer_id]
        return len(gone)

    # ---- restart

    def rebuild(
        self, batches: Iterable[tuple[BatchHeader, EndMarker | None]], known: Iterable[ProducerEntry] = ()
    ) -> None:
        """Make the states from a snapshot, and from the stored batches behind it, in order and with their
        markers: counted, not checked.
        """
        self._states = {}
        for entry in known:
            self._states[entry.producer_id] = _with_entry(self._states.get(entry.producer_id), entry)
        self._find_undecided()
        for header, marker in batches:
            if marker is not None:
                self.stage_marker(marker, header.max_timestamp)
            elif header.producer_id >= 0 and not header.is_control:
                self.stage(header, header.base_offset)
            self._undo.clear()
        self._find_undecided()

    def entries(self) -> list[ProducerEntry]:
        """Return the last batch of each producer after the written batches, without what is staged."""
        return [_to_entry(producer_id, state) for producer_id, state in self._written().items()]

    def snapshot_entries(self) -> list[ProducerEntry]:
        """Return what a snapshot keeps: all batches that may be sent again, a producer's last one at last.

        Kafka has one entry for each producer. If there are more it believes the last, so it reads these too.
        """
        entries = []
        for producer_id, state in self._written().items():
            last = _to_entry(producer_id, state)
            for _, last_sequence, base_offset, last_offset, timestamp in state.batches:
                batch = last_sequence, last_offset, last_offset - base_offset, timestamp
                entries.append(ProducerEntry(producer_id, state.epoch, *batch))
            if not entries or entries[-1] != last:
                entries.append(last)
        return entries

    def _written(self) -> dict[int, ProducerState]:
        """Return the states without what is staged."""
        written = dict(self._states)
        for producer_id, state in reversed(self._undo):
            _put(written, producer_id, state)
        return written


def _duplicate(header: BatchHeader, state: ProducerState) -> Duplicate:
    """Return the kept batch with the same sequences. Raises KafkaError 45 if there is none."""
    last_sequence = (header.base_sequence + header.last_offset - header.base_offset) & SEQUENCE_MAX
    for first, last, base_offset, last_offset, timestamp in state.batches:
        if first == header.base_sequence and last == last_sequence:
            return Duplicate(base_offset, last_offset, timestamp)
    wanted = (state.last_sequence + 1) & SEQUENCE_MAX
    reason = (
        f"producer {header.producer_id}, epoch {state.epoch}: sequence {header.base_sequence}, not {wanted}"
    )
    raise KafkaError(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)


def check_epoch(producer_id: int, epoch: int, state: ProducerState) -> None:
    """Raise KafkaError 47 if a newer producer has taken over."""
    if epoch < state.epoch:
        reason = f"producer {producer_id}: epoch {epoch} is below {state.epoch}"
        raise KafkaError(Code.INVALID_PRODUCER_EPOCH, reason)


def _with_entry(state: ProducerState | None, entry: ProducerEntry) -> ProducerState:
    """Return a producer's state with the next entry of a snapshot."""
    earlier = state.batches if state is not None and state.epoch == entry.epoch else ()
    last_sequence = entry.last_sequence
    if entry.last_offset < 0 or last_sequence < 0:
        last_sequence, batches = NO_SEQUENCE, earlier
    elif earlier and earlier[-1][3] == entry.last_offset:
        batches = earlier  # the last entry repeats its batch, with what else is known of the producer
    else:
        first_sequence = (last_sequence - entry.offset_delta) & SEQUENCE_MAX
        offsets = entry.last_offset - entry.offset_delta, entry.last_offset
        batches = (*earlier[1 - BATCHES_KEPT :], (first_sequence, last_sequence, *offsets, entry.timestamp))
    transaction = entry.coordinator_epoch, entry.transaction_offset
    return named(ProducerState, (entry.epoch, last_sequence, entry.timestamp, batches, *transaction))


def _to_entry(producer_id: int, state: ProducerState) -> ProducerEntry:
    last_offset, delta = -1, 0
    if state.batches:
        _, _, base_offset, last_offset, _ = state.batches[-1]
        delta = last_offset - base_offset
    last = state.last_sequence, last_offset, delta, state.timestamp
    return ProducerEntry(producer_id, state.epoch, *last, state.coordinator_epoch, state.transaction_offset)


def _put(states: dict[int, ProducerState], producer_id: int, state: ProducerState | None) -> None:
    if state is None:
        states.pop(producer_id, None)
    else:
        states[producer_id] = state
