"""Commits of a member: in order, by a thread of their own, through rebalances that pass.

A commit that meets a rebalance is repeated in the name of the next generation, as long as the partitions are
still this member's; one whose partitions are gone is PartitionsLost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.places import TopicAndPartition
from ottla.grouped.errors import PartitionsLost
from ottla.grouped.member_state import Reaction, reaction_to
from ottla.model.errors import OttlaError
from ottla.offsets import KafkaOffsets, OffsetAndMetadata, OffsetCommitFailed
from ottla.offsets.coordinator_messages import NO_MEMBERSHIP, Membership

log = logging.getLogger(__name__)

Offsets = Mapping[TopicAndPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, OttlaError | None], None]

FLUSH_S = 5.0
"""How long a rebalance or a close waits for commits that were submitted."""

_LOST = {Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER}


class Group(Protocol):
    """In whose name is committed."""

    @property
    def membership(self) -> Membership:
        """The present one; generation -1 for none."""

    def refused_commit(self, code: int, membership: Membership) -> None:
        """The coordinator does not know it (any more)."""


class Commits:
    """Belongs to the application's thread: callbacks run in `tell`. It has the store, and closes it."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        group_id: str,
        group: Group,
        is_assigned: Callable[[TopicAndPartition], bool],
    ) -> None:
        self._config = config
        self._group_id = group_id
        self._group = group
        self._is_assigned = is_assigned
        self._membership = NO_MEMBERSHIP  # of the try that is under way
        self.store = KafkaOffsets(config, metadata, membership=lambda: self._membership)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ottla-commits-{group_id}")
        self._last: Future[None] | None = None
        self._told: deque[tuple[OnCommit, Offsets, OttlaError | None]] = deque()

    def submit(self, offsets: Offsets, on_commit: OnCommit | None = None) -> Future[None]:
        """Commit behind what was submitted before."""
        self._last = self._thread.submit(self._perform, dict(offsets), on_commit)
        return self._last

    def tell(self) -> None:
        """Call the callbacks of commits that are done."""
        while self._told:
            on_commit, offsets, error = self._told.popleft()
            on_commit(offsets, error)

    def flush(self) -> None:
        """Wait for what was submitted, but not for long, and not for the same twice: before partitions go."""
        last, self._last = self._last, None
        if last is not None:
            wait([last], FLUSH_S)

    def close(self) -> None:
        """Flush, and close the store."""
        self.flush()
        self.store.close()
        self._thread.shutdown()
        self.tell()

    def _perform(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        failure: OttlaError | None = None
        try:
            self._commit(offsets)
        except OttlaError as error:
            failure = error
        if on_commit is not None:
            self._told.append((on_commit, offsets, failure))
        if failure is not None:
            raise failure

    def _commit(self, offsets: Offsets) -> None:
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        while True:
            # One for the whole try: a commit in the name of a later generation, of a partition that was
            # given back in between, would undo its new owner's.
            membership = self._membership = self._group.membership
            if membership.generation < 0 or not all(map(self._is_assigned, offsets)):
                raise self._lost(offsets, "this member does not have them any more")
            try:
                self.store.commit(self._group_id, offsets)
            except OffsetCommitFailed as error:
                reaction = reaction_to(error.code)
                passes = reaction is Reaction.REJOIN or self._group.membership != membership
                if not passes or deadline.passed:
                    self._group.refused_commit(error.code, membership)
                    if reaction in _LOST:
                        raise self._lost(offsets, error.error.text) from error
                    raise
                offsets = {place: offsets[place] for place in error.failures}
                MONOTONIC.pause(self._config.retry_backoff_ms)
            else:
                return

    def _lost(self, offsets: Offsets, why: str) -> PartitionsLost:
        places = ", ".join(f"{place} at {one.offset}" for place, one in sorted(offsets.items()))
        return PartitionsLost(
            f"group {self._group_id!r}: {places} not committed: {why}. Others read on from the last commit; "
            "poll() joins again. If this goes on, raise max.poll.interval.ms or process less between polls"
        )
