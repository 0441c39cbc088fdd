"""PartitionConsumer: partitions that the application chooses, read by one fetch engine.

with PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
    reader = consumer.consume_partition("orders", 0, "earliest")
    for message in reader.messages():
        print(message.offset, message.key, message.value)
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import Any, Self

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.properties import merged
from ottla.fetching import FetchedDataChunk, FetchEngine, Inbox, TopicAndPartition
from ottla.model.errors import ConfigError
from ottla.partition.config import PartitionConfig, limit, place_of, start_of
from ottla.partition.reader import Held, PartitionReader
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Decoder, RowMaker


class PartitionConsumer:
    """Reads partitions without a group. Connects when it is first asked for something; ends with `close`.

    `properties` are Kafka's, with dots or underscores. An offset that is not in the log stops its partition
    with an error, unless auto.offset.reset is smallest or largest.
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **more: object) -> None:
        self._config = PartitionConfig.from_properties(merged(properties, more))
        self._metadata = ClusterMetadata(self._config.client)
        self._engine = FetchEngine(self._config.client, self._config.fetch, self._metadata)
        self._inbox = Inbox()
        self._lock = threading.RLock()  # held while chunks are taken, and by what takes effect between them
        self._readers: dict[TopicAndPartition, PartitionReader] = {}
        self._last: PartitionReader | None = None

    # --- partitions

    def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions. Raises KafkaError if there is no such topic."""
        return [one.index for one in self._metadata.partitions(topic)]

    def consume_partition(
        self,
        topic: str,
        partition: int,
        offset: int | str,
        *,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> PartitionReader:
        """Read a partition from an offset, "earliest" or "latest" on. Does not wait.

        Decoders run when a message's key or value is asked for. Raises ConfigError if the partition is being
        read by this consumer already.
        """
        place, start = place_of(topic, partition), start_of(offset)
        with self._lock:
            if self._inbox.is_closed:
                raise ConfigError(f"{place}: this consumer is closed; make another")
            if place in self._readers:
                raise ConfigError(f"{place} is being read already: seek() its reader, or close() it first")
            reader = PartitionReader(
                self._engine.add(place, start, inbox=self._inbox),
                RowMaker(topic, partition, key_decoder, value_decoder),
                lock=self._lock,
                leave=self._leave,
                start=start,
                timeout_ms=self._config.timeout_ms,
            )
            self._readers[place] = reader
        return reader

    @property
    def readers(self) -> dict[TopicAndPartition, PartitionReader]:
        """Who reads what."""
        with self._lock:
            return dict(self._readers)

    def _leave(self, place: TopicAndPartition) -> None:
        self._engine.remove(place)
        self._readers.pop(place, None)

    # --- reading all of them

    def messages(self, timeout_ms: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Of all partitions, one by one, in order for each. Ends as `PartitionReader.messages` does.

        Raises what stopped a partition, once, behind its last sound record; call it again to go on with the
        others.
        """
        return chain.from_iterable(held.rows for held in self._turns(timeout_ms))

    def chunks(self, timeout_ms: float | None = None) -> Iterator[FetchedDataChunk]:
        """The same as Arrow columns: `topic_partition`, `batch`, and `next_offset` to go on at behind it."""
        return filter(None, (held.take_rest() for held in self._turns(timeout_ms)))

    def _turns(self, timeout_ms: float | None) -> Iterator[Held]:
        limit_ms = self._config.timeout_ms if timeout_ms is None else limit(timeout_ms)
        # Readers may have been left in the middle of a chunk.
        for reader in {id(one): one for one in (*self.readers.values(), self._last) if one}.values():
            while (held := reader.unfinished()) is not None:
                yield held
        while (held := self._next(limit_ms)) is not None:
            yield held

    def _next(self, timeout_ms: float | None) -> Held | None:
        deadline = Deadline(MONOTONIC, timeout_ms)
        while not self._inbox.is_closed:
            with self._lock:
                held = self._last.unfinished() if self._last is not None else None
                if held is not None:
                    return held
                if self._has_taken():
                    continue
            if not self._inbox.wait(deadline.left_ms()):
                return None
        return None

    def _has_taken(self) -> bool:
        """Take the next chunk, if there is one."""
        try:
            chunk = self._inbox.poll(0)
            if chunk is not None:
                self._last = self._readers[chunk.topic_partition]
                self._last.hold(chunk)
        except Exception:
            raise
        except BaseException:
            for reader in self._readers.values():
                reader.go_back()
            raise
        return chunk is not None

    # --- the end

    def close(self) -> None:
        """End all readers and threads now, from any thread. May be called twice."""
        self._inbox.close()
        for reader in (*self.readers.values(), self._last):
            if reader is not None:
                reader.close()
        _end(self._engine, self._metadata)

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is None or not engine.is_running:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
        # Not here: this may be a thread of the engine, in the middle of something.
        with contextlib.suppress(RuntimeError):  # Python itself ends
            threading.Thread(target=_end, args=(engine, self._metadata), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(engine: FetchEngine, metadata: ClusterMetadata) -> None:
    metadata.interrupt()
    engine.close()
    metadata.close()
