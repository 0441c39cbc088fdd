"""StreamQueue: the chunks of one stream, handed out while the gate is open.

The connector and its threads know streams by their queues only, so that a connector that the application has
dropped can be collected: KafkaStream keeps the connector alive, its queue does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp

from ottla.client.clock import Clock, Deadline, in_seconds
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.inbox import Inbox
from ottla.model.errors import ConsumerTimeout, OttlaError
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import Deserializer, RowMaker

GATE_LOOK_MS = 1000.0
"""How often a stream looks at a shut gate: the gate wakes it when it opens, but a lease ends silently."""
RATE_WINDOW_MS = 60_000.0


class OneMinuteRate:
    """Events per second, weighted to the last minute. One thread adds; any thread reads."""

    def __init__(self, now_ms: float) -> None:
        self.count = 0
        self._since_ms = now_ms
        self._weighted = 0.0, now_ms

    def add(self, count: int, now_ms: float) -> None:
        """`count` events happened."""
        self.count += count
        weighted, at_ms = self._weighted
        self._weighted = weighted * exp((at_ms - now_ms) / RATE_WINDOW_MS) + count, now_ms

    def per_second(self, now_ms: float) -> float:
        """Return the rate. If events come steadily, it is right from the first event on."""
        weighted, at_ms = self._weighted
        window_ms = RATE_WINDOW_MS * (1 - exp((self._since_ms - now_ms) / RATE_WINDOW_MS))
        return weighted * exp((at_ms - now_ms) / RATE_WINDOW_MS) * 1000 / window_ms if window_ms > 0 else 0.0


class StreamQueue:
    """One thread reads it with `wait`; the other methods may be called from any thread."""

    def __init__(
        self,
        gate: DeliveryGate,
        clock: Clock,
        timeout_ms: float | None,
        deserializers: tuple[Deserializer | None, Deserializer | None],
        network_error: Callable[[], OttlaError | None],
    ) -> None:
        """`timeout_ms` is consumer.timeout.ms; None waits for ever.

        `network_error()` is the cause to name in a ConsumerTimeout, if any.
        """
        self.gate = gate
        self.clock = clock
        self.messages = OneMinuteRate(clock.now_ms())
        self.bytes = OneMinuteRate(clock.now_ms())
        self._inbox = Inbox()
        self._timeout_ms = timeout_ms
        self._deserializers = deserializers
        self._network_error = network_error
        self._held = HeldChunks()
        self._is_closed = False
        self._failure: Callable[[], Exception] | None = None

    # --- the application's thread

    def wait(self, timeout: float | None) -> HeldChunk | None:
        """Wait until there are rows that may be handed out, and return their chunk; None at the end.

        With `timeout` in seconds, None too if nothing arrives in time. Without it raises ConsumerTimeout
        after consumer.timeout.ms. Raises the error that stopped a partition, once, and continues with the
        others.
        """
        deadline = Deadline(self.clock, self._timeout_ms if timeout is None else timeout * 1000)
        while not self._is_closed:
            if self._failure is not None:
                raise self._failure()
            is_open = self.gate.is_open(self.clock.now_ms())
            chunk = self._next() if is_open else None
            if chunk is not None:
                return chunk
            if deadline.passed:
                if timeout is not None:
                    return None
                raise self._timed_out()
            if is_open:
                # A lease that ends during this wait is checked again before anything is handed out.
                self._inbox.wait(deadline.left_ms())
            else:
                self.gate.wait(deadline.capped_ms(GATE_LOOK_MS))
        return None

    def _timed_out(self) -> ConsumerTimeout:
        cause = self._network_error()
        why = f": {cause}" if cause is not None else ""
        error = ConsumerTimeout(f"no message within consumer.timeout.ms={self._timeout_ms:.0f}{why}")
        error.__cause__ = cause
        return error

    def _next(self) -> HeldChunk | None:
        chunk = self._held.next()
        if chunk is None and self._held.take(self._poll) is not None:
            chunk = self._held.next()
        return chunk

    def _poll(self) -> FetchedDataChunk | None:
        chunk = self._inbox.poll(0)
        if chunk is not None:
            now_ms = self.clock.now_ms()
            self.messages.add(chunk.batch.num_rows, now_ms)
            self.bytes.add(chunk.nbytes, now_ms)
        return chunk

    # --- other threads

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended."""
        return self._is_closed

    @property
    def partitions(self) -> tuple[TopicAndPartition, ...]:
        """The partitions that the stream reads at present."""
        return tuple(sorted(self._held))

    def read(
        self, topic_partition: TopicAndPartition, start: int, add: Callable[[Inbox], PartitionFeed]
    ) -> PartitionFeed:
        """Hand out this partition too. `add` creates its feed, which begins at `start`."""
        with self._held.lock:  # no chunk is taken before its partition is known here
            feed = add(self._inbox)
            gate = partial(self.gate.while_open, now_s=in_seconds(self.clock))
            maker = RowMaker(*topic_partition, *self._deserializers, gate=gate)
            self._held.add(ReadingPosition(feed, start, maker))
            return feed

    def position(self, topic_partition: TopicAndPartition) -> int:
        """Return the offset after what was handed out of a partition; -1 if that is not known."""
        with self._held.lock:
            return self._held[topic_partition].position if topic_partition in self._held else UNKNOWN_OFFSET

    def release(self, topic_partition: TopicAndPartition) -> int:
        """Hand out no more of a partition, whose feed is closed already, and return its position."""
        with self._held.lock:
            position = self._held.remove(topic_partition)
            return position.drop() if position is not None else UNKNOWN_OFFSET

    def seek(self, topic_partition: TopicAndPartition, start: int) -> None:
        """Drop what is held of a partition and fetch it from `start` on.

        Does nothing if the stream does not read it.
        """
        with self._held.lock:
            if topic_partition in self._held:
                self._held[topic_partition].seek(start)

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Make every later read raise `failure()`."""
        self._failure = failure
        self._end()

    def close(self) -> None:
        """End the stream and wake the thread that waits in it."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        self._held.drop_all()
        self._inbox.close()
        self.gate.wake()
