"""replay: a part of a topic, read from one bound to another. It ends by itself and touches no group."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.consumer.partition.partition_config import PartitionConfig, checked_seconds
from ottla.consumer.partition.partition_connections import PartitionConnections
from ottla.consumer.partition.replay_bounds import ReplayBound, parse_bounds, range_to_read
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange
from ottla.consumer.reading.range_reader import OpenRange, RangeReader
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.fetch_config import OffsetReset
from ottla.fetching.fetch_errors import PartitionError
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError, OttlaError, ReplayStalled
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.columns import SCHEMA, SCHEMA_WITH_HEADERS
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer, RowMaker, Rows

log = logging.getLogger(__name__)

STALL_TIMEOUT_S = 60.0
SHOWN_MAX = 5
PARTITION = pa.field("partition", pa.int32(), nullable=False)


class Progress(NamedTuple):
    """How far a replay is. Offsets are counted whether they have records or not, so they reach the total.

    >>> from ottla import replay
    >>> with replay("orders", bootstrap_servers="127.0.0.1:9092") as orders:
    ...     table = orders.to_table()
    ...     print(orders.progress)
    Progress(records=3, offsets=3, offsets_total=3)
    """

    records: int
    offsets: int
    offsets_total: int

    @property
    def fraction(self) -> float:
        """The part of the offsets that is read, from 0 to 1."""
        return self.offsets / self.offsets_total if self.offsets_total else 1.0


class Replay(Closing):
    """Made by `replay`. Read once, by one thread: as messages, chunks, batches or a table.

        >>> from ottla import replay
        >>> with replay("orders", since=1, bootstrap_servers="127.0.0.1:9092") as orders:
        ...     for message in orders:
        ...         print(message.offset, message.value)
        ...     print(f"{orders.progress.fraction:.0%}")
        1 b'coffee'
        2 b'cake'
        100%

    Connects when it is first read or asked for `ranges`.
    """

    def __init__(
        self,
        topic: str,
        partitions: Iterable[int] | None,
        bounds: tuple[ReplayBound, ReplayBound],
        config: PartitionConfig,
        *,
        deserializers: tuple[Deserializer | None, Deserializer | None],
        stall_timeout: float,
    ) -> None:
        self._topic = topic
        self._chosen = None if partitions is None else _numbers(partitions)
        self._bounds = bounds
        self._now_ms = int(time.time() * 1000)
        self._config = config
        self._deserializers = deserializers
        self._stall_timeout = stall_timeout
        self._records = 0
        self._is_begun = False
        self._rows: Rows | None = None
        self._ranges: dict[int, ReadRange] | None = None
        self._ranges_lock = threading.Lock()
        self._connections = connections = PartitionConnections(config)
        self._reader = RangeReader(
            connections.engine,
            stall_timeout_ms=stall_timeout * 1000,
            on_stopped=_raise,
            on_stalled=partial(_stalled, stall_timeout),
        )
        self._forgotten = stop_if_forgotten(
            self,
            f"Replay of {topic!r}",
            connections.close,
            is_running=lambda: connections.engine.is_running or bool(connections.metadata.view.brokers),
        )

    def __repr__(self) -> str:
        if self._reader.is_closed:
            state = "closed"
        elif self._ranges is None:
            state = "not begun"
        else:
            progress = self.progress
            state = f"{progress.offsets} of {progress.offsets_total} offsets, {progress.records} records"
        return f"<Replay of {self._topic!r}: {state}>"

    # --- reading

    def __iter__(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages."""
        return self.messages()

    def messages(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages, in order within each partition. Raises as `chunks`."""
        return chain.from_iterable(self._all_rows())

    def _all_rows(self) -> Iterator[Rows]:
        for chunk in self.chunks():
            self._rows = RowMaker(*chunk.topic_partition, *self._deserializers).rows(chunk.batch)
            yield self._rows

    def chunks(self) -> Iterator[FetchedDataChunk]:
        """Iterate over chunks: `topic_partition`, `batch` (Arrow columns), `next_offset` to continue at.

        Raises what stops a partition: damaged records, offsets that retention has removed meanwhile. Raises
        ReplayStalled if nothing can be read for `stall_timeout`.
        """
        if self._is_begun:
            raise ConfigError(f"this replay of {self._topic!r} was read already: call replay() again")
        self._is_begun = True
        try:
            if not self._has_begun():
                return
            for chunk in self._reader.chunks():
                self._records += chunk.batch.num_rows
                yield chunk
        finally:
            self.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow batches with the columns of `schema`. Raises as `chunks`."""
        schema = self.schema
        for chunk in self.chunks():
            column = pa.array(np.full(chunk.batch.num_rows, chunk.topic_partition.partition, np.int32))
            yield pa.RecordBatch.from_arrays([column, *chunk.batch.columns], schema=schema)

    def to_table(self) -> pa.Table:
        """Read everything into a table; it has the columns of `schema` also if there are no records."""
        return pa.Table.from_batches(self.batches(), self.schema)

    @property
    def schema(self) -> pa.Schema:
        """partition, offset, timestamp, timestamp_type, key, value; headers with include.headers."""
        columns = SCHEMA_WITH_HEADERS if self._config.fetch.include_headers else SCHEMA
        return pa.schema([PARTITION, *columns])

    # --- where it is

    @property
    def topic(self) -> str:
        """The topic that is read."""
        return self._topic

    @property
    def ranges(self) -> dict[int, OffsetRange]:
        """The offsets of each partition that are read; asks the brokers if they are not known yet.

        If a broker cannot look up times, these are the ends of the log, and records are compared one by one.
        """
        return {number: wanted.offsets for number, wanted in self._resolved().items()}

    @property
    def progress(self) -> Progress:
        """How far it is; all numbers are 0 before the ranges are known."""
        ranges = {number: wanted.offsets for number, wanted in (self._ranges or {}).items()}
        done = {partition: position for (_, partition), position in list(self._reader.positions.items())}
        return Progress(
            self._records,
            sum(done.get(number, offsets.start) - offsets.start for number, offsets in ranges.items()),
            sum(offsets.stop - offsets.start for offsets in ranges.values()),
        )

    @property
    def errors(self) -> list[PartitionError]:
        """What went wrong in partitions that are read to the end, and what was done about it."""
        return list(self._reader.errors)

    # --- ranges

    def _resolved(self) -> dict[int, ReadRange]:
        with self._ranges_lock:
            if self._ranges is None:
                self._ranges = self._resolve()
            return self._ranges

    def _resolve(self) -> dict[int, ReadRange]:
        numbers = [partition.index for partition in self._connections.metadata.partitions(self._topic)]
        unknown = sorted(set(self._chosen or ()) - set(numbers))
        if unknown:
            raise ConfigError(f"topic {self._topic!r} has no partition {unknown[0]}; it has {numbers}")
        chosen = numbers if self._chosen is None else self._chosen
        since = parse_bounds("since", self._bounds[0], "earliest", chosen, self._now_ms)
        until = parse_bounds("until", self._bounds[1], "latest", chosen, self._now_ms)
        times = {bound.time for bound in (*since.values(), *until.values()) if bound.is_timestamp}
        partitions = {number: TopicAndPartition(self._topic, number) for number in chosen}
        ends = self._connections.lookup.ends(partitions.values(), times)
        reset = self._config.fetch.auto_offset_reset
        return {
            number: range_to_read(partition, since[number], until[number], ends[partition], reset)
            for number, partition in partitions.items()
        }

    def _has_begun(self) -> bool:
        """Start fetching; False if the replay was closed meanwhile."""
        try:
            for number, wanted in self._resolved().items():
                self._reader.add(TopicAndPartition(self._topic, number), wanted)
        except OttlaError:
            if self._reader.is_closed:
                return False
            raise
        log.info(
            "replay of %s: %d offsets in %d partitions",
            self._topic,
            self.progress.offsets_total,
            len(self._reader.positions),
        )
        return True

    # --- the end

    def close(self) -> None:
        """End now, from any thread: iterators end too. May be called twice; reading to the end does it."""
        self._reader.close()
        if self._rows is not None:
            self._rows.drop()
        self._forgotten.detach()
        self._connections.close()


def _numbers(partitions: Iterable[int]) -> list[int]:
    if isinstance(partitions, int | str):
        raise ConfigError(f"partitions={partitions!r}: give a list, as in [{partitions}]")
    return sorted(set(partitions))


def _raise(stopped: OpenRange, error: Exception) -> None:
    del stopped
    raise error


def _stalled(stall_timeout: float, parts: list[OpenRange]) -> ReplayStalled:
    where = ", ".join(f"{part.feed.topic_partition} at {part.feed.position}" for part in parts[:SHOWN_MAX])
    last: PartitionError | None = None
    for part in parts:
        last = part.feed.errors.last or last
    because = f"; last error: {last}" if last is not None else ""
    return ReplayStalled(f"nothing was read for {stall_timeout:g} s: {where}{because}")


def replay(
    topic: str,
    partitions: Iterable[int] | None = None,
    since: ReplayBound = "earliest",
    until: ReplayBound = "latest",
    *,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    stall_timeout: float = STALL_TIMEOUT_S,
    properties: Mapping[str, object] | None = None,
    **settings: object,
) -> Replay:
    """Read a topic, or some partitions of it, from `since` up to but not including `until`.

        >>> from ottla import EmbeddedBroker, Producer, replay
        >>> with EmbeddedBroker() as broker:
        ...     with Producer(bootstrap_servers=broker.bootstrap) as producer:
        ...         _ = producer.send("orders", value=b"book")
        ...     table = replay("orders", bootstrap_servers=broker.bootstrap).to_table()
        >>> table["value"].to_pylist()
        [b'book']

    A bound is an offset, "earliest", "latest", a datetime or ISO text with a time zone, a timedelta before
    now, or a dictionary of these by partition. A time means the first offset whose record has that timestamp
    or a later one. A bound after the log's end is its end at the start of the replay.

    `properties` and `settings` are Kafka's, as for PartitionConsumer. A `since` that retention has
    removed is an error; with auto.offset.reset=smallest the replay begins at the first offset that is left.
    If nothing can be read for `stall_timeout` seconds, ReplayStalled is raised.
    """
    config = PartitionConfig.from_properties(merged(properties, settings))
    if config.fetch.auto_offset_reset is OffsetReset.LARGEST:
        raise ConfigError("auto.offset.reset=largest would skip what a replay is to read: smallest or none")
    return Replay(
        topic,
        partitions,
        (since, until),
        # Reading must not create the topic.
        replace(config, client=replace(config.client, allow_auto_create_topics=False)),
        deserializers=(key_deserializer, value_deserializer),
        stall_timeout=checked_seconds("stall_timeout", stall_timeout),
    )
