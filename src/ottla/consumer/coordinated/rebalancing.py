"""RebalanceListener, which applications write, and Rebalancing, which carries out assignment changes."""

from __future__ import annotations

import contextlib
import logging
from concurrent.futures import Future, wait

from ottla.consumer.coordinated.commits import AutoCommit, Commits, CommittedOffsets
from ottla.consumer.coordinated.member_state import AssignmentChange, PartitionSet
from ottla.consumer.coordinated.membership_thread import MembershipThread
from ottla.consumer.coordinated.partitions import AssignedPartitions

log = logging.getLogger(__name__)


class RebalanceListener:
    """Base class for what an application does when partitions come and go. Override what you need.

        >>> from ottla import GroupConsumer, RebalanceListener
        >>> class Log(RebalanceListener):
        ...     def on_assigned(self, partitions):
        ...         print("reads", *sorted(partitions))
        >>> settings = {"bootstrap.servers": "127.0.0.1:9092", "auto.offset.reset": "earliest"}
        >>> with GroupConsumer("orders", settings, group_id="kitchen", listener=Log()) as consumer:
        ...     chunk = consumer.poll(timeout=30)
        reads orders-0

    The methods run inside `poll` and `close`, in the thread that polls. If one raises, the rebalance is
    finished first; then `poll` raises the error.
    """

    def on_revoked(self, partitions: PartitionSet) -> None:
        """Called before these partitions go to other members.

        They still belong to this consumer: this is the last chance to `commit` their offsets. If auto
        commit is on, that was done already.
        """

    def on_assigned(self, partitions: PartitionSet) -> None:
        """Called before the first record of these new partitions is read; `seek` works here."""

    def on_lost(self, partitions: PartitionSet) -> None:
        """Called when these partitions are gone and other members may read them; nothing can be committed.

        Calls `on_revoked` if it is not overridden.
        """
        self.on_revoked(partitions)


class Rebalancing:
    """Carries out assignment changes: the listener, the commits and the partitions. For the polling
    thread."""

    def __init__(
        self,
        group_id: str,
        listener: RebalanceListener,
        membership: MembershipThread,
        partitions: AssignedPartitions,
        commits: Commits,
        auto_commit: AutoCommit,
    ) -> None:
        self._group_id = group_id
        self._listener = listener
        self._membership = membership
        self._partitions = partitions
        self._commits = commits
        self._auto_commit = auto_commit
        self._look_up: tuple[AssignmentChange, Future[CommittedOffsets]] | None = None

    def carry_out(self, change: AssignmentChange, timeout_ms: float) -> bool:
        """Stop reading the revoked partitions, start the assigned ones, and tell the member that it is done.

        The committed offsets are looked up first. Returns False if they are not known after `timeout_ms`:
        the look-up continues, and the next poll waits for it. If it fails, the next poll begins another one.
        After that everything is done even if the listener raises, because the group waits for this member.
        """
        is_assigning = not change.is_lost and bool(change.assigned or not change.revoked)
        committed = self._looked_up(change, timeout_ms) if is_assigning else {}
        if committed is None:
            return False
        with contextlib.ExitStack() as stack:
            stack.callback(self._membership.change_done)
            if is_assigning:
                stack.callback(self._assign, change, committed)
            if change.is_lost:
                self.lose(change.revoked)
            elif change.revoked:
                self.revoke(change.revoked)
        return True

    def _looked_up(self, change: AssignmentChange, timeout_ms: float) -> CommittedOffsets | None:
        """Return the committed offsets of the assigned partitions; None if they do not arrive within
        `timeout_ms`.
        """
        if not change.assigned:
            return {}
        if self._look_up is None or self._look_up[0] is not change:
            self._look_up = change, self._commits.fetch(change.assigned)
        _, committed = self._look_up
        if not wait([committed], timeout_ms / 1000).done:
            return None
        self._look_up = None
        return committed.result()

    def revoke(self, partitions: PartitionSet) -> None:
        """Commit if auto commit is on, call the listener, stop reading these partitions."""
        log.info("group %r: gives back %s", self._group_id, ", ".join(map(str, sorted(partitions))))
        self._auto_commit.commit_now()
        try:
            self._listener.on_revoked(partitions)
        finally:
            self._commits.flush()
            self._remove(partitions)

    def lose(self, partitions: PartitionSet) -> None:
        """Call the listener, stop reading these partitions; nothing can be committed."""
        if not partitions:
            return
        log.warning("group %r: has lost %s", self._group_id, ", ".join(map(str, sorted(partitions))))
        try:
            self._listener.on_lost(partitions)
        finally:
            self._remove(partitions)

    def _remove(self, partitions: PartitionSet) -> None:
        self._partitions.remove(partitions)
        self._auto_commit.forget(partitions)

    def _assign(self, change: AssignmentChange, committed: CommittedOffsets) -> None:
        starts = {topic_partition: position.offset for topic_partition, position in committed.items()}
        shown = [
            f"{partition} at {starts.get(partition, 'no offset')}" for partition in sorted(change.assigned)
        ]
        generation = change.membership.generation
        assigned = ", ".join(shown) or "nothing"
        log.info("group %r: takes %s in generation %d", self._group_id, assigned, generation)
        self._auto_commit.note(committed)
        self._partitions.announce(change.assigned, starts)
        try:
            self._listener.on_assigned(change.assigned)
        finally:
            self._partitions.begin()
