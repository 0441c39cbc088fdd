"""Members of consumer groups and the coordinator under a seed, some with members of the classic protocol.

As `simulation`, for groups whose broker assigns: members of both protocols come and go, so that groups change
their kind in the middle of rebalances. A member that the coordinator knows never has a partition that another
one of them has. In half of the histories members ask for assignors, and replicas move to other racks.
"""

from __future__ import annotations

import random
from typing import Any

from ottla.broker.groups.coordinator import GroupConfig
from ottla.broker.groups.coordinator.consumer_groups.assignors import ASSIGNORS, AssignedMember
from ottla.broker.groups.coordinator.consumer_groups.group import STABLE, ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.topics import counts
from ottla.broker.groups.coordinator.state import GroupState
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_state import MemberState
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from tests.broker.groups.coordinator.driver import Loop
from tests.consumer.coordinated.simulation import Client, World


class QuietMember(BrokerAssignedMember):
    """As librdkafka's: it does not say that it missed an answer, unless its connection broke."""

    def _failed(self, now_ms: float) -> None:
        self._must_report |= self._awaits_answer
        self._times.failed(now_ms)

    def reconnect(self) -> None:
        self._reported_owned = self._reported_topics = None


class ConsumerClient(Client):
    """A process of an application whose member speaks the consumer protocol."""

    def __init__(
        self, name: str, world: ConsumerWorld, instance: str | None, wish: str | None = None
    ) -> None:
        super().__init__(name, world, instance)
        self.is_old = False
        if wish is None and world.has_wishes:
            wish = world.wishes.choice([None, *ASSIGNORS])
        config = MemberConfig(
            group_id="g",
            assignors=(),
            max_poll_interval_ms=world.max_poll_ms,
            instance_id=instance,
            is_broker_assigned=True,
            remote_assignor=wish,
        )
        topics = world.some_topics() if instance is None else [*world.topics]
        kind = QuietMember if world.has_quiet and world.names % 2 else BrokerAssignedMember
        self.member = kind(config, topics, lambda failures: 100 * failures, name)  # type: ignore[assignment]

    def count(self) -> None:
        """It looks up the names of the topics of its assignment."""
        topics = [self.world.loop.topics.by_name(name) for name in self.world.topics]
        self.member.set_topic_names({topic.topic_id: topic.name for topic in topics if topic})  # type: ignore[attr-defined]


class ConsumerWorld(World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # A member that never says what it has given up is put out after this time, later than all settle.
        self.max_poll_ms = 8_000 if self.max_poll_ms == 8_000 else 300_000
        self.strategy = self.random.choice([("range",), ("cooperative-sticky",)])
        self.classic_share = self.random.choice([0, 0, 0.3, 0.6])
        config = GroupConfig(
            initial_rebalance_delay_ms=0,
            offsets_partition_count=1,
            consumer_session_timeout_ms=10_000,
            consumer_session_timeout_min_ms=10_000,
            consumer_heartbeat_interval_ms=3_000,
            consumer_heartbeat_interval_min_ms=1_000,
            consumer_assignment_interval_ms=self.random.choice([0, 1_000, 5_000]),
        )
        self.loop = Loop(config)
        self.has_quiet = seed % 2 == 0
        self.has_wishes = seed % 4 < 2
        self.wishes = random.Random(f"wishes {seed}")
        for name, partition_count in self.topics.items():
            self.loop.topics.put(name, partition_count)

    def arrive(self) -> None:
        if len(self.clients) < 6:
            self.names += 1
            static = self.random.random() < self.static_share
            instance = f"i{self.random.randrange(6)}" if static else None
            kind: Any = Client if self.random.random() < self.classic_share else ConsumerClient
            if instance is not None and any(
                one.member.config.instance_id == instance and type(one) is not kind for one in self.clients
            ):
                self.counts["instance in two protocols"] += 1
            self.clients.append(kind(f"c{self.names}", self, instance))

    def settle_down(self) -> None:
        """Two that live, of two protocols and one instance id, replace each other for ever, as in Kafka: the
        older ones are killed first."""
        newest = {
            one.member.config.instance_id: type(one) for one in self.clients if one.member.config.instance_id
        }
        self.clients = [
            one
            for one in self.clients
            if newest.get(one.member.config.instance_id or "", type(one)) is type(one)
        ]
        super().settle_down()
        if self.has_wishes:
            self.roll()
            super().settle_down()

    def roll(self) -> None:
        """Static members are started again, with one wish: the group has no other reason for a new epoch."""
        wish = self.wishes.choice([*ASSIGNORS])
        for client in list(self.clients):
            instance = client.member.config.instance_id
            if instance is not None and isinstance(client, ConsumerClient):
                self.depart(client)
                self.names += 1
                self.clients.append(ConsumerClient(f"c{self.names}", self, instance, wish))

    def grow(self) -> None:
        self.topics["a"] = min(self.topics["a"] + 1, 8)
        self.loop.topics.put("a", self.topics["a"])
        if self.has_wishes and self.wishes.random() < 0.5:
            racks = [[f"r{self.wishes.randrange(3)}"] for _ in range(self.topics["a"])]
            self.loop.topics.place("a", racks)
            self.counts["replicas moved"] += 1
        for client in self.clients:
            client.count()

    def restart(self) -> None:
        super().restart()
        for client in self.clients:
            if isinstance(client.member, QuietMember):
                client.member.reconnect()

    def commit(self) -> None:
        """A commit is refused for what the coordinator knows by then; the member hears of it."""
        client, group = self.someone(), self.group()
        if client is None or group is None:
            return
        identity = client.member.membership
        if identity.member_id not in group.members:
            client.member.refused_commit(Code.UNKNOWN_MEMBER_ID, identity, self.loop.now_ms)

    # --- checks

    def group(self) -> Any:
        registry = self.loop.coordinator._registry
        return registry.consumer.groups.get("g") or registry.classic_group("g")

    def check_change(self, client: Client, change: Any) -> None:
        member = client.member
        assert change.revoked <= member.owned, "something is taken back that it does not have"
        assert not change.assigned & member.owned, "something is given that it has"
        self.counts["lost" if change.is_lost else "revoked"] += len(change.revoked)
        self.counts["taken"] += len(change.assigned)

    def check(self) -> None:
        """No two members that the coordinator knows, in the epoch that it knows, share a partition."""
        group = self.group()
        if not isinstance(group, ConsumerGroup):
            return
        holders: dict[TopicAndPartition, str] = {}
        for client in self.clients:
            known = group.members.get(client.member.membership.member_id)
            if known is None or known.classic is not None:
                continue
            if client.member.membership.generation != known.epoch:
                continue
            for place in client.member.owned:
                other = holders.setdefault(place, client.name)
                assert other == client.name, f"{other} and {client.name} both have {place}"

    def is_settled(self) -> bool:
        group = self.group()
        if not self.clients:
            return True
        members = [client.member for client in self.clients]
        wanted = {topic for member in members for topic in member._topics}
        places = sorted(TopicAndPartition(topic, n) for topic in wanted for n in range(self.topics[topic]))
        has_consumer = any(isinstance(member, BrokerAssignedMember) for member in members)
        if group is None or (isinstance(group, ConsumerGroup) != has_consumer):
            return False
        self.counts["consumer" if has_consumer else "classic"] += 1
        is_settled = (
            group.state in (STABLE, GroupState.STABLE)
            and all(member.state is MemberState.STABLE for member in members)
            and {member.membership.member_id for member in members} == set(group.members)
            and sorted(place for member in members for place in member.owned) == places
        )
        if is_settled and isinstance(group, ConsumerGroup):
            self.check_range(group)
        return is_settled

    def check_range(self, group: ConsumerGroup) -> None:
        """Where most members ask for ranges, the last assignment is what the assignor gives now."""
        if group.assignor(self.loop.config.consumer_assignors[0]) != "range":
            return
        self.counts["range"] += 1
        known = {topic.name: topic.topic_id for topic in group.known_topics(self.loop.topics)}
        members = [
            AssignedMember(
                one.member_id,
                one.instance_id,
                frozenset(known[name] for name in group.topics_of(one) if name in known),
                frozenset(),
            )
            for one in group.members.values()
        ]
        expected = ASSIGNORS["range"](members, counts(group.known_topics(self.loop.topics)))
        assert {name: group.target(name) for name in group.members} == expected, "not what range gives"
