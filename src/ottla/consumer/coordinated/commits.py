"""Commits of a group member: in order, in a thread of their own, repeated through rebalances.

A commit that meets a rebalance is repeated in the next generation if the member still has the partitions.
Otherwise it fails with PartitionsLost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.interruption import ENDING_S
from ottla.client.metadata import ClusterMetadata
from ottla.client.reactions import Action, Call, action_for
from ottla.model.errors import ConfigError, OffsetCommitFailed, OttlaError, PartitionsLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from ottla.offsets.coordinator_messages import NO_MEMBERSHIP, Membership
from ottla.offsets.stop_note import stop_reason

log = logging.getLogger(__name__)

CommittedOffsets = Mapping[TopicAndPartition, OffsetAndMetadata]
OnCommit = Callable[[CommittedOffsets, OttlaError | None], None]

FLUSH_S = 5.0
"""How long a rebalance or a close waits for submitted commits."""

_LOST = {Action.FORGET_GENERATION, Action.FORGET_MEMBER}


class CommittingMember(Protocol):
    """The member in whose name offsets are committed."""

    @property
    def membership(self) -> Membership:
        """The present identity; generation -1 if it belongs to no generation."""

    def refused_commit(self, code: int, membership: Membership) -> None:
        """Report the coordinator's error for a commit that was made with this identity."""


@dataclass(slots=True)
class _Identity:
    """The identity for the present try of a commit."""

    membership: Membership = NO_MEMBERSHIP


class CommitRules:
    """In whose name offsets are committed, and what an error means."""

    def __init__(
        self, group_id: str, member: CommittingMember, is_assigned: Callable[[TopicAndPartition], bool]
    ) -> None:
        self._group_id = group_id
        self._member = member
        self.is_assigned = is_assigned

    def identity(self, offsets: CommittedOffsets) -> Membership:
        """Return the identity for all requests of this try.

        Raises PartitionsLost if the member is in no generation or a partition is not assigned. A later
        generation must not be used within a try: a partition that was given up in between has another owner,
        whose commit would be undone.
        """
        membership = self._member.membership
        if membership.generation < 0 or not all(map(self.is_assigned, offsets)):
            raise self._lost(offsets, "this member does not have them any more")
        return membership

    def left(
        self, error: OffsetCommitFailed, offsets: CommittedOffsets, membership: Membership, deadline: Deadline
    ) -> CommittedOffsets:
        """Return the offsets to try again. Raises PartitionsLost, or `error` if a retry makes no sense."""
        action = action_for(error.code, Call.OFFSET_COMMIT)
        may_pass = action is Action.REJOIN or self._member.membership != membership
        if not may_pass or deadline.passed:
            self._member.refused_commit(error.code, membership)
            if action in _LOST:
                raise self._lost(offsets, error.error.text) from error
            raise error
        return {topic_partition: offsets[topic_partition] for topic_partition in error.failures}

    def _lost(self, offsets: CommittedOffsets, reason: str) -> PartitionsLost:
        shown = ", ".join(
            f"{partition} at {position.offset}" for partition, position in sorted(offsets.items())
        )
        return PartitionsLost(
            f"group {self._group_id!r}: {shown} not committed: {reason}. Others go on at the last commit; "
            "poll() joins again. If this goes on, raise max.poll.interval.ms or process less between polls"
        )


class CommitResources(NamedTuple):
    """The parts that have to be closed. Holds no reference to callbacks."""

    store: KafkaOffsets
    thread: ThreadPoolExecutor
    metadata: ClusterMetadata

    def close(self) -> None:
        """Close the store and end the thread: calls that wait, also for the shared metadata, fail now."""
        self.metadata.interrupt()
        self.store.close()
        self.thread.shutdown(wait=False)


class Commits:
    """Belongs to the polling thread: `run_callbacks` calls back there. Owns the store, and closes it."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        group_id: str,
        member: CommittingMember,
        is_assigned: Callable[[TopicAndPartition], bool],
    ) -> None:
        self._config = config
        self._group_id = group_id
        self._rules = CommitRules(group_id, member, is_assigned)
        self.is_assigned = is_assigned
        identity = self._identity = _Identity()
        self.store = KafkaOffsets(config, metadata, membership=lambda: identity.membership)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ottla-commits-{group_id}")
        self.resources = CommitResources(self.store, self._thread, metadata)
        self._last: Future[None] | None = None
        self._finished: deque[tuple[OnCommit, CommittedOffsets, OttlaError | None]] = deque()

    def submit(self, offsets: CommittedOffsets, on_commit: OnCommit | None = None) -> Future[None]:
        """Commit after everything that was submitted before."""
        self._last = self._thread.submit(self._perform, dict(offsets), on_commit)
        return self._last

    def fetch(self, partitions: Iterable[TopicAndPartition]) -> Future[CommittedOffsets]:
        """Look up stored positions after everything that was submitted before, without waiting."""
        return self._thread.submit(self.store.fetch, self._group_id, partitions)

    def run_callbacks(self) -> None:
        """Call the callbacks of finished commits."""
        while self._finished:
            on_commit, offsets, error = self._finished.popleft()
            on_commit(offsets, error)

    def flush(self) -> None:
        """Wait up to FLUSH_S for submitted commits, and never twice for the same one."""
        last, self._last = self._last, None
        if last is not None:
            wait([last], FLUSH_S)

    def close(self) -> None:
        """Flush, interrupt what is left, close the store, run the last callbacks."""
        last = self._last
        self.flush()
        self.resources.close()
        if last is not None:
            wait([last], ENDING_S)
        self.run_callbacks()

    def _perform(self, offsets: CommittedOffsets, on_commit: OnCommit | None) -> None:
        failure: OttlaError | None = None
        try:
            self._commit(offsets)
        except OttlaError as error:
            failure = error
        if on_commit is not None:
            self._finished.append((on_commit, offsets, failure))
        if failure is not None:
            raise failure

    def _commit(self, offsets: CommittedOffsets) -> None:
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        while True:
            membership = self._identity.membership = self._rules.identity(offsets)
            try:
                self.store.commit(self._group_id, offsets)
            except OffsetCommitFailed as error:
                offsets = self._rules.left(error, offsets, membership, deadline)
                MONOTONIC.pause(self._config.retry_backoff_ms)
            else:
                return


class Submitting(Protocol):
    """Anything that commits positions one after the other."""

    @property
    def is_assigned(self) -> Callable[[TopicAndPartition], bool]:
        """Whether a partition is assigned."""

    def submit(self, offsets: CommittedOffsets, on_commit: OnCommit | None = None) -> object:
        """Commit after everything that was submitted before."""


class CommitTimes:
    """When positions are committed automatically: every `interval_ms`; never if that is None."""

    def __init__(
        self,
        group_id: str,
        commits: Submitting,
        positions: Callable[[], CommittedOffsets],
        interval_ms: float | None,
    ) -> None:
        self._group_id = group_id
        self._commits = commits
        self._positions = positions
        self._interval_ms = interval_ms
        self._committed_at_ms = MONOTONIC.now_ms()
        self._committed: dict[TopicAndPartition, tuple[int, str]] = {}

    @property
    def is_on(self) -> bool:
        """Whether positions are committed automatically."""
        return self._interval_ms is not None

    def check_off(self) -> None:
        """Raise ConfigError if positions are committed automatically."""
        if self._interval_ms is not None:
            raise ConfigError(
                f"group {self._group_id!r}: positions are to be committed in transactions, and auto commit"
                " does it outside of them: set enable.auto.commit=false"
            )

    def note(self, committed: CommittedOffsets) -> None:
        """Remember offsets that are committed already: they are not committed again."""
        self._committed |= {
            topic_partition: _key(position) for topic_partition, position in committed.items()
        }

    def forget(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Forget partitions that are not assigned any more."""
        for topic_partition in partitions:
            self._committed.pop(topic_partition, None)

    def commit_if_due(self) -> None:
        """Submit a commit if the interval has passed."""
        now_ms = MONOTONIC.now_ms()
        if self._interval_ms is None or now_ms - self._committed_at_ms < self._interval_ms:
            return
        self._committed_at_ms = now_ms
        offsets = self.changed()
        if offsets:
            self._commits.submit(offsets, self._on_commit)

    def changed(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """The positions that are not committed yet."""
        return {
            topic_partition: position
            for topic_partition, position in self._positions().items()
            if self._committed.get(topic_partition) != _key(position)
        }

    def _on_commit(self, offsets: CommittedOffsets, error: OttlaError | None) -> None:
        log_failure(self._group_id, offsets, error)
        if error is None:
            assigned = {
                each: position for each, position in offsets.items() if self._commits.is_assigned(each)
            }
            self.note(assigned)


class AutoCommit(CommitTimes):
    """Commits the positions every `interval_ms` and before partitions are given up; never if that is None."""

    _commits: Commits

    def __init__(
        self,
        group_id: str,
        commits: Commits,
        positions: Callable[[], CommittedOffsets],
        interval_ms: float | None,
    ) -> None:
        super().__init__(group_id, commits, positions, interval_ms)

    def commit_now(self) -> None:
        """Commit before partitions are given up. A failure is logged: the group must not wait."""
        if not self.is_on:
            return
        try:
            offsets = self.changed()
            if offsets:
                self._commits.submit(offsets).result()
            self._commits.run_callbacks()
        except OttlaError as error:
            log.warning("group %r: the last commit: %s", self._group_id, error)


def _key(position: OffsetAndMetadata) -> tuple[int, str]:
    """Return what has to differ for another commit: the offset, or whether the partition is stopped."""
    return position.offset, stop_reason(position.metadata)


def log_failure(group_id: str, offsets: CommittedOffsets, error: OttlaError | None) -> None:
    """Log the error of a commit that nobody waits for."""
    if error is not None:
        log.warning("group %r: a commit of %d positions: %s", group_id, len(offsets), error)
