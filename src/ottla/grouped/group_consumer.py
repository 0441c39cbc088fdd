"""GroupConsumer: reads topics as a member of a group.

with GroupConsumer("orders", "billing", bootstrap_servers="127.0.0.1:9092") as consumer:
    while chunk := consumer.poll(timeout_ms=1000):
        store(chunk.batch)                     # pyarrow: offset, timestamp, key, value
        consumer.commit(chunk)

Everything here is for one thread, the one that polls. Others join, send heartbeats, fetch and commit.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.properties import merged
from ottla.fetching import FetchedDataChunk, TopicAndPartition
from ottla.grouped.commits import Commits, Offsets, OnCommit
from ottla.grouped.config import GroupConsumerConfig
from ottla.grouped.demands import Demand, Places
from ottla.grouped.errors import ConsumerClosed
from ottla.grouped.listener import RebalanceListener
from ottla.grouped.membership_thread import MembershipThread
from ottla.grouped.partitions import AssignedPartitions
from ottla.grouped.topics import TopicSelection, Wanted
from ottla.model.errors import OttlaError
from ottla.offsets import OffsetAndMetadata
from ottla.offsets.coordinator_messages import Membership
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Decoder

log = logging.getLogger(__name__)

WAIT_MS = 1_000.0
"""An application that waits for records is alive, and tells so at least that often."""

Positions = Mapping[TopicAndPartition, int | OffsetAndMetadata]


class GroupConsumer:
    """Joins with the first `poll`, and leaves with `close`.

    `topics` are a name, several, or a compiled pattern that has to match whole names. `properties` are
    Kafka's, with dots or underscores.
    """

    def __init__(
        self,
        topics: Wanted,
        group_id: str,
        properties: Mapping[str, object] | None = None,
        *,
        listener: RebalanceListener | None = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
        **more: object,
    ) -> None:
        self._selection = TopicSelection(topics)
        self._config = GroupConsumerConfig.from_properties({**merged(properties, more), "group.id": group_id})
        self._group_id = group_id
        self._listener = listener or RebalanceListener()
        client = self._config.client
        self._metadata = ClusterMetadata(client)
        self._partitions = AssignedPartitions(self._config, self._metadata, key_decoder, value_decoder)
        self._membership = MembershipThread(
            client, self._config.member, self._selection, self._metadata, self._partitions.wake
        )
        self._commits = Commits(
            client, self._metadata, group_id, self._membership, self._partitions.is_assigned
        )
        self._store = self._commits.store
        self._committed_at_ms = MONOTONIC.now_ms()
        self._auto_committed: dict[TopicAndPartition, int] = {}
        self._wait_ms = min(WAIT_MS, self._config.member.max_poll_interval_ms / 3)
        self._is_closed = False

    # --- reading

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """The next chunk of any partition; None after so long. None waits without end.

        Runs the listener, and commits from time to time if auto commit is on. Raises what stopped a
        partition, once; what ended the membership, each time; what the listener raised.
        """
        deadline = Deadline(MONOTONIC, timeout_ms)
        while True:
            self._attend()
            chunk = self._partitions.take(deadline.capped_ms(self._wait_ms))
            if chunk is not None or deadline.passed:
                return chunk

    def chunks(self, timeout_ms: float | None = None) -> Iterator[FetchedDataChunk]:
        """What `poll` gives, until nothing comes for so long."""
        while (chunk := self.poll(timeout_ms)) is not None:
            yield chunk

    def messages(self, timeout_ms: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Records one by one, until none comes for so long. Who stops may go on with another call.

        Every max.poll.records of them it looks after the group, as `poll` does.
        """
        while True:
            while self._partitions.has_rows:
                yield from self._partitions.rows(self._config.max_poll_records)
                self._attend()
            chunk = self.poll(timeout_ms)
            if chunk is None:
                return
            self._partitions.open(chunk)

    def _attend(self) -> None:
        """All that has to be done before records are handed out."""
        if self._is_closed:
            raise ConsumerClosed(f"group {self._group_id!r}: this consumer is closed; make another one")
        self._membership.start()
        self._commits.tell()
        try:
            demand = self._membership.polled()
        except Exception:
            self._lose(self._partitions.assigned)
            raise
        if demand is not None:
            self._obey(demand)
        self._commit_if_due()

    # --- rebalances

    def _obey(self, demand: Demand) -> None:
        """The listener first, then the partitions go: it may commit their positions.

        What may fail and be tried again comes before all that. What comes after it is done in any case, also
        if the listener raises: the group waits for us.
        """
        takes = not demand.is_lost and bool(demand.take or not demand.give_back)
        starts = self._store.fetch(self._group_id, demand.take) if takes else {}
        with contextlib.ExitStack() as stack:
            stack.callback(self._membership.done)
            if takes:
                stack.callback(self._take, demand, {place: one.offset for place, one in starts.items()})
            if demand.is_lost:
                self._lose(demand.give_back)
            elif demand.give_back:
                self._give_back(demand.give_back)

    def _give_back(self, places: Places) -> None:
        log.info("group %r: gives back %s", self._group_id, ", ".join(map(str, sorted(places))))
        self._commit_finally()
        try:
            self._listener.on_revoked(places)
        finally:
            self._commits.flush()
            self._forget(places)

    def _lose(self, places: Places) -> None:
        if not places:
            return
        log.warning("group %r: has lost %s", self._group_id, ", ".join(map(str, sorted(places))))
        try:
            self._listener.on_lost(places)
        finally:
            self._forget(places)

    def _forget(self, places: Places) -> None:
        self._partitions.remove(places)
        for place in places:
            self._auto_committed.pop(place, None)

    def _take(self, demand: Demand, starts: Mapping[TopicAndPartition, int]) -> None:
        places = ", ".join(f"{place} at {starts.get(place, 'no offset')}" for place in sorted(demand.take))
        generation = demand.membership.generation
        log.info("group %r: takes %s in generation %d", self._group_id, places or "nothing", generation)
        self._auto_committed |= starts
        self._partitions.announce(demand.take, starts)
        try:
            self._listener.on_assigned(demand.take)
        finally:
            self._partitions.begin()

    # --- commits

    def commit(self, offsets: Positions | FetchedDataChunk | None = None) -> None:
        """Store positions: of a chunk, given ones, or of all partitions behind what was handed out; waits for
        the answer.

        Only of partitions that are assigned: PartitionsLost otherwise, also if others got them meanwhile.
        Raises OffsetCommitFailed, and what connections raise if no coordinator answers in time.
        """
        wanted = self._wanted(offsets)
        if wanted:
            self._commits.submit(wanted).result()
        self._commits.tell()

    def commit_async(
        self, offsets: Positions | FetchedDataChunk | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """The same without waiting. `on_commit(offsets, error)` is called by a later `poll`, `commit` or
        `close`; without it a failure is logged."""
        wanted = self._wanted(offsets)
        if wanted:
            self._commits.submit(wanted, on_commit or self._log_failure)

    def _wanted(self, offsets: Positions | FetchedDataChunk | None) -> Offsets:
        if self._is_closed:
            raise ConsumerClosed(f"group {self._group_id!r}: this consumer is closed; make another one")
        if offsets is None:
            offsets = self._partitions.positions()
        elif isinstance(offsets, FetchedDataChunk):
            offsets = {offsets.topic_partition: offsets.next_offset}
        return {
            place: one if isinstance(one, OffsetAndMetadata) else OffsetAndMetadata(one)
            for place, one in offsets.items()
        }

    def _log_failure(self, offsets: Offsets, error: OttlaError | None) -> None:
        if error is not None:
            log.warning("group %r: a commit of %d positions: %s", self._group_id, len(offsets), error)

    def _changed_positions(self) -> dict[TopicAndPartition, int]:
        positions = self._partitions.positions()
        return {place: one for place, one in positions.items() if self._auto_committed.get(place) != one}

    def _commit_if_due(self) -> None:
        interval_ms, now_ms = self._config.auto_commit_interval_ms, MONOTONIC.now_ms()
        if interval_ms is None or now_ms - self._committed_at_ms < interval_ms:
            return
        self._committed_at_ms = now_ms
        self.commit_async(self._changed_positions(), self._auto_commit_told)

    def _auto_commit_told(self, offsets: Offsets, error: OttlaError | None) -> None:
        self._log_failure(offsets, error)
        if error is None:
            stored = {place: one.offset for place, one in offsets.items() if place in self.assignment}
            self._auto_committed |= stored

    def _commit_finally(self) -> None:
        """Before partitions go. A failure must not keep the group waiting: it is logged."""
        if self._config.auto_commit_interval_ms is None:
            return
        try:
            self.commit(self._changed_positions())
        except OttlaError as error:
            log.warning("group %r: the last commit: %s", self._group_id, error)

    def committed(
        self, partitions: Iterable[TopicAndPartition] | None = None
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What the group has stored; partitions without a position are missing."""
        return self._store.fetch(self._group_id, self.assignment if partitions is None else partitions)

    # --- partitions

    @property
    def assignment(self) -> Places:
        """What this member has now; it changes in `poll` only."""
        return self._partitions.assigned

    @property
    def membership(self) -> Membership:
        """Who this member is: its `member_id` and `generation` (-1 while it belongs to none)."""
        return self._membership.membership

    def position(self, topic_partition: TopicAndPartition) -> int:
        """The offset behind the last record that was handed out; -1 before the first and without a commit."""
        return self._partitions.position(topic_partition)

    def seek(self, topic_partition: TopicAndPartition, offset: int) -> None:
        """Go on at another offset, or EARLIEST or LATEST. Raises ConfigError if it is not assigned."""
        self._partitions.seek(topic_partition, offset)

    def pause(self, *partitions: TopicAndPartition) -> None:
        """Fetch no more of these for now, nor hand out what waits; `poll` goes on with the others."""
        self._partitions.pause(partitions)

    def resume(self, *partitions: TopicAndPartition) -> None:
        """Fetch again."""
        self._partitions.resume(partitions)

    # --- the end

    def close(self) -> None:
        """Commit if auto commit is on, tell the listener, leave the group. May be called twice."""
        if self._is_closed:
            return
        with contextlib.ExitStack() as stack:
            # Backwards: what was submitted is committed, then the group is left, then the rest ends.
            stack.callback(self._metadata.close)
            stack.callback(self._partitions.close)
            stack.callback(self._membership.stop)
            stack.callback(self._commits.close)
            stack.callback(self._mark_closed)
            if self._partitions.assigned:
                self._give_back(self._partitions.assigned)

    def _mark_closed(self) -> None:
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
