"""Reads, writes and deletes the offsets of groups, through their coordinators.

Commits are those of a consumer outside the group, which a coordinator accepts only while the group has no
members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.admin.access import ClusterAccess
from ottla.admin.group_values import CommittedOffset
from ottla.admin.logs import Outcomes
from ottla.client.reactions import Action, action_for
from ottla.model.cluster_view import NO_EPOCH
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, Unsupported
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.offsets.coordinator_messages import (
    ALL_SINCE,
    NAMES_UNTIL,
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.wire.api.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest

Offsets = dict[TopicAndPartition, CommittedOffset]
Positions = Mapping[TopicAndPartition, OffsetAndMetadata]

_IN_KAFKA_SINCE = 1  # version 0 is of offsets in ZooKeeper


def committed_offsets(positions: Positions) -> Offsets:
    """Return positions as users get them, sorted."""
    return {
        topic_partition: CommittedOffset(
            position.offset,
            position.metadata,
            position.leader_epoch if position.leader_epoch != NO_EPOCH else None,
        )
        for topic_partition, position in sorted(positions.items())
    }


class KafkaGroupOffsets:
    """Offsets of groups with a coordinator. `positions` does not retry; its caller does."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    async def positions(self, group: str) -> Positions:
        """Return all committed offsets of a group as they came. Raises KafkaError."""
        connection = await self._access.coordinator(group)
        version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
        if version < _IN_KAFKA_SINCE:
            raise Unsupported(
                f"offsets of group {group!r}: brokers before 0.8.2 keep offsets in ZooKeeper only"
            )
        requested = await self._all_partitions(group) if version < ALL_SINCE else None
        request = fetch_request(group, requested, version, require_stable=False)
        response = await connection.call(request, version=version)
        offsets, codes, group_code = fetched_offsets(response, requested or (), version)
        if group_code:
            raise KafkaError(group_code, f"group {group!r}")
        for topic_partition, code in codes.items():
            if code:
                raise KafkaError(code, f"group {group!r}, {topic_partition}")
        return offsets

    async def _all_partitions(self, group: str) -> list[TopicAndPartition]:
        view = await (await self._access.metadata()).refresh_all(reason=f"offsets of group {group!r}")
        return [
            TopicAndPartition(name, partition.index)
            for name, topic in view.topics.items()
            for partition in topic.partitions
        ]

    async def commit(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        """Write offsets."""

        async def attempt(some: list[TopicAndPartition]) -> Outcomes[None]:
            positions = {
                topic_partition: OffsetAndMetadata(offsets[topic_partition]) for topic_partition in some
            }
            connection = await self._access.coordinator(group)
            response = await connection.call(commit_request(group, positions), at_most=NAMES_UNTIL)
            return self._outcomes(group, commit_codes(response, some))

        return await self._access.settle(offsets, attempt, is_repeatable=True)

    async def delete(self, group: str, topic_partitions: Iterable[TopicAndPartition]) -> Outcomes[None]:
        """Delete offsets of partitions that no member reads."""
        if not await self._access.has(OffsetDeleteRequest.API):
            refusal = await self._access.no_such_call(OffsetDeleteRequest.API)
            raise Unsupported(
                f"deleting offsets of group {group!r}: {refusal} "
                "(it came with 2.4); delete the whole group, or let the offsets expire"
            )

        async def attempt(some: list[TopicAndPartition]) -> Outcomes[None]:
            request = OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteTopic(
                        name=topic,
                        partitions=[OffsetDeletePartition(partition_index=number) for number in numbers],
                    )
                    for topic, numbers in by_topic(some).items()
                ],
            )
            response = await (await self._access.coordinator(group)).call(request)
            codes = dict.fromkeys(some, response.error_code)
            for topic in response.topics:
                for partition in topic.partitions:
                    codes[TopicAndPartition(topic.name, partition.partition_index)] = partition.error_code
            return self._outcomes(group, codes)

        return await self._access.settle(topic_partitions, attempt, is_repeatable=True)

    def _outcomes(self, group: str, codes: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        if any(action_for(code) is Action.FIND_COORDINATOR for code in codes.values()):
            self._access.forget_coordinator(group)
        return {
            topic_partition: group_error(group, code, str(topic_partition))
            for topic_partition, code in codes.items()
        }


def group_error(group: str, code: int, subject: str = "") -> KafkaError | None:
    """Return the error of a group; None for code 0."""
    if not code:
        return None
    context = f"group {group!r}" + (f", {subject}" if subject else "")
    if code in {
        Code.UNKNOWN_MEMBER_ID,
        Code.NON_EMPTY_GROUP,
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
    }:
        # The code that a commit from outside gets depends on the coordinator's version and state.
        return KafkaError(Code.NON_EMPTY_GROUP, f"{context} (answered with {code})")
    return KafkaError(code, context)
