"""What happens in a run, drawn from its seed; and what must hold in the end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from ottla.consumer.classic.assignors import AssignmentInput, assign_ranges
from ottla.consumer.classic.identity import ConsumerThreadId, thread_ids
from ottla.consumer.classic.topic_count import StaticTopicCount, TopicCount, Whitelist, WildcardTopicCount
from ottla.model.topic_partition import TopicAndPartition
from tests.consumer.classic.simulation.ottla_member import OttlaMember
from tests.consumer.classic.simulation.scala_member import ScalaMember
from tests.consumer.classic.simulation.world import World

FAULTS_MS = 25_000
CALM_MS = 150_000
TOPICS = ("orders", "payments")
AnyMember = OttlaMember | ScalaMember


@dataclass(frozen=True)
class Outcome:
    """Of a run that went well."""

    seed: int
    redelivered: int
    handed_out: int
    settled_ms: float


class Scenario:
    """One run. `run` raises AssertionError when something does not hold."""

    def __init__(self, seed: int, *, is_tracing: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.world = World(random.Random(self.chance.random()), is_tracing)
        self.is_calm = self.chance.random() < 0.2
        """Members come and go in good order, topics grow: nothing may be handed out twice."""
        self.is_mixed = not self.is_calm and self.chance.random() < 0.3
        self.partitions = {TOPICS[0]: self.chance.randint(1, 6)}
        self.members: list[AnyMember] = []
        self._names = 0

    def run(self) -> Outcome:
        """Faults for a while, then peace, and then everything must be in order."""
        for topic, count in self.partitions.items():
            self.world.set_partitions(topic, count)
        for _ in range(self.chance.randint(1, 3)):
            self.join()
        events = [self.chance.uniform(0, FAULTS_MS) for _ in range(self.chance.randint(1, 8))]
        for at_ms in sorted(events):
            self.world.run(at_ms)
            self.disturb()
        self.world.run(FAULTS_MS)
        if not any(map(self._looks_after_all, self.alive)):
            self.join(topic_count=StaticTopicCount(dict.fromkeys(TOPICS, 1)), kind=OttlaMember)
        settled_ms = self._settle()
        self.check_end()
        handed_out = sum(self.world.handed_out.values())
        return Outcome(self.seed, self.world.redelivered, handed_out, settled_ms)

    @property
    def alive(self) -> list[AnyMember]:
        """Members that are to read."""
        return [member for member in self.members if member.is_alive]

    def _looks_after_all(self, member: AnyMember) -> bool:
        """Whether it is ours, stays and sees all topics. Kafka's own members may leave a partition unread."""
        topics = member.topic_count.stream_counts(TOPICS, exclude_internal_topics=True)
        return isinstance(member, OttlaMember) and not member.is_leaving and len(topics) == len(TOPICS)

    # --- what may happen

    def join(
        self, name: str = "", topic_count: TopicCount | None = None, kind: type[AnyMember] | None = None
    ) -> None:
        """A new member."""
        self._names += 1
        streams = self.chance.choice([1, 1, 2, 3])
        drawn: TopicCount = WildcardTopicCount(Whitelist("orders|payments"), streams)
        if self.chance.random() < 0.5:
            topics = TOPICS if self.chance.random() < 0.5 else TOPICS[:1]
            drawn = StaticTopicCount(dict.fromkeys(topics, streams))
        name = name or f"g_{self.chance.choice('abcxyz')}{self._names}"
        is_scala = self.is_mixed and self.chance.random() < 0.5
        kind = kind or (ScalaMember if is_scala else OttlaMember)
        member = kind(self.world, name, topic_count or drawn)
        self.world.has_scala |= isinstance(member, ScalaMember)
        self.world.trace(f"{name}: joins as {kind.__name__} with {member.topic_count}")
        self.members.append(member)
        member.start()

    def disturb(self) -> None:
        """One event."""
        members = [member for member in self.alive if member.is_well]
        choices = ["join", "leave", "grow", "grow"]
        if not self.is_calm:
            choices += ["cut", "cut", "lose", "lose", "freeze", "kill", "restart"]
        what = self.chance.choice(choices)
        if what == "grow":
            topic = self.chance.choice(TOPICS)
            self.partitions[topic] = self.partitions.get(topic, 0) + self.chance.randint(1, 3)
            self.world.set_partitions(topic, self.partitions[topic])
        elif what == "join" or not members:
            if len(self.alive) < 4:
                self.join()
        else:
            self._befall(what, self.chance.choice(members))

    def _befall(self, what: str, member: AnyMember) -> None:
        duration_ms = self.chance.choice([50, 1000, 5000, 9000, 20_000]) * self.chance.uniform(0.5, 1.5)
        match what:
            case "leave":
                member.leave()
            case "cut":
                member.cut(duration_ms)
            case "lose":
                member.lose_answer()
            case "freeze":
                member.freeze(duration_ms)
            case "kill":
                member.kill()
            case "restart":
                member.kill()
                self.world.after(
                    duration_ms / 10, partial(self.join, member.name, member.topic_count, type(member))
                )

    # --- the end

    def _settle(self) -> float:
        """Until everybody is content, or too long."""
        while self.world.now_ms < FAULTS_MS + CALM_MS:
            self.world.run(self.world.now_ms + 1000)
            if self._is_settled():
                break
        return self.world.now_ms - FAULTS_MS

    def _is_settled(self) -> bool:
        expected = self.expected()
        owners = {place: self.world.owner_of(place) for place in expected}
        return (
            all(member.is_content for member in self.alive)
            and self._read() == expected
            and all(owner is not None and owner[0] == str(expected[place]) for place, owner in owners.items())
        )

    def _read(self) -> dict[TopicAndPartition, ConsumerThreadId]:
        """Who reads what."""
        return {place: thread for member in self.alive for place, (thread, _) in member.feeds.items()}

    def expected(self) -> dict[TopicAndPartition, ConsumerThreadId]:
        """Who reads what if everybody has seen everything."""
        threads: dict[str, list[ConsumerThreadId]] = {}
        for member in self.alive:
            counts = member.topic_count.stream_counts(self.partitions, exclude_internal_topics=True)
            for topic, count in counts.items():
                threads.setdefault(topic, []).extend(thread_ids(member.name, count))
        partitions = {topic: list(range(count)) for topic, count in self.partitions.items()}
        return assign_ranges(
            AssignmentInput({topic: sorted(some) for topic, some in threads.items()}, partitions)
        )

    def check_end(self) -> None:
        """Nothing is unowned, everybody has what the assignment gives, and messages come out."""
        expected = self.expected()
        for member in self.alive:
            why = f"{member.member.health}: {member.member.reason}" if isinstance(member, OttlaMember) else ""
            assert member.is_content, f"{member.name} is not content {why}"
        for place, thread in expected.items():
            owner = self.world.owner_of(place)
            assert owner is not None, f"{place} has no owner"
            assert owner[0] == str(thread), f"{place} is owned by {owner[0]}, not {thread}"
        assert self._read() == expected
        for member in self.alive:
            if isinstance(member, OttlaMember):
                assert member.gate.is_open(self.world.now_ms), f"{member.name} hands out nothing"
        if self.is_calm:
            assert self.world.redelivered == 0, f"{self.world.redelivered} messages twice, without any fault"
