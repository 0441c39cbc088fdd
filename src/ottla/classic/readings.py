"""What this process reads for the group: which partition goes to which stream, and how far it came.

Performs the effects of a member that are about fetching and offsets. The rebalancing thread starts and stops;
any thread commits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.classic.effects import Partitions, Start
from ottla.classic.gate import DeliveryGate
from ottla.classic.stream import KafkaStream
from ottla.client.clock import Clock
from ottla.fetching import BY_RESET_POLICY, FetchEngine, PartitionFeed, TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.offsets import OffsetAndMetadata, OffsetStore
from ottla.zookeeper.errors import ConnectionLost, ZnodeError

log = logging.getLogger(__name__)

StreamOf = Callable[[str, int], KafkaStream]
"""The stream of a topic's thread."""


class _Reading(NamedTuple):
    feed: PartitionFeed
    stream: KafkaStream


class Readings:
    """`engine` and `store` are made when they are first needed: brokers may not be there before."""

    def __init__(
        self,
        group_id: str,
        engine: Callable[[], FetchEngine],
        store: Callable[[], OffsetStore],
        stream_of: StreamOf,
        *,
        gate: DeliveryGate,
        clock: Clock,
    ) -> None:
        self._group_id = group_id
        self._engine = engine
        self._store = store
        self._stream_of = stream_of
        self._gate = gate
        self._clock = clock
        self._lock = threading.Lock()  # guards the next two
        self._readings: dict[TopicAndPartition, _Reading] = {}
        self._stopped: dict[TopicAndPartition, int] = {}
        self._commit_lock = threading.Lock()
        """Held from reading positions to their being stored: a slow commit must not come behind a release."""
        self.commits = 0

    # --- the rebalancing thread

    def start(self, starts: Mapping[TopicAndPartition, Start]) -> None:
        """Read partitions, all or none."""
        begun: list[TopicAndPartition] = []
        try:
            for place, (thread, offset) in sorted(starts.items()):
                stream = self._stream_of(place.topic, thread.thread)
                where = offset if offset >= 0 else BY_RESET_POLICY
                feed = self._engine().add(place, where, inbox=stream.inbox)
                begun.append(place)
                with self._lock:
                    self._stopped.pop(place, None)
                    self._readings[place] = _Reading(feed, stream)
        except OttlaError:
            self.abandon(tuple(begun))
            raise

    def stop(self, places: Partitions) -> None:
        """Read these no more; how far the streams came is kept for a commit."""
        for place in places:
            with self._lock:
                reading = self._readings.pop(place, None)
            if reading is None:
                continue
            self._engine().remove(place)
            consumed = reading.stream.release(place, reading.feed.position)
            with self._lock:
                self._stopped[place] = consumed

    def abandon(self, places: Partitions) -> None:
        """Read these no more, and forget how far the streams came."""
        self.stop(places)
        with self._lock:
            for place in places:
                self._stopped.pop(place, None)

    def commit_stopped(self, places: Partitions, *, is_wanted: bool) -> None:
        """Commit how far streams came in partitions that were stopped; a failure is logged.

        Raises ConnectionLost while the session is in doubt.
        """
        with self._lock:
            positions = {place: self._stopped[place] for place in places if place in self._stopped}
        if is_wanted:
            self._check_session()
            try:
                with self._commit_lock:
                    self._save(positions)
            except OttlaError as error:
                if isinstance(error, ConnectionLost):
                    raise
                log.warning("%s: their next owner will read messages again: %s", _texts(positions), error)
        with self._lock:
            for place in positions:
                self._stopped.pop(place, None)

    def committed(self, places: Partitions) -> dict[TopicAndPartition, int]:
        """What the group has stored. A node that cannot be read costs a line in the log, and its offset."""
        try:
            found = self._store().fetch(self._group_id, places)
        except ZnodeError:
            found = {}
            for place in places:
                try:
                    found |= self._store().fetch(self._group_id, (place,))
                except ZnodeError as error:
                    log.warning("%s begins where auto.offset.reset says: %s", place, error)
        return {place: position.offset for place, position in found.items()}

    def unfetched(self) -> frozenset[TopicAndPartition]:
        """Those that are read from no broker at present, though no reader has to decide anything."""
        with self._lock:
            readings = dict(self._readings)
        return frozenset(
            place
            for place, reading in readings.items()
            if reading.feed.is_closed or (reading.feed.info().source is None and reading.feed.failure is None)
        )

    # --- any thread

    @property
    def places(self) -> frozenset[TopicAndPartition]:
        """What is read."""
        with self._lock:
            return frozenset(self._readings)

    def positions(self) -> dict[TopicAndPartition, int]:
        """Where to go on behind what was handed out, for every partition of which that is known."""
        with self._lock:
            readings = dict(self._readings)
        found = {
            place: reading.stream.consumed(place, reading.feed.position)
            for place, reading in readings.items()
        }
        return {place: offset for place, offset in found.items() if offset >= 0}

    def commit(self, offsets: Mapping[TopicAndPartition, int] | None = None) -> None:
        """Commit these, or what was handed out. Raises ConnectionLost while the session is in doubt."""
        with self._commit_lock:
            self._check_session()
            self._save(self.positions() if offsets is None else offsets)

    def _save(self, positions: Mapping[TopicAndPartition, int]) -> None:
        known = {place: OffsetAndMetadata(offset) for place, offset in positions.items() if offset >= 0}
        if known:
            self._store().commit(self._group_id, known)
            self.commits += 1

    def _check_session(self) -> None:
        if not self._gate.is_open(self._clock.now_ms()):
            raise ConnectionLost(
                "nothing was committed: the ZooKeeper session is suspended, lost or closed, and the "
                "partitions may be others' by now; what is not committed will be read again"
            )


def _texts(places: Iterable[TopicAndPartition]) -> str:
    return ", ".join(map(str, sorted(places)))
