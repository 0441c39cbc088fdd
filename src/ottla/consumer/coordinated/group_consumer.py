"""GroupConsumer: reads topics as a member of a group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.consumer.coordinated.base_group_consumer import BaseGroupConsumer
from ottla.consumer.coordinated.commits import (
    AutoCommit,
    CommitResources,
    Commits,
    OnCommit,
    log_failure,
)
from ottla.consumer.coordinated.group_consumer_config import GroupConsumerConfig
from ottla.consumer.coordinated.member_state import MemberState
from ottla.consumer.coordinated.membership_thread import MembershipThread
from ottla.consumer.coordinated.partitions import AssignedPartitions
from ottla.consumer.coordinated.rebalancing import RebalanceListener, Rebalancing
from ottla.consumer.coordinated.topic_selection import TopicSelection, WantedTopics
from ottla.consumer.reading.group_argument import group_settings
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.commit_positions import Committable
from ottla.fetching.engine import FetchEngine
from ottla.fetching.inbox import Inbox
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer

Message = MessageAndMetadata[Any, Any]


class GroupConsumer(BaseGroupConsumer, Closing):
    """Reads topics as a member of a group. Joins with the first `poll`, leaves with `close`.

    `topics` is a name, several names, or a compiled pattern that must match whole names. Settings are
    Kafka's, in the mapping `properties` or as keywords with underscores. `key_deserializer` and
    `value_deserializer` are called with the bytes of a message's key and value when these are read, never
    with None.

        >>> from ottla import EmbeddedBroker, GroupConsumer, Producer
        >>> with EmbeddedBroker() as broker:
        ...     with Producer(bootstrap_servers=broker.bootstrap) as producer:
        ...         _ = producer.send("orders", value=b"book")
        ...     with GroupConsumer(
        ...         "orders",
        ...         group_id="billing",
        ...         bootstrap_servers=broker.bootstrap,
        ...         auto_offset_reset="earliest",
        ...         value_deserializer=bytes.decode,
        ...     ) as consumer:
        ...         for message in consumer:
        ...             print(message.topic, message.offset, message.value)
        ...             consumer.commit(message)
        ...             break
        orders 0 book

    One thread uses a GroupConsumer, the one that polls. Other threads join, send heartbeats, fetch and
    commit.
    """

    _membership: MembershipThread

    def __init__(
        self,
        topics: WantedTopics,
        properties: Mapping[str, object] | None = None,
        *,
        group_id: str | None = None,
        listener: RebalanceListener | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        config = GroupConsumerConfig.from_properties(group_settings(properties, group_id, settings))
        client = config.client
        selection = TopicSelection(topics)
        self._in_use = threading.RLock()
        self._metadata = ClusterMetadata(client)
        super().__init__(config, selection, self._metadata.errors)
        self._lookup = OffsetLookup(client, self._metadata, config.fetch.isolation_level)
        self._engine = FetchEngine(client, config.fetch, self._metadata, name=config.member.group_id)
        self._partitions = AssignedPartitions(self._engine, Inbox(), key_deserializer, value_deserializer)
        self._membership = membership = MembershipThread(
            client, config.member, self._selection, self._metadata, self._partitions.wake
        )
        self._commits = Commits(
            client, self._metadata, self._group_id, membership, self._partitions.is_assigned
        )
        self._auto_commit = auto_commit = AutoCommit(
            self._group_id, self._commits, self._partitions.committable, config.auto_commit_interval_ms
        )
        self._rebalancing = Rebalancing(
            self._group_id,
            listener or RebalanceListener(),
            membership,
            self._partitions,
            self._commits,
            auto_commit,
        )
        # Nothing here may refer to the listener or to callbacks: these often refer to the consumer.
        self._stop = partial(
            _stop, membership, self._engine, self._commits.resources, self._lookup, self._metadata
        )
        self._stopped_by(
            stop_if_forgotten(
                self,
                f"GroupConsumer of group {self._group_id!r}",
                self._stop,
                is_running=lambda: membership.is_started,
            )
        )

    @property
    def _is_started(self) -> bool:
        return self._membership.is_started

    # --- reading

    def poll(self, timeout: float | None = None) -> FetchedDataChunk | None:
        """Return the next chunk of any assigned partition, or None if none arrives within `timeout` seconds.

        With `timeout=None` wait for ever. Runs the listener, and commits if auto commit is on. Raises the
        error that stopped a partition, once (see `stopped`); the error that ended the membership, each time
        until `retry`; and errors of the listener.
        """
        chunk = self._next(timeout)
        return chunk.take_rest() if chunk is not None else None

    def _next(self, timeout: float | None) -> HeldChunk | None:
        deadline = Deadline(MONOTONIC, None if timeout is None else timeout * 1000)
        if not self._in_use.acquire(blocking=False):
            raise ConfigError(f"group {self._group_id!r}: another thread reads from this consumer; one may")
        try:
            while True:
                is_settled = self._attend(deadline)
                chunk = self._partitions.hold(deadline.capped_ms(self._max_wait_ms) if is_settled else 0)
                if chunk is not None or deadline.passed:
                    return chunk
        finally:
            self._in_use.release()

    def chunks(self, timeout: float | None = None) -> Iterator[FetchedDataChunk]:
        """Iterate over chunks as `poll` returns them, until none arrives within `timeout` seconds."""
        while (chunk := self.poll(timeout)) is not None:
            yield chunk

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """Iterate over messages until none arrives within `timeout` seconds; None waits for ever.

        A later call continues after the last message. After every max.poll.records messages it does the work
        of `poll`: listener, auto commit.
        """
        while (chunk := self._next(timeout)) is not None:
            yield from islice(chunk.rows, self._max_poll_records)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over messages for ever."""
        return self.messages()

    def _attend(self, deadline: Deadline) -> bool:
        """Do what is due before records are handed out.

        Returns False if the committed offsets of new partitions are not known yet.
        """
        self._check_open()
        self._membership.start()
        self._commits.run_callbacks()
        try:
            change = self._membership.polled()
        except Exception:
            self._rebalancing.lose(self._partitions.assigned)
            raise
        self._membership.raise_refusal()
        wait_ms = deadline.capped_ms(self._max_wait_ms)
        is_settled = change is None or self._rebalancing.carry_out(change, wait_ms)
        self._auto_commit.commit_if_due()
        return is_settled

    # --- commits

    def commit(self, offsets: Committable | None = None) -> None:
        """Store positions and wait for the answer.

        `offsets` is a message or a chunk, which counts as done; a mapping from partitions to next offsets; or
        None for everything that was handed out. Raises PartitionsLost if a partition is not assigned (any
        more), OffsetCommitFailed, and what connections raise if no coordinator answers in time.
        """
        positions = self._positions(offsets)
        if positions:
            self._commits.submit(positions).result()
        self._commits.run_callbacks()

    def commit_async(
        self,
        offsets: Committable | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Store positions without waiting.

        `on_commit(offsets, error)` is called by a later `poll`, `commit` or `close`. Without it a failure is
        logged.
        """
        positions = self._positions(offsets)
        if positions:
            self._commits.submit(positions, on_commit or partial(log_failure, self._group_id))

    def committed(
        self, partitions: Iterable[TopicAndPartition] | None = None
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the group's stored positions, of the assigned partitions by default, where there are any."""
        return self._commits.store.fetch(
            self._group_id, self.assignment if partitions is None else partitions
        )

    # --- the group

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._check_open()
        self._metadata.check_brokers(timeout)

    def subscribe(self, topics: WantedTopics) -> None:
        """Read these topics instead of the present ones; the group rebalances.

        The partitions change inside a later `poll`.
        """
        self._check_open()
        self._selection = TopicSelection(topics)
        self._membership.subscribe(self._selection)

    # --- positions

    def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset`: a number, "earliest", "latest", a datetime with a time zone or a timedelta.

        Asks the leader only if `offset` is a time. Raises ConfigError if the offset makes no sense or the
        partition is not assigned.
        """
        self._check_open()
        self._partitions.check_assigned(topic_partition)
        self._partitions.seek(topic_partition, self._lookup.start(topic_partition, offset))

    def retry(self, *partitions: TopicAndPartition) -> None:
        """Fetch now where errors stopped these partitions, or all if none is named.

        Without names, a member whose membership an error has ended joins again too.
        """
        self._check_open()
        self._partitions.retry(partitions)
        if not partitions and self._membership.state is MemberState.FAILED:
            self._rebalancing.lose(self._partitions.assigned)
            self._membership.retry()

    def tail(self, count: int) -> None:
        """Continue at the last `count` offsets of each assigned partition.

        Raises ConfigError if no partition is assigned: call it after the first `poll`, or in `on_assigned`.
        """
        self._check_open()
        if not self.assignment:
            raise ConfigError("tail(): no partition is assigned yet; poll first, or call it in on_assigned")
        for topic_partition, offset in self._lookup.tail(self.assignment, count).items():
            self._partitions.seek(topic_partition, offset)

    def offsets_for_times(
        self, times: Mapping[TopicAndPartition, datetime | timedelta | str]
    ) -> dict[TopicAndPartition, int | None]:
        """Return the offset of the first record at that time or later; None if there is none.

        A time is a datetime with a time zone, ISO text, or a timedelta before now.
        """
        self._check_open()
        return self._lookup.for_times(times)

    # --- the end

    def close(self) -> None:
        """Commit if auto commit is on, call the listener, leave the group. May be called twice."""
        if self._is_closed:
            return
        self._forgotten.detach()
        with contextlib.ExitStack() as stack:
            # In reverse order: submitted commits are done, then the group is left and the rest is closed.
            stack.callback(self._stop)
            stack.callback(self._commits.close)
            stack.callback(self._mark_closed)
            if self._partitions.assigned:
                self._rebalancing.revoke(self._partitions.assigned)


def _stop(
    membership: MembershipThread,
    engine: FetchEngine,
    commits: CommitResources,
    lookup: OffsetLookup,
    metadata: ClusterMetadata,
) -> None:
    """Leave the group and end all threads, without a commit."""
    with contextlib.ExitStack() as stack:
        stack.callback(metadata.close)
        stack.callback(lookup.close)
        stack.callback(engine.close)
        stack.callback(membership.stop)
        stack.callback(commits.close)
