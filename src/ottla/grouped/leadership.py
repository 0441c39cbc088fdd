"""Leadership: what the leader of a generation knows of its group, and the plan that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.grouped.assignors import Assignor, Participant
from ottla.grouped.consumer_protocol import Assignment, decode_subscription, encode_assignment
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.join_group import JoinGroupResponse


class Leadership:
    """Of one generation. `is_short`: partitions are withheld until those who have them give them up."""

    def __init__(self, assignor: Assignor, participants: Sequence[Participant]) -> None:
        self._assignor = assignor
        self._participants = participants
        self.topics = frozenset(topic for one in participants for topic in one.subscription.topics)
        self.counts: Mapping[str, int] = {}  # what the plan was made of
        # A leader that came back is told to keep a plan, and cannot know what is in it.
        self.is_short = assignor.is_cooperative

    @classmethod
    def of(cls, response: JoinGroupResponse, offered: Iterable[Assignor]) -> Leadership | None:
        """What an answer makes of this member; None if it does not lead. Raises RemoteProtocolError."""
        if response.leader != response.member_id:
            return None
        chosen = [one for one in offered if one.name == response.protocol_name]
        if not chosen:
            raise RemoteProtocolError(
                f"the coordinator chose {response.protocol_name!r}, which was not offered"
            )
        participants = [
            Participant(one.member_id, decode_subscription(one.metadata), one.group_instance_id)
            for one in response.members
        ]
        return cls(chosen[0], participants)

    def plan(self, partition_counts: Mapping[str, int]) -> dict[str, bytes]:
        """Everybody's part, by member id: a topic without a count does not exist."""
        self.counts = dict(partition_counts)
        given = self._assignor.assign(self._participants, partition_counts)
        self.is_short = sum(map(len, given.values())) < sum(partition_counts.values())
        return {name: encode_assignment(Assignment(tuple(places))) for name, places in given.items()}
