"""AssignedPartitions: the partitions that a member has, read by one fetch engine into one inbox."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ottla.client.metadata import ClusterMetadata
from ottla.fetching import (
    BY_RESET_POLICY,
    UNKNOWN_OFFSET,
    FetchedDataChunk,
    FetchEngine,
    Inbox,
    PartitionFeed,
    TopicAndPartition,
)
from ottla.grouped.config import GroupConsumerConfig
from ottla.model.errors import ConfigError
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Decoder, RowMaker, Rows


class AssignedPartitions:
    """Belongs to the thread that polls; `wake` and `is_assigned` are for all."""

    def __init__(
        self,
        config: GroupConsumerConfig,
        metadata: ClusterMetadata,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> None:
        self._decoders = key_decoder, value_decoder
        self._inbox = Inbox()
        self._engine = FetchEngine(config.client, config.fetch, metadata, name=config.member.group_id)
        self._feeds: dict[TopicAndPartition, PartitionFeed] = {}
        self._starts: dict[TopicAndPartition, int] = {}  # assigned, and not read yet
        self._paused: set[TopicAndPartition] = set()
        self._held_back: dict[TopicAndPartition, list[FetchedDataChunk]] = {}  # of paused partitions
        self._open: tuple[FetchedDataChunk, Rows] | None = None

    def wake(self) -> None:
        """From any thread: end a `take`."""
        self._inbox.wake()

    @property
    def assigned(self) -> frozenset[TopicAndPartition]:
        """All of them."""
        return frozenset((*self._feeds, *self._starts))

    def is_assigned(self, place: TopicAndPartition) -> bool:
        """From any thread: whether this is one of them."""
        return place in self._feeds or place in self._starts

    # --- coming and going

    def announce(self, places: Iterable[TopicAndPartition], starts: Mapping[TopicAndPartition, int]) -> None:
        """These are assigned; they are read from `begin` on, so that a listener may seek before."""
        for place in places:
            self._starts[place] = starts.get(place, BY_RESET_POLICY)

    def begin(self) -> None:
        """Read what was announced."""
        for place, start in list(self._starts.items()):
            feed = self._feeds[place] = self._engine.add(place, start, inbox=self._inbox)
            del self._starts[place]
            if place in self._paused:
                feed.pause()

    def remove(self, places: Iterable[TopicAndPartition]) -> None:
        """Read these no more, and forget what waits."""
        for place in places:
            self._engine.remove(place)
            self._paused.discard(place)
            self._held_back.pop(place, None)
            self._feeds.pop(place, None)
            self._starts.pop(place, None)
            if self._open is not None and self._open[0].topic_partition == place:
                self._open[1].drop()
                self._open = None

    def close(self) -> None:
        """End all threads."""
        self._engine.close()

    # --- reading

    def take(self, timeout_ms: float) -> FetchedDataChunk | None:
        """The next chunk; None after so long, or when it was woken."""
        chunk = self._rest_of_open() or self._released()
        if chunk is None:
            chunk = self._inbox.poll(timeout_ms)
            if chunk is not None and chunk.topic_partition in self._paused:
                self._held_back.setdefault(chunk.topic_partition, []).append(chunk)
                return None
        return chunk

    def _released(self) -> FetchedDataChunk | None:
        """What was held back of a partition that is not paused any more."""
        for place, chunks in self._held_back.items():
            if place not in self._paused:
                chunk = chunks.pop(0)
                if not chunks:
                    del self._held_back[place]
                return chunk
        return None

    def _rest_of_open(self) -> FetchedDataChunk | None:
        if self._open is None:
            return None
        (chunk, rows), self._open = self._open, None
        rest = rows.take_rest()
        if not rest.num_rows:
            return None
        first = int(rest.column("offset")[0].as_py())
        return FetchedDataChunk(
            chunk.topic_partition, rest, first, chunk.next_offset, chunk.high_watermark, chunk.nbytes
        )

    def open(self, chunk: FetchedDataChunk) -> None:
        """Hand a chunk out row by row."""
        maker = RowMaker(*chunk.topic_partition, *self._decoders)
        self._open = chunk, maker.rows(chunk.batch)

    def rows(self, count_max: int) -> Iterator[MessageAndMetadata[Any, Any]]:
        """So many more of the opened chunk; a seek or a rebalance ends them."""
        return islice(self._open[1], count_max) if self._open is not None else iter(())

    @property
    def has_rows(self) -> bool:
        """Whether something of the opened chunk is left."""
        if self._open is not None and not self._open[1].rest().num_rows:
            self._open = None
        return self._open is not None

    # --- positions

    def positions(self) -> dict[TopicAndPartition, int]:
        """Of all partitions that are read, also of those that have had nothing to hand out; without those
        whose beginning is still being looked up."""
        found = {place: self.position(place) for place in self._feeds}
        return {place: position for place, position in found.items() if position != UNKNOWN_OFFSET}

    def position(self, place: TopicAndPartition) -> int:
        """Behind what was handed out, also in the middle of a chunk that is read row by row."""
        self._check(place)
        if self._open is not None and self._open[0].topic_partition == place:
            rest = self._open[1].rest()
            if rest.num_rows:
                return int(rest.column("offset")[0].as_py())
        if place in self._held_back:
            return self._held_back[place][0].fetch_offset
        return self._feeds[place].position if place in self._feeds else self._start(place)

    def _start(self, place: TopicAndPartition) -> int:
        start = self._starts[place]
        return start if start >= 0 else UNKNOWN_OFFSET

    def seek(self, place: TopicAndPartition, offset: int) -> None:
        """Go on elsewhere; what waits is dropped."""
        self._check(place)
        if place in self._starts:
            self._starts[place] = offset
            return
        self._feeds[place].seek(offset)
        self._held_back.pop(place, None)
        if self._open is not None and self._open[0].topic_partition == place:
            self._open[1].drop()
            self._open = None

    def pause(self, places: Iterable[TopicAndPartition]) -> None:
        """Nothing of these is handed out, nor the rest of a chunk that is read row by row."""
        for place in places:
            self._check(place)
            self._paused.add(place)
            if self._open is not None and self._open[0].topic_partition == place:
                rest = self._rest_of_open()
                if rest is not None:
                    self._held_back.setdefault(place, []).insert(0, rest)
            if place in self._feeds:
                self._feeds[place].pause()

    def resume(self, places: Iterable[TopicAndPartition]) -> None:
        """The reverse."""
        for place in places:
            self._check(place)
            self._paused.discard(place)
            if place in self._feeds:
                self._feeds[place].resume()

    def _check(self, place: TopicAndPartition) -> None:
        if not self.is_assigned(place):
            having = ", ".join(map(str, sorted(self.assigned))) or "nothing"
            raise ConfigError(f"{place} is not assigned to this member; it has {having}")
