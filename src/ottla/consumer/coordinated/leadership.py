"""Leadership: what the leader of a generation knows of its group, and the plan that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.consumer.coordinated.assignors import Assignor, Participant
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.consumer_protocol import Assignment, decode_subscription, encode_assignment


class Leadership:
    """The leader's view of one generation.

    `topics` are all topics that any member wants. `is_short`: the plan withholds partitions until the members
    that own them give them up.
    """

    def __init__(self, assignor: Assignor, participants: Sequence[Participant]) -> None:
        self._assignor = assignor
        self._participants = participants
        self.topics = frozenset(topic for member in participants for topic in member.subscription.topics)
        self.partition_counts: Mapping[str, int] = {}  # the input of the last plan
        # A leader that rejoined has to keep the old plan, and cannot know whether it withholds partitions.
        self.is_short = assignor.is_cooperative

    @classmethod
    def of(cls, response: JoinGroupResponse, offered: Iterable[Assignor]) -> Leadership | None:
        """Return the leadership that a join response gives to this member; None if another member leads.

        Raises RemoteProtocolError if the coordinator chose an assignor that was not offered.
        """
        if response.leader != response.member_id:
            return None
        chosen = [assignor for assignor in offered if assignor.name == response.protocol_name]
        if not chosen:
            raise RemoteProtocolError(
                f"the coordinator chose {response.protocol_name!r}, which was not offered"
            )
        participants = [
            Participant(member.member_id, decode_subscription(member.metadata), member.group_instance_id)
            for member in response.members
        ]
        return cls(chosen[0], participants)

    def plan(self, partition_counts: Mapping[str, int]) -> dict[str, bytes]:
        """Return all encoded assignments, by member id. Topics without a count do not exist."""
        self.partition_counts = dict(partition_counts)
        assigned = self._assignor.assign(self._participants, partition_counts)
        self.is_short = sum(map(len, assigned.values())) < sum(partition_counts.values())
        return {
            member_id: encode_assignment(Assignment(tuple(topic_partitions)))
            for member_id, topic_partitions in assigned.items()
        }
