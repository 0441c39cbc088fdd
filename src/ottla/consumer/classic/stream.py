"""KafkaStream: what one thread of the application reads, message by message or as Arrow columns.

    for message in stream:                  # MessageAndMetadata: topic, partition, offset, key, value
        …
    for chunk in stream.chunks():           # FetchedDataChunk: topic_partition, batch, next_offset
        …

A stream reads the partitions that the group assigns to it, which change. Only what was handed out counts as
consumed: if a partition goes to another member when half of a chunk was handed out, the new owner begins with
the other half.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Self

from ottla.client.clock import SIGNAL_CHECK_S
from ottla.consumer.classic.stream_queue import StreamQueue
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.records.messages import MessageAndMetadata

_NO_ROWS: Iterator[MessageAndMetadata[Any, Any]] = iter(())


class _Wait:
    """An iterator without elements that waits before it ends.

    An error that it raises ends no loop in C around it: the next call waits again.
    """

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata[Any, Any]:
        self._wait()
        raise StopIteration


class KafkaStream:
    """A stream of messages, made by a ConsumerConnector, for one thread. It ends when the connector closes.

        >>> from ottla import ConsumerConnector
        >>> settings = {"zookeeper.connect": "127.0.0.1:2181", "auto.offset.reset": "smallest"}
        >>> with ConsumerConnector(settings, group_id="kitchen") as connector:
        ...     (stream,) = connector.create_message_streams({"orders": 1})["orders"]
        ...     chunk = next(stream.chunks())
        >>> chunk.batch["value"].to_pylist(), chunk.next_offset
        ([b'tea', b'coffee', b'cake'], 3)

    Iterating over the stream itself waits up to consumer.timeout.ms for each message.
    """

    def __init__(self, queue: StreamQueue, name: str, keep_alive: object) -> None:
        self._queue = queue
        self._name = name
        self._keep_alive = keep_alive
        """Keeps the connector alive while the application holds only its streams."""
        self._rows = _NO_ROWS

    def __iter__(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages as `next` returns them; the iterator, too, can be used after an error."""
        return chain.from_iterable(self._waits_and_rows())

    def _waits_and_rows(self) -> Iterator[Iterator[MessageAndMetadata[Any, Any]]]:
        """Yield in turn an iterator that only waits for rows, and the rows: a loop in C runs through both."""
        while not self.is_closed:
            yield _Wait(self.has_next)
            yield self._rows

    def __next__(self) -> MessageAndMetadata[Any, Any]:
        """Return the next message; waits for it.

        Raises ConsumerTimeout after consumer.timeout.ms; the stream can still be read afterwards. Raises the
        error that stopped a partition, once, and continues with the others.
        """
        for row in self._rows:
            return row
        while self.has_next():
            for row in self._rows:
                return row
        raise StopIteration

    def has_next(self, timeout: float | None = None) -> bool:
        """Wait for a message, and return whether there is one; False at the end of the stream.

        With `timeout` in seconds, returns False too if nothing arrives in time. Without it raises
        ConsumerTimeout after consumer.timeout.ms, as Kafka's ConsumerIterator does.
        """
        chunk = self._queue.wait(timeout)
        if chunk is not None:
            self._rows = iter(chunk.rows)
        return chunk is not None

    def messages(self, timeout: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages; ends if none arrives within `timeout` seconds.

        With `timeout=None` it is the same as iterating the stream.
        """
        while self.has_next(timeout):
            yield from self._rows

    def chunks(self, timeout: float | None = None) -> Iterator[FetchedDataChunk]:
        """Iterate over messages as Arrow columns, in chunks as they were fetched.

        `timeout` is as for `messages`. A chunk counts as consumed when it is handed out.
        """
        while (chunk := self._queue.wait(timeout)) is not None:
            rest = chunk.take_rest()
            if rest is not None:
                yield rest

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended."""
        return self._queue.is_closed

    def __repr__(self) -> str:
        partitions = ", ".join(map(str, self._queue.partitions)) or "no partitions"
        return f"<KafkaStream {self._name}, {'closed' if self.is_closed else 'reads ' + partitions}>"


def run_streams(
    function: Callable[[KafkaStream], object], streams: Sequence[KafkaStream], stop: Callable[[], None]
) -> None:
    """Call `function` with each stream in a thread of its own until all have returned.

    The first error calls `stop`, so that the other threads end; then it is raised.
    """
    errors: list[BaseException] = []
    failed = threading.Event()

    def work(stream: KafkaStream) -> None:
        try:
            function(stream)
        except BaseException as error:  # noqa: BLE001  (raised in the caller's thread)
            errors.append(error)
            failed.set()

    def guard() -> None:
        failed.wait()
        if errors:
            stop()

    threads = [
        threading.Thread(target=work, args=(stream,), name=f"stream-{number}")
        for number, stream in enumerate(streams)
    ]
    guardian = threading.Thread(target=guard, name="stream-guard")
    try:
        for thread in (guardian, *threads):
            thread.start()
        _await(threads)
    except BaseException:
        stop()
        raise
    finally:
        _await(threads)
        failed.set()
        _await([guardian])
    if errors:
        raise errors[0]


def _await(threads: Sequence[threading.Thread]) -> None:
    """Wait for those that have started. A wait in one piece can miss a Ctrl-C: see `wait_for`."""
    for thread in threads:
        while thread.is_alive():
            thread.join(SIGNAL_CHECK_S)
