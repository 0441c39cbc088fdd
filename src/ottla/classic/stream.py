"""KafkaStream: what one thread of the application reads, message by message or as Arrow columns.

    for message in stream:                  # MessageAndMetadata: topic, partition, offset, key, value
        …
    for chunk in stream.batches():          # FetchedDataChunk: topic_partition, batch, next_offset
        …

A stream gets the partitions that the group gives it, which change. What was handed out counts as consumed,
and nothing else does: a chunk of which half was taken when its partition goes away is cut there, and the
other half is for the next owner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

from ottla.classic.errors import ConsumerTimeout
from ottla.classic.gate import DeliveryGate
from ottla.client.clock import Clock, Deadline
from ottla.fetching import FetchedDataChunk, Inbox, TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Decoder, RowMaker, Rows

GATE_LOOK_MS = 1000.0
"""How often a stream looks at a gate that is shut: it is told when it opens, and a lease may end untold."""

_NO_ROWS: Iterator[MessageAndMetadata[Any, Any]] = iter(())


class _Held:
    """The chunk that is being handed out."""

    def __init__(self, chunk: FetchedDataChunk, rows: Rows) -> None:
        self.chunk = chunk
        self.rows = rows
        self._cut_at: int | None = None

    @property
    def consumed(self) -> int:
        """Where to go on behind what was handed out."""
        return self._beginning(self.rows.rest()) if self._cut_at is None else self._cut_at

    def cut(self) -> None:
        """Hand out no more of it."""
        if self._cut_at is None:
            self._cut_at = self._beginning(self.rows.take_rest())

    def _beginning(self, rest: Any) -> int:
        return rest.column("offset")[0].as_py() if rest.num_rows else self.chunk.next_offset


class KafkaStream:
    """Made by a ConsumerConnector. One thread reads it; it ends, once, when the connector is shut down."""

    def __init__(
        self,
        gate: DeliveryGate,
        clock: Clock,
        timeout_ms: float | None,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> None:
        self.inbox = Inbox()
        self._gate = gate
        self._clock = clock
        self._now_ms = clock.now_ms
        self._timeout_ms = timeout_ms
        self._decoders = key_decoder, value_decoder
        self._lock = threading.Lock()  # held while a chunk is taken or cut: none is in between
        self._held: _Held | None = None
        self._rows = _NO_ROWS
        self._makers: dict[TopicAndPartition, RowMaker] = {}
        self._is_closed = False
        self._failure: Callable[[], Exception] | None = None

    # --- the application's thread

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata[Any, Any]:
        """The next message; waits for it. Raises ConsumerTimeout after consumer.timeout.ms, and may be called
        again then; raises what stopped a partition, once, and goes on with the others."""
        if self._now_ms() < self._gate.until_ms:
            for row in self._rows:
                return row
        deadline = Deadline(self._clock, self._timeout_ms)
        while self._takes(deadline):
            for row in self._rows:
                return row
        raise StopIteration

    def batches(self) -> Iterator[FetchedDataChunk]:
        """The same as columns, in chunks as they were fetched: consumed when they are handed out."""
        while self._takes(Deadline(self._clock, self._timeout_ms)):
            with self._lock:
                held = self._held
                rest = held.rows.take_rest() if held is not None else None
            if held is not None and rest is not None and rest.num_rows:
                yield replace(held.chunk, batch=rest)

    def _takes(self, deadline: Deadline) -> bool:
        """Wait until there are rows and they may be handed out; False at the end of the stream."""
        while not self._is_closed:
            if self._failure is not None:
                raise self._failure()
            if not self._gate.is_open(self._now_ms()):
                self._check(deadline)
                self._gate.wait(deadline.capped_ms(GATE_LOOK_MS))
            elif self._has_rows() or self._take():
                return True
            else:
                self._check(deadline)
                # A lease that ends while we wait is looked at again before anything is handed out.
                self.inbox.wait(deadline.left_ms())
        return False

    def _check(self, deadline: Deadline) -> None:
        if deadline.passed:
            raise ConsumerTimeout(f"no message within consumer.timeout.ms={self._timeout_ms:.0f}")

    def _has_rows(self) -> bool:
        with self._lock:
            return self._held is not None and self._held.rows.rest().num_rows > 0

    def _take(self) -> bool:
        with self._lock:
            chunk = self.inbox.poll(0)
            if chunk is None:
                return False
            maker = self._makers.get(chunk.topic_partition)
            if maker is None:
                maker = self._makers[chunk.topic_partition] = RowMaker(
                    *chunk.topic_partition, *self._decoders
                )
            self._held = _Held(chunk, maker.rows(chunk.batch))
            self._rows = iter(self._held.rows)
            return True

    # --- other threads

    @property
    def is_closed(self) -> bool:
        """Whether it has come to its end."""
        return self._is_closed

    def consumed(self, place: TopicAndPartition, position: int) -> int:
        """Where to go on behind what was handed out of a partition; `position` is where its feed is."""
        with self._lock:
            held = self._held
            return held.consumed if held is not None and held.chunk.topic_partition == place else position

    def release(self, place: TopicAndPartition, position: int) -> int:
        """The same, and no more of it is handed out when this returns. Its feed is closed before."""
        with self._lock:
            held = self._held
            if held is None or held.chunk.topic_partition != place:
                return position
            held.cut()
            self._held, self._rows = None, _NO_ROWS
            return held.consumed

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Raise this from now on."""
        self._failure = failure
        self._cut_in_hand()

    def close(self) -> None:
        """End the stream; who waits in it wakes up."""
        self._is_closed = True
        self._cut_in_hand()

    def _cut_in_hand(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held.cut()
        self.inbox.close()
        self._gate.wake()
