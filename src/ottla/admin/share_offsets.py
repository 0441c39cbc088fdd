"""Where share groups begin in their partitions: read, written and deleted through their coordinators.

A coordinator writes and deletes only while the group has no members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import response_error
from ottla.admin.group_values import ShareOffset
from ottla.admin.logs import Outcomes
from ottla.client.reactions import Action, action_for
from ottla.model.errors import OttlaError, Unsupported
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareOffset,
    AlterShareOffsetsTopic,
)
from ottla.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareOffsetsTopic,
)
from ottla.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsWantedGroup,
)
from ottla.wire.schema import Api


class ShareGroupOffsets:
    """Offsets of share groups. `fetch` does not retry; its caller does."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    async def fetch(self, group: str) -> dict[TopicAndPartition, ShareOffset]:
        """Return the start offset of each partition; `start` is None if no member has read it yet."""
        await self._check(group, DescribeShareGroupOffsetsRequest.API)
        request = DescribeShareGroupOffsetsRequest(
            groups=[ShareOffsetsWantedGroup(group_id=group, topics=None)]
        )
        (described,) = (await (await self._access.coordinator(group)).call(request)).groups
        if described.error_code:
            raise self._error(group, described.error_code, described.error_message)
        return {
            TopicAndPartition(topic.topic_name, partition.partition_index): ShareOffset(
                partition.start_offset, partition.leader_epoch, partition.lag if partition.lag >= 0 else None
            )
            if partition.start_offset >= 0
            else ShareOffset(None)
            for topic in described.topics
            for partition in topic.partitions
            if not partition.error_code
        }

    async def alter(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        """Let a group begin at these offsets; its earlier state of the partitions is deleted."""
        await self._check(group, AlterShareGroupOffsetsRequest.API)

        async def attempt(some: list[TopicAndPartition]) -> Outcomes[None]:
            request = AlterShareGroupOffsetsRequest(
                group_id=group,
                topics=[
                    AlterShareOffsetsTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareOffset(
                                partition_index=number, start_offset=offsets[TopicAndPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(some).items()
                ],
            )
            response = await (await self._access.coordinator(group)).call(request)
            if response.error_code:
                return dict.fromkeys(some, self._error(group, response.error_code, response.error_message))
            return {
                TopicAndPartition(topic.topic_name, partition.partition_index): self._outcome(
                    group,
                    partition.error_code,
                    partition.error_message,
                    f"{topic.topic_name}-{partition.partition_index}",
                )
                for topic in response.responses
                for partition in topic.partitions
            }

        return await self._access.settle(offsets, attempt, is_repeatable=True)

    async def delete(self, group: str, topics: Iterable[str]) -> dict[str, OttlaError | None]:
        """Let a group forget topics."""
        await self._check(group, DeleteShareGroupOffsetsRequest.API)

        async def attempt(some: list[str]) -> dict[str, OttlaError | None]:
            wanted = [DeleteShareOffsetsTopic(topic_name=topic) for topic in some]
            request = DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted)
            response = await (await self._access.coordinator(group)).call(request)
            if response.error_code:
                return dict.fromkeys(some, self._error(group, response.error_code, response.error_message))
            return {
                result.topic_name: self._outcome(
                    group, result.error_code, result.error_message, result.topic_name
                )
                for result in response.responses
            }

        return await self._access.settle(topics, attempt, is_repeatable=True)

    async def _check(self, group: str, api: Api) -> None:
        if not await self._access.has(api):
            refusal = await self._access.no_such_call(api)
            raise Unsupported(f"share group {group!r}: {refusal} (it came with 4.1)")

    def _outcome(self, group: str, code: int, message: str | None, subject: str) -> OttlaError | None:
        return self._error(group, code, message, f", {subject}") if code else None

    def _error(self, group: str, code: int, message: str | None, subject: str = "") -> OttlaError:
        if action_for(code) is Action.FIND_COORDINATOR:
            self._access.forget_coordinator(group)
        return response_error(code, message, f"group {group!r}{subject}")
