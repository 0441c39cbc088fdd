"""replay: a part of a topic, read from one bound to another. It ends by itself and touches no group.

with replay("orders", since=timedelta(hours=1), bootstrap_servers="127.0.0.1:9092") as hour:
    table = pa.Table.from_batches(hour.batches())
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from ottla.client.clock import MONOTONIC
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.fetching import (
    FetchedDataChunk,
    FetchEngine,
    Inbox,
    OffsetReset,
    PartitionError,
    PartitionFeed,
    TopicAndPartition,
)
from ottla.model.errors import ConfigError, OttlaError
from ottla.partition.bounds import Limits, OffsetRange, Passage, Trimmer, parse_bounds, passage
from ottla.partition.config import PartitionConfig
from ottla.partition.errors import ReplayStalled
from ottla.partition.log_ends import OffsetLookup
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Decoder, RowMaker, Rows

log = logging.getLogger(__name__)

LOOK_MS = 20
"""Offsets without records at the end of a log are passed over without a word: so often one looks."""
STALL_TIMEOUT_MS = 60_000
PARTITION = pa.field("partition", pa.int32(), nullable=False)


class Progress(NamedTuple):
    """How far a replay is. Offsets are counted whether they have records or not, so they reach the total."""

    records: int
    offsets: int
    offsets_total: int

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        return self.offsets / self.offsets_total if self.offsets_total else 1.0


@dataclass(slots=True)
class _Part:
    """One partition under way."""

    feed: PartitionFeed
    trimmer: Trimmer
    offsets: OffsetRange


def _numbers(partitions: Iterable[int]) -> list[int]:
    if isinstance(partitions, int | str):
        raise ConfigError(f"partitions is {partitions!r}: a list is wanted, as in [{partitions}]")
    return sorted(set(partitions))


class Replay:
    """Made by `replay`. Read once, by one thread: as batches or as messages. Connects when it is asked."""

    def __init__(
        self,
        topic: str,
        partitions: Iterable[int] | None,
        bounds: tuple[Limits, Limits],
        config: PartitionConfig,
        *,
        decoders: tuple[Decoder | None, Decoder | None],
        stall_timeout_ms: float,
    ) -> None:
        self.topic = topic
        self.errors: list[PartitionError] = []
        self._asked = None if partitions is None else _numbers(partitions)
        self._bounds = bounds
        self._now_ms = int(time.time() * 1000)
        self._config = config
        self._decoders = decoders
        self._stall_timeout_ms = stall_timeout_ms
        self._passages: dict[int, Passage] | None = None
        self._parts: dict[TopicAndPartition, _Part] = {}
        self._done: dict[int, int] = {}
        self._records = 0
        self._is_begun = False
        self._rows: Rows | None = None
        self._interruption = Interruption()
        self._resolving = threading.Lock()  # held by who may wait at the interruption
        self._metadata = ClusterMetadata(config.client)
        self._engine = FetchEngine(config.client, config.fetch, self._metadata)
        self._inbox = Inbox()

    # --- reading

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow columns: partition, offset, timestamp, timestamp_type, key, value, and headers on request.

        In order within each partition. Raises what stops a partition: damaged records, offsets that retention
        has removed meanwhile; and ReplayStalled.
        """
        for place, batch in self._pieces():
            column = pa.array(np.full(batch.num_rows, place.partition, np.int32))
            yield pa.RecordBatch.from_arrays(
                [column, *batch.columns], schema=pa.schema([PARTITION, *batch.schema])
            )

    def messages(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """The same one by one."""
        return chain.from_iterable(self._row_pieces())

    def _row_pieces(self) -> Iterator[Rows]:
        for place, batch in self._pieces():
            self._rows = RowMaker(*place, *self._decoders).rows(batch)
            yield self._rows

    @property
    def ranges(self) -> dict[int, OffsetRange]:
        """The offsets of each partition that will be read; asks the brokers if they are not known yet.

        Where a broker cannot look up times, these are the ends of the log, and records are looked at.
        """
        return {number: one.offsets for number, one in self._resolved().items()}

    @property
    def progress(self) -> Progress:
        """How far it is; nothing of nothing before the ranges are known."""
        ranges = {number: one.offsets for number, one in (self._passages or {}).items()}
        return Progress(
            self._records,
            sum(self._done.get(number, one.start) - one.start for number, one in ranges.items()),
            sum(one.stop - one.start for one in ranges.values()),
        )

    # --- what there is to read

    def _resolved(self) -> dict[int, Passage]:
        with self._resolving:
            if self._passages is None:
                self._interruption.check()
                self._passages = self._resolve()
            return self._passages

    def _resolve(self) -> dict[int, Passage]:
        numbers = [one.index for one in self._metadata.partitions(self.topic)]
        strange = sorted(set(self._asked or ()) - set(numbers))
        if strange:
            raise ConfigError(f"topic {self.topic!r} has no partition {strange[0]}; it has {numbers}")
        chosen = numbers if self._asked is None else self._asked
        since = parse_bounds("since", self._bounds[0], "earliest", chosen, self._now_ms)
        until = parse_bounds("until", self._bounds[1], "latest", chosen, self._now_ms)
        times = {one.time for one in (*since.values(), *until.values()) if one.is_moment}
        places = {number: TopicAndPartition(self.topic, number) for number in chosen}
        fetch = self._config.fetch
        lookup = OffsetLookup(self._config.client, self._metadata, fetch.isolation_level, self._interruption)
        ends = lookup.ends(places.values(), times)
        return {
            number: passage(place, since[number], until[number], ends[place], fetch.auto_offset_reset)
            for number, place in places.items()
        }

    # --- the run

    def _pieces(self) -> Iterator[tuple[TopicAndPartition, pa.RecordBatch]]:
        """What is within the bounds, partition by partition as it comes."""
        if self._is_begun:
            raise ConfigError(f"this replay of {self.topic!r} was read already: call replay() again")
        self._is_begun = True
        try:
            if not self._has_begun():
                return
            while (chunk := self._next()) is not None:
                place, part = chunk.topic_partition, self._parts[chunk.topic_partition]
                batch = part.trimmer.trim(chunk.batch)
                self._records += batch.num_rows
                self._advance(place, chunk.next_offset)
                if batch.num_rows:
                    yield place, batch
        finally:
            self.close()
            for place in list(self._parts):
                self._end(place)

    def _has_begun(self) -> bool:
        """Start fetching; False if the replay was closed meanwhile."""
        try:
            self._begin()
        except OttlaError:
            if self._inbox.is_closed:
                return False
            raise
        return True

    def _begin(self) -> None:
        for number, one in self._resolved().items():
            if one.offsets.start < one.offsets.stop:
                place = TopicAndPartition(self.topic, number)
                feed = self._engine.add(place, one.offsets.start, inbox=self._inbox)
                self._parts[place] = _Part(feed, Trimmer(place, one), one.offsets)
        log.info(
            "replay of %s: %d offsets in %d partitions",
            self.topic,
            self.progress.offsets_total,
            len(self._parts),
        )

    def _next(self) -> FetchedDataChunk | None:
        """The next chunk of a partition that is not at its end; None if there is none left."""
        waited_ms, seen = 0.0, list[int]()
        while self._parts and not self._inbox.is_closed:
            begun_ms = MONOTONIC.now_ms()
            try:
                chunk = self._inbox.poll(LOOK_MS)
            except Exception as error:
                # It may lie behind the end of its partition.
                self._finish_passed()
                if any(part.feed.failure is error for part in self._parts.values()):
                    raise
                continue
            if chunk is not None:
                return chunk
            self._finish_passed()
            before, seen = seen, [part.feed.position for part in self._parts.values()]
            waited_ms = waited_ms + MONOTONIC.now_ms() - begun_ms if seen == before else 0.0
            if waited_ms >= self._stall_timeout_ms:
                raise self._stalled()
        return None

    def _finish_passed(self) -> None:
        for place, part in list(self._parts.items()):
            self._advance(place, part.feed.position)

    def _advance(self, place: TopicAndPartition, position: int) -> None:
        """All before `position` is done with."""
        part = self._parts[place]
        start, stop = part.offsets
        self._done[place.partition] = min(max(position, start), stop)
        if part.trimmer.is_done or position >= stop:
            self._done[place.partition] = stop
            self._end(place)

    def _end(self, place: TopicAndPartition) -> None:
        part = self._parts.pop(place)
        self._engine.remove(place)
        while (report := part.feed.errors.poll(0)) is not None:
            self.errors.append(report)

    def _stalled(self) -> ReplayStalled:
        at = ", ".join(f"{place} at {part.feed.position}" for place, part in list(self._parts.items())[:5])
        for place in list(self._parts):
            self._end(place)
        last = f"; last error: {self.errors[-1]}" if self.errors else ""
        return ReplayStalled(f"nothing was read for {self._stall_timeout_ms / 1000:g} s: {at}{last}")

    # --- the end

    def close(self) -> None:
        """End now, from any thread: iterators end too. May be called twice; reading to the end does it."""
        self._inbox.close()
        self._interruption.interrupt()
        self._metadata.interrupt()
        if self._rows is not None:
            self._rows.drop()
        self._engine.close()
        self._metadata.close()
        with self._resolving:
            self._interruption.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def replay(
    topic: str,
    partitions: Iterable[int] | None = None,
    since: Limits = "earliest",
    until: Limits = "latest",
    *,
    key_decoder: Decoder | None = None,
    value_decoder: Decoder | None = None,
    stall_timeout_ms: float = STALL_TIMEOUT_MS,
    **properties: object,
) -> Replay:
    """Read a topic, or some partitions of it, from `since` up to but not including `until`.

    A bound is an offset, "earliest", "latest", a datetime or ISO text with a time zone, a timedelta before
    now, or a dictionary of these by partition. A time means the first offset whose record has that timestamp
    or a later one. A bound behind the log's end is its end at the start of the replay.

    `properties` are Kafka's, as for PartitionConsumer. A `since` that retention has removed is an error, or
    with auto.offset.reset=smallest means what is left.
    """
    config = PartitionConfig.from_properties(properties)
    if config.fetch.auto_offset_reset is OffsetReset.LARGEST:
        raise ConfigError("auto.offset.reset=largest would skip what a replay is to read: smallest or none")
    return Replay(
        topic,
        partitions,
        (since, until),
        # Reading what there is shall not make a topic.
        replace(config, client=replace(config.client, allow_auto_create_topics=False)),
        decoders=(key_decoder, value_decoder),
        stall_timeout_ms=stall_timeout_ms,
    )
