"""Groups of both protocols at the coordinator: `GroupConsumerMember` and `BrokerAssignedMember`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from ottla.broker.groups.coordinator import GroupConfig
from ottla.broker.groups.coordinator.consumer_groups.group import STABLE
from ottla.broker.groups.coordinator.state import GroupState
from ottla.consumer.coordinated.assignors import ASSIGNORS
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.member_state import MemberState
from ottla.wire.schema import Response
from tests.broker.groups.coordinator.driver import Loop
from tests.consumer.growth.timeline import TOPIC, Group, Timeline, message_bytes

AnyMember = GroupConsumerMember | BrokerAssignedMember


class Process:
    """A process of an application: it polls all the time, and does what its member demands at once."""

    def __init__(self, group: CoordinatedGroup, member: AnyMember) -> None:
        self.group = group
        self.member = member
        self.is_looking_up = False
        self._looks_at_ms = float("inf")

    def look(self) -> None:
        """Do what is due."""
        member, timeline = self.member, self.group.timeline
        member.polled(timeline.now_ms)
        while (change := member.due_change()) is not None:
            self.group.owned += len(change.assigned) - len(change.revoked)
            member.change_done()
        if member.is_assigning and not self.is_looking_up:
            self.is_looking_up = True
            timeline.at(timeline.now_ms + timeline.latency_ms, self._looked_up)
        request = member.next_request(timeline.now_ms)
        if request is not None:
            self.group.send(self, request)
        self.group.note(self)
        due_ms = member.next_at_ms()
        if due_ms is not None and due_ms < self._looks_at_ms:
            self._looks_at_ms = due_ms
            timeline.at(due_ms, self._look_again)

    def _look_again(self) -> None:
        self._looks_at_ms = float("inf")
        if self in self.group.processes:
            self.look()

    def _looked_up(self) -> None:
        """The topic's partitions, or its name, came from a broker."""
        self.is_looking_up = False
        if isinstance(self.member, BrokerAssignedMember):
            self.member.set_topic_names({self.group.topic_id: TOPIC})
        elif self.member.leader_topics is not None:
            self.member.set_partition_counts(self.member.leader_topics, {TOPIC: self.group.partitions})
        self.look()

    def answered(self, response: Response) -> None:
        """An answer has arrived."""
        if self in self.group.processes:
            self.member.answered(response, self.group.timeline.now_ms)
            self.look()


class CoordinatedGroup(Group):
    """`assignor`: of the members, or None: the broker assigns (group.protocol=consumer)."""

    def __init__(self, timeline: Timeline, partitions: int, assignor: str | None) -> None:
        super().__init__(timeline, partitions)
        self.assignor = assignor
        self.loop = Loop(GroupConfig(offsets_partition_count=1))
        self.topic_id = self.loop.topics.put(TOPIC, partitions)
        self.processes: dict[Process, None] = {}
        self.owned = 0
        self._unstable: set[Process] = set()
        self._waiting: dict[int, tuple[Process, int]] = {}
        self._ticks_at_ms = float("inf")
        self._names = 0

    def join(self) -> None:
        self._names += 1
        config = MemberConfig(
            group_id="g",
            assignors=(ASSIGNORS[self.assignor],) if self.assignor else (),
            is_broker_assigned=self.assignor is None,
        )
        pause_ms: Callable[[int], float] = lambda failures: 100.0 * failures  # noqa: E731
        member: AnyMember = (
            GroupConsumerMember(config, [TOPIC], pause_ms)
            if self.assignor
            else BrokerAssignedMember(config, [TOPIC], pause_ms, f"member-{self._names:06}")
        )
        process = Process(self, member)
        self.processes[process] = None
        process.look()

    def leave(self) -> None:
        process = self.timeline.random.choice(list(self.processes))
        del self.processes[process]
        self._unstable.discard(process)
        self.owned -= len(process.member.owned)
        request = process.member.leave()
        if request is not None:
            self.send(process, request)

    def is_settled(self) -> bool:
        if self._unstable or self.owned != self.partitions:
            return False
        registry = self.loop.coordinator._registry
        found = registry.consumer.groups.get("g") or registry.classic_group("g")
        return (
            found is not None
            and len(found.members) == len(self.processes)
            and found.state in (STABLE, GroupState.STABLE)
        )

    def note(self, process: Process) -> None:
        """A process has done what is due."""
        is_stable = process.member.state is MemberState.STABLE
        (self._unstable.discard if is_stable else self._unstable.add)(process)

    def send(self, process: Process, request: MemberRequest) -> None:
        """A request begins to travel."""
        version = request.api.version_newest
        built = request.build(version)
        self.timeline.traffic.operations += 1
        self.timeline.traffic.bytes += message_bytes(built, version)

        def arrive() -> None:
            self._advance()
            ticket = self.loop.send(built, version)
            self._waiting[ticket] = process, version
            self._answer()

        self.timeline.travel(arrive)

    def _advance(self) -> None:
        self.loop.advance(int(self.timeline.now_ms) - self.loop.now_ms)

    def _answer(self) -> None:
        """Answers begin to travel; the coordinator looks at its next timer in time."""
        for ticket, response in self.loop.replies.items():
            process, version = self._waiting.pop(ticket)
            self.timeline.traffic.bytes += message_bytes(response, version)
            self.timeline.travel(partial(process.answered, response))
        self.loop.replies.clear()
        timers = self.loop._timers
        if timers and timers[0][0] < self._ticks_at_ms:
            self._ticks_at_ms = timers[0][0]
            self.timeline.at(self._ticks_at_ms, self._tick)

    def _tick(self) -> None:
        self._ticks_at_ms = float("inf")
        self._advance()
        self._answer()


def coordinated(assignor: str | None) -> Callable[[Timeline, int], Group]:
    """A maker of groups."""
    return cast(Callable[[Timeline, int], Group], partial(CoordinatedGroup, assignor=assignor))
