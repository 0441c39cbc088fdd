"""What groups have committed, with their coordinator: read, written, deleted.

Commits are made as a consumer outside the group makes them, which a coordinator takes only while the group
has no members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.admin.access import ClusterAccess
from ottla.admin.errors import Unsupported
from ottla.admin.group_values import CommittedOffset
from ottla.admin.logs import Outcomes, by_topic
from ottla.client.connection import Connection
from ottla.client.retry import Action, action_for
from ottla.model.cluster_view import NO_EPOCH
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)

Offsets = dict[TopicAndPartition, CommittedOffset]

_NAMES_UNTIL = 9  # OffsetCommit and OffsetFetch name topics by id from 10 on
_ALL_SINCE = 2
_GROUPS_SINCE = 8
_IN_KAFKA_SINCE = 1  # version 0 is of offsets in ZooKeeper


class KafkaGroupOffsets:
    """Offsets of groups that have a coordinator. `fetch` asks once; its caller tries again."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def fetch(self, group: str) -> Offsets:
        """All that a group has committed. Raises KafkaError."""
        connection = self._access.pool.to_coordinator(group)
        version = connection.version_for(OffsetFetchRequest.API, at_most=_NAMES_UNTIL)
        if version < _IN_KAFKA_SINCE:
            raise Unsupported(
                f"offsets of group {group!r}: brokers before 0.8.2 keep offsets in ZooKeeper only"
            )
        request = OffsetFetchRequest(group_id=group, topics=None)
        if version >= _GROUPS_SINCE:
            request = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=None)])
        elif version < _ALL_SINCE:
            request.topics = self._all_partitions(group)
        return _fetched(connection.call(request, version=version), group, version)

    def _all_partitions(self, group: str) -> list[OffsetFetchTopic]:
        view = self._access.metadata.refresh_all(reason=f"offsets of group {group!r}")
        return [
            OffsetFetchTopic(name=name, partition_indexes=[one.index for one in topic.partitions])
            for name, topic in view.topics.items()
        ]

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        """Write positions."""

        def attempt(places: list[TopicAndPartition]) -> Outcomes[None]:
            request = OffsetCommitRequest(
                group_id=group,
                topics=[
                    OffsetCommitTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitPartition(
                                partition_index=number,
                                committed_offset=offsets[TopicAndPartition(topic, number)],
                                committed_metadata="",
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(places).items()
                ],
            )
            answer = self._coordinator(group).call(request, at_most=_NAMES_UNTIL)
            return self._told(
                group,
                {
                    TopicAndPartition(topic.name, one.partition_index): one.error_code
                    for topic in answer.topics
                    for one in topic.partitions
                },
            )

        return self._access.settle(offsets, attempt, is_repeatable=True)

    def delete(self, group: str, places: Iterable[TopicAndPartition]) -> Outcomes[None]:
        """Forget positions of partitions that no member reads."""
        if not self._access.has(OffsetDeleteRequest.API):
            raise Unsupported(
                f"deleting offsets of group {group!r}: {self._access.lack(OffsetDeleteRequest.API)} (it came "
                "with 2.4); delete the whole group, or let the offsets expire"
            )

        def attempt(some: list[TopicAndPartition]) -> Outcomes[None]:
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
            answer = self._coordinator(group).call(request)
            codes = dict.fromkeys(some, answer.error_code)
            for topic in answer.topics:
                for one in topic.partitions:
                    codes[TopicAndPartition(topic.name, one.partition_index)] = one.error_code
            return self._told(group, codes)

        return self._access.settle(places, attempt, is_repeatable=True)

    def _coordinator(self, group: str) -> Connection:
        return self._access.pool.to_coordinator(group)

    def _told(self, group: str, codes: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        if any(action_for(code) is Action.FIND_COORDINATOR for code in codes.values()):
            self._access.pool.forget_coordinator(group)
        return {place: group_error(group, code, str(place)) for place, code in codes.items()}


def group_error(group: str, code: int, what: str = "") -> KafkaError | None:
    """The error of a group, with the remedy where a person can do something."""
    if not code:
        return None
    context = f"group {group!r}" + (f", {what}" if what else "")
    if code in {
        Code.UNKNOWN_MEMBER_ID,
        Code.NON_EMPTY_GROUP,
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
    }:
        # What a coordinator says to a commit from outside depends on its version and its state.
        return KafkaError(Code.NON_EMPTY_GROUP, f"{context} (answered with {code})")
    return KafkaError(code, context)


def _fetched(answer: OffsetFetchResponse, group: str, version: int) -> Offsets:
    told: OffsetFetchResponse | OffsetFetchGroupResponse = answer
    if version >= _GROUPS_SINCE:
        if len(answer.groups) != 1:
            raise RemoteProtocolError(f"OffsetFetch of group {group!r} is answered for {len(answer.groups)}")
        told = answer.groups[0]
    if told.error_code:
        raise KafkaError(told.error_code, f"group {group!r}")
    found: Offsets = {}
    for topic in told.topics:
        for one in topic.partitions:
            place = TopicAndPartition(topic.name, one.partition_index)
            # Old brokers answer error 3 for partitions that nothing was committed for.
            if one.error_code and one.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(one.error_code, f"group {group!r}, {place}")
            if one.committed_offset >= 0:
                epoch = one.committed_leader_epoch
                found[place] = CommittedOffset(
                    one.committed_offset, one.metadata or "", epoch if epoch != NO_EPOCH else None
                )
    return dict(sorted(found.items()))
