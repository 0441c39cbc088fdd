"""RebalanceListener for coroutines, and LoopRebalancing, which carries out assignment changes."""

from __future__ import annotations

import asyncio
import inspect
import logging

from ottla.aio.commits import LoopAutoCommit, LoopCommits
from ottla.aio.membership import LoopMembership
from ottla.consumer.coordinated.commits import CommittedOffsets
from ottla.consumer.coordinated.member_state import AssignmentChange, PartitionSet
from ottla.consumer.coordinated.partitions import AssignedPartitions

log = logging.getLogger(__name__)


class RebalanceListener:
    """Base class for what an application does when partitions come and go. Override what you need.

        >>> import asyncio
        >>> from ottla import aio
        >>> class Log(aio.RebalanceListener):
        ...     async def on_assigned(self, partitions):
        ...         print("reads", *sorted(partitions))
        >>> async def cook():
        ...     async with aio.GroupConsumer(
        ...         "orders",
        ...         group_id="kitchen",
        ...         bootstrap_servers="127.0.0.1:9092",
        ...         auto_offset_reset="earliest",
        ...         listener=Log(),
        ...     ) as consumer:
        ...         await consumer.poll(timeout=30)
        >>> asyncio.run(cook())
        reads orders-0

    The coroutines run inside `poll`, iteration and `close`. If one raises or is cancelled, the rebalance is
    finished first.
    """

    async def on_revoked(self, partitions: PartitionSet) -> None:
        """Called before these partitions go to other members: the last chance to `commit` their offsets."""

    async def on_assigned(self, partitions: PartitionSet) -> None:
        """Called before the first record of these new partitions is read; `seek` works here."""

    async def on_lost(self, partitions: PartitionSet) -> None:
        """Called when these partitions are gone, and nothing can be committed. Calls `on_revoked`."""
        await self.on_revoked(partitions)


async def _awaited(result: object) -> None:
    """Await what a listener returns, if its method is a coroutine."""
    if inspect.isawaitable(result):
        await result


class LoopRebalancing:
    """Carries out assignment changes: the listener, the commits and the partitions."""

    def __init__(
        self,
        group_id: str,
        listener: RebalanceListener,
        membership: LoopMembership,
        partitions: AssignedPartitions,
        commits: LoopCommits,
        auto_commit: LoopAutoCommit,
    ) -> None:
        self._group_id = group_id
        self._listener = listener
        self._membership = membership
        self._partitions = partitions
        self._commits = commits
        self._auto_commit = auto_commit
        self._look_up: tuple[AssignmentChange, asyncio.Task[CommittedOffsets]] | None = None

    async def carry_out(self, change: AssignmentChange, timeout_ms: float) -> bool:
        """Stop reading the revoked partitions, start the assigned ones, and tell the member that it is done.

        The committed offsets are looked up first. Returns False if they are not known after `timeout_ms`.
        After that everything is done even if the listener raises or is cancelled, because the group waits for
        this member.
        """
        is_assigning = not change.is_lost and bool(change.assigned or not change.revoked)
        committed = await self._looked_up(change, timeout_ms) if is_assigning else {}
        if committed is None:
            return False
        try:
            if change.is_lost:
                await self.lose(change.revoked)
            elif change.revoked:
                await self.revoke(change.revoked)
        finally:
            try:
                if is_assigning:
                    await self._assign(change, committed)
            finally:
                self._membership.change_done()
        return True

    async def _looked_up(self, change: AssignmentChange, timeout_ms: float) -> CommittedOffsets | None:
        """Return the committed offsets of the assigned partitions; None if they do not arrive within
        `timeout_ms`.
        """
        if not change.assigned:
            return {}
        if self._look_up is None or self._look_up[0] is not change:
            self._look_up = change, self._commits.fetch(change.assigned)
        _, committed = self._look_up
        done, _ = await asyncio.wait([committed], timeout=timeout_ms / 1000)
        if not done:
            return None
        self._look_up = None
        return committed.result()

    async def revoke(self, partitions: PartitionSet) -> None:
        """Commit if auto commit is on, call the listener, stop reading these partitions."""
        log.info("group %r: gives back %s", self._group_id, ", ".join(map(str, sorted(partitions))))
        try:
            await self._auto_commit.commit_now()
            await _awaited(self._listener.on_revoked(partitions))
            await self._commits.flush()
        finally:
            self._remove(partitions)

    async def lose(self, partitions: PartitionSet) -> None:
        """Call the listener, stop reading these partitions; nothing can be committed."""
        if not partitions:
            return
        log.warning("group %r: has lost %s", self._group_id, ", ".join(map(str, sorted(partitions))))
        try:
            await _awaited(self._listener.on_lost(partitions))
        finally:
            self._remove(partitions)

    def _remove(self, partitions: PartitionSet) -> None:
        self._partitions.remove(partitions)
        self._auto_commit.forget(partitions)

    async def _assign(self, change: AssignmentChange, committed: CommittedOffsets) -> None:
        starts = {topic_partition: position.offset for topic_partition, position in committed.items()}
        shown = ", ".join(map(str, sorted(change.assigned))) or "nothing"
        log.info("group %r: takes %s in generation %d", self._group_id, shown, change.membership.generation)
        self._auto_commit.note(committed)
        self._partitions.announce(change.assigned, starts)
        try:
            await _awaited(self._listener.on_assigned(change.assigned))
        finally:
            self._partitions.begin()
