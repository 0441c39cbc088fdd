"""Looks at the whole cluster every few seconds, so that pages need not ask for what they all show."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ottla.admin import (
    Admin,
    ClusterDescription,
    GroupDescription,
    GroupLag,
    GroupListing,
    PartitionDescription,
    TopicDescription,
)
from ottla.admin.log_dirs import log_dirs
from ottla.console.cluster_reader import ClusterReader
from ottla.console.history import History
from ottla.console.rebalances import Rebalance, RebalanceLog
from ottla.model.closing import Closing
from ottla.model.errors import AdminErrors, OttlaError
from ottla.model.topic_partition import TopicAndPartition

log = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")

EVERY_S = 5.0
SHARE_MAX = 0.2
"""A look may take this share of the time: on a large cluster looks are rarer."""
SIZES_EVERY = 6
GROUP = "group lag "
BEHIND = "group seconds "
TOPIC = "topic end "
PART_SERIES_MAX = 1000
SAVED_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster at a moment. `error` says why there is none, or which part is missing."""

    at: float = 0.0
    took_s: float = 0.0
    cluster: ClusterDescription | None = None
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    first: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    end: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    groups: tuple[GroupListing, ...] = ()
    lags: Mapping[str, GroupLag] = field(default_factory=dict)
    error: str = ""

    def records(self, topic: str) -> int:
        """Offsets between the beginning and the end of a topic's logs."""
        parts = [TopicAndPartition(topic, part.partition) for part in self._parts(topic)]
        return sum(self.end.get(part, 0) - self.first.get(part, 0) for part in parts)

    def bytes(self, topic: str) -> int | None:
        """The bytes of a topic on disk; None if no broker has said so."""
        sizes = [self.sizes.get(TopicAndPartition(topic, part.partition)) for part in self._parts(topic)]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    def _parts(self, topic: str) -> tuple[PartitionDescription, ...]:
        topic_view = self.topics.get(topic)
        return topic_view.partitions if topic_view is not None else ()

    @property
    def leaderless(self) -> list[str]:
        """Partitions without a leader."""
        return [
            f"{name}-{part.partition}"
            for name, topic in self.topics.items()
            for part in topic.partitions
            if part.leader is None
        ]

    @property
    def out_of_sync(self) -> list[str]:
        """Partitions with fewer replicas in sync than there are."""
        return [
            f"{name}-{part.partition}"
            for name, topic in self.topics.items()
            for part in topic.partitions
            if len(part.isr) < len(part.replicas)
        ]


class Sampler(Closing):
    """A thread. Any other thread may read the last snapshot and the history."""

    def __init__(self, reader: ClusterReader, file: Path | None = None, every_s: float = EVERY_S) -> None:
        self._reader = reader
        self._file = file
        self._every_s = every_s
        self._snapshot = ClusterSnapshot()
        self._history = _loaded(file)
        self._rebalances = RebalanceLog()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._looks = 0
        self._thread = threading.Thread(target=self._run, name="console-sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The last one."""
        return self._snapshot

    def points(self, name: str) -> list[tuple[float, float]]:
        """The points of a series."""
        with self._lock:
            return list(self._history.series(name).points)

    def rates(self, name: str) -> list[tuple[float, float]]:
        """The growth a second of a series."""
        with self._lock:
            return self._history.series(name).rates()

    def rate(self, name: str) -> float | None:
        """The last growth a second of a series; None until it was measured twice."""
        with self._lock:
            last = self._history.series(name).rates(1)
        return last[-1][1] if last else None

    def behind_s(self, topic_partition: TopicAndPartition, committed: int | None) -> float | None:
        """Return how long ago the log's end was at this offset: 0 at the end; None if the sampler did not see
        it there.
        """
        end = self._snapshot.end.get(topic_partition)
        if committed is None or end is None:
            return None
        if committed >= end:
            return 0.0
        with self._lock:
            then = self._history.series(f"{TOPIC}{topic_partition}").time_of(committed)
        return None if then is None else max(0.0, self._snapshot.at - then)

    def note_groups(self, requested_at: float, groups: Iterable[GroupDescription]) -> None:
        """Compare groups with their last description; `requested_at` is when the request was sent."""
        with self._lock:
            self._rebalances.note(requested_at, groups)

    def rebalances(self, group: str) -> list[Rebalance]:
        """The changes of a group that were seen, the newest first."""
        with self._lock:
            return self._rebalances.changes(group)

    def wait(self, after: float, timeout: float) -> ClusterSnapshot:
        """Return the next snapshot after that time, or the last one after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot.at > after or self._ended.is_set(), timeout)
        return self._snapshot

    def look(self) -> ClusterSnapshot:
        """Look once, now."""
        began = time.time()
        try:
            snapshot = self._look(began)
        except OttlaError as error:
            snapshot = ClusterSnapshot(at=began, error=str(error))
        except Exception as error:
            log.exception("the console could not look at the cluster")
            snapshot = ClusterSnapshot(at=began, error=f"an error of the console, see its log: {error!r}")
        with self._lock:
            if snapshot.cluster is not None:
                self._note(snapshot)
        with self._changed:
            self._snapshot = snapshot
            self._changed.notify_all()
        return snapshot

    def _look(self, began: float) -> ClusterSnapshot:
        ask = self._reader.ask
        cluster = ask(Admin.describe_cluster)
        topics, missing = _known(lambda: ask(lambda admin: admin.describe_topics()))
        names = list(topics)
        first, _ = _known(lambda: ask(lambda admin: admin.list_offsets(names, "earliest")) if names else {})
        end, unknown = _known(lambda: ask(lambda admin: admin.list_offsets(names, "latest")) if names else {})
        groups = ask(_groups)
        ids = sorted({group.group_id for group in groups})
        requested_at = time.time()
        lags, failed = _known(lambda: ask(lambda admin: admin.group_lag(ids)) if ids else {})
        self.note_groups(requested_at, [lag.group for lag in lags.values()])
        with self._lock:
            self._rebalances.keep_only(ids)
        sizes = self._snapshot.sizes
        if self._looks % SIZES_EVERY == 0:
            directories = self._reader.access(log_dirs)
            sizes = {part: count for directory in directories for part, count in directory.sizes.items()}
        self._looks += 1
        return ClusterSnapshot(
            at=time.time(),
            took_s=time.time() - began,
            cluster=cluster,
            topics=topics,
            first={part: answer.offset or 0 for part, answer in first.items()},
            end={part: answer.offset or 0 for part, answer in end.items()},
            sizes=sizes,
            groups=groups,
            lags=lags,
            error=missing or unknown or failed,
        )

    def _note(self, snapshot: ClusterSnapshot) -> None:
        at = snapshot.at
        ends: dict[str, float] = {}
        for part, offset in snapshot.end.items():
            ends[f"{TOPIC}{part.topic}"] = ends.get(f"{TOPIC}{part.topic}", 0) + offset
        read_by_groups = {row.topic_partition for lag in snapshot.lags.values() for row in lag.partitions}
        parts = {
            f"{TOPIC}{part}": float(snapshot.end[part])
            for part in sorted(read_by_groups & snapshot.end.keys())[:PART_SERIES_MAX]
        }
        lags = {f"{GROUP}{name}": float(lag.total) for name, lag in snapshot.lags.items()}
        seconds = {
            f"{BEHIND}{name}": max(known)
            for name, lag in snapshot.lags.items()
            if (known := [row.seconds for row in lag.partitions if row.seconds is not None])
        }
        totals = {"records": float(sum(snapshot.end.values())), "lag": float(sum(lags.values()))}
        values = {**totals, **lags, **seconds, **ends, **parts}
        self._history.keep_only(values)
        self._history.add(at, values)

    def _run(self) -> None:
        wait_s, saved_at = 0.0, time.monotonic()
        while not self._ended.wait(wait_s):
            snapshot = self.look()
            wait_s = max(self._every_s, snapshot.took_s / SHARE_MAX)
            if time.monotonic() - saved_at >= SAVED_EVERY_S:
                saved_at = time.monotonic()
                self._save()
        self._save()

    def _save(self) -> None:
        if self._file is None:
            return
        with self._lock:
            text = json.dumps(self._history.to_json(), separators=(",", ":"))
        hidden = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            hidden.write_text(text)
            hidden.replace(self._file)
        except OSError as error:
            log.warning("the history is not kept in %s: %s", self._file, error)
            self._file = None

    def close(self) -> None:
        """End it."""
        self._ended.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()


def _groups(admin: Admin) -> tuple[GroupListing, ...]:
    try:
        return admin.list_groups()
    except AdminErrors as error:
        some = [group for groups in error.results.values() for group in groups]
        return tuple(sorted(some, key=lambda group: (group.group_id, group.kind.value)))


def _known(call: Callable[[], Mapping[K, V]]) -> tuple[Mapping[K, V], str]:
    """Return the results that succeeded, and the first error."""
    try:
        return call(), ""
    except AdminErrors as error:
        return error.results, str(error)


def _loaded(file: Path | None) -> History:
    try:
        return History.from_json(json.loads(file.read_text())) if file is not None else History()
    except (OSError, ValueError):
        return History()
