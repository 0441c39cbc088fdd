"""Members and the broker's coordinator under a seed: both as they ship, one event at a time in virtual time.

Clients come, leave, die, sleep, change their minds; requests and answers are late or lost; the coordinator is
restarted and topics grow. After each event the checks hold the members' partitions against each other.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from ottla.broker.groups.coordinator import GroupConfig
from ottla.broker.groups.coordinator.state import GroupState
from ottla.consumer.coordinated.assignors import ASSIGNORS
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.member_state import MemberState
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.schema import Response
from tests.broker.groups.coordinator.driver import Loop

STRATEGIES = [
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
]
OLD = {11: 0, 14: 0, 12: 0, 13: 0}
"""Versions of Kafka 0.9, by API key."""


class Client:
    """A process of an application: a member, and a user's thread that does what is demanded, or sleeps."""

    def __init__(self, name: str, world: World, instance: str | None) -> None:
        self.name = name
        self.world = world
        self.asleep_until_ms = 0
        self.synced_generation = -1
        self.is_old = instance is None and world.random.random() < 0.2
        config = MemberConfig(
            group_id="g",
            assignors=tuple(ASSIGNORS[one] for one in world.strategy),
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=world.max_poll_ms,
            instance_id=instance,
        )
        # A coordinator does not look at the topics of an instance that comes back: it must want the same.
        topics = world.some_topics() if instance is None else [*world.topics]
        self.member = GroupConsumerMember(config, topics, lambda failures: 100 * failures)

    def act(self) -> None:
        """What its two threads do next."""
        member, now_ms = self.member, self.world.loop.now_ms
        if self.asleep_until_ms <= now_ms:
            member.polled(now_ms)
            change = member.due_change()
            if change is not None and (self.world.is_calm or self.world.random.random() < 0.5):
                self.world.check_change(self, change)
                member.change_done()
                self.synced_generation = change.membership.generation
        if member.is_assigning:
            self.count()
        request = member.next_request(now_ms)
        if request is not None:
            self.world.send(self, request)

    def count(self) -> None:
        """It looks up the topics that it leads, if it leads."""
        topics = self.member.leader_topics
        if topics is None:
            return
        self.member.set_partition_counts(topics, {topic: self.world.topics[topic] for topic in topics})


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.strategy = self.random.choice(STRATEGIES)
        self.static_share = self.random.choice([0, 0.3, 1])
        self.max_poll_ms = self.random.choice([8_000, 30_000])
        self.topics = {"a": self.random.randint(1, 6), "b": self.random.randint(1, 4)}
        delay_ms = self.random.choice([0, 3_000])
        self.loop = Loop(GroupConfig(initial_rebalance_delay_ms=delay_ms, offsets_partition_count=1))
        self.clients: list[Client] = []
        self.names = 0
        self.waiting: dict[int, Client] = {}  # ticket → who waits for the answer
        self.owners: dict[tuple[int, int, TopicAndPartition], str] = {}
        self.is_calm = False
        self.counts: Counter[str] = Counter()

    def some_topics(self) -> list[str]:
        return self.random.choice([["a"], ["a", "b"], ["a", "b"]])

    # --- events

    def run(self, steps: int) -> None:
        # Much happens to some groups, and others have the time to share their partitions out in peace.
        trouble = self.random.choice([0.1, 0.3, 1])
        faults = {"lose": 3, "leave": 2, "kill": 2, "sleep": 2, "subscribe": 2, "grow": 1, "restart": 1}
        weights = {"act": 60.0, "answer": 40.0, "wait": 8.0, "arrive": 3.0, "commit": 3.0}
        weights |= {kind: weight * trouble for kind, weight in faults.items()}
        for kind in self.random.choices([*weights], [*weights.values()], k=steps):
            getattr(self, kind)()
            self.check()
        self.settle_down()

    def someone(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None

    def act(self) -> None:
        client = self.someone()
        if client is not None:
            client.act()

    def send(self, client: Client, request: MemberRequest) -> None:
        version = OLD[request.api.key] if client.is_old else request.api.version_newest
        self.waiting[self.loop.send(request.build(version), version, client.name)] = client

    def answer(self) -> None:
        """One of the answers that are due arrives."""
        due = sorted(self.waiting.keys() & self.loop.replies.keys())
        if due:
            self.deliver(self.random.choice(due))

    def deliver(self, ticket: int) -> None:
        client, response = self.waiting.pop(ticket), self.loop.replies.pop(ticket)
        self.note(response)
        if client in self.clients:
            client.member.answered(response, self.loop.now_ms)
            self.bury(client)

    def note(self, response: Response) -> None:
        code = getattr(response, "error_code", 0)
        self.counts[f"{type(response).__name__} {Code.of(code).name}"] += 1

    def bury(self, client: Client) -> None:
        if client.member.state is MemberState.FAILED:
            self.counts["fenced"] += 1
            self.clients.remove(client)

    def lose(self) -> None:
        """A connection breaks: the request may have arrived, the answer never does."""
        if self.waiting:
            self.break_off(self.random.choice(sorted(self.waiting)))

    def break_off(self, ticket: int) -> None:
        client = self.waiting.pop(ticket)
        self.loop.replies.pop(ticket, None)
        if client in self.clients:
            client.member.unanswered(self.loop.now_ms)

    def wait(self) -> None:
        self.loop.advance(self.random.choice([10, 500, 1_000, 3_000, 6_000]))

    def arrive(self) -> None:
        if len(self.clients) < 6:
            self.names += 1
            static = self.random.random() < self.static_share
            # Instances come back under the name of one that died, or of one that lives.
            instance = f"i{self.random.randrange(6)}" if static else None
            self.clients.append(Client(f"c{self.names}", self, instance))

    def leave(self) -> None:
        client = self.someone()
        if client is not None:
            self.depart(client)

    def depart(self, client: Client) -> None:
        self.clients.remove(client)
        for ticket in [one for one, who in self.waiting.items() if who is client]:
            del self.waiting[ticket]
        request = client.member.leave()
        if request is not None:
            self.send(client, request)

    def kill(self) -> None:
        client = self.someone()
        if client is not None:
            self.clients.remove(client)

    def sleep(self) -> None:
        client = self.someone()
        if client is not None:
            client.asleep_until_ms = self.loop.now_ms + self.random.randrange(40_000)

    def subscribe(self) -> None:
        client = self.someone()
        if client is not None and client.member.config.instance_id is None:
            client.member.subscribe(self.some_topics())

    def grow(self) -> None:
        self.topics["a"] = min(self.topics["a"] + 1, 8)
        for client in self.clients:
            client.count()

    def restart(self) -> None:
        self.counts["restarts"] += 1
        for ticket in list(self.waiting):
            self.break_off(ticket)
        self.loop.replies.clear()
        self.loop.restart()

    def commit(self) -> None:
        """A commit is refused for what the coordinator knows by then; the member hears of it."""
        client, group = self.someone(), self.group()
        if client is None or group is None:
            return
        identity = client.member.membership
        if identity.member_id not in group.members:
            client.member.refused_commit(Code.UNKNOWN_MEMBER_ID, identity, self.loop.now_ms)
        elif identity.generation != group.generation:
            client.member.refused_commit(Code.ILLEGAL_GENERATION, identity, self.loop.now_ms)

    # --- checks

    def group(self) -> Any:
        return self.loop.coordinator._registry.classic_group("g")

    def check_change(self, client: Client, change: Any) -> None:
        member = client.member
        assert change.revoked <= member.owned, "something is taken back that it does not have"
        assert not change.assigned & member.owned, "something is given that it has"
        if change.is_lost:
            self.counts["lost"] += len(change.revoked)
            return
        self.counts["revoked"] += len(change.revoked)
        self.counts["taken"] += len(change.assigned)
        owner = member.config.instance_id or client.name  # an instance that comes back gets what it had
        for place in change.assigned:
            key = (self.counts["restarts"], change.membership.generation, place)
            assert self.owners.setdefault(key, owner) == owner, f"{place} was given to two"

    def check(self) -> None:
        """Members of the coordinator's present generation have nothing in common.

        A member that missed one is left out until it has synced again: it has what others were given then.
        """
        group = self.group()
        holders: dict[TopicAndPartition, str] = {}
        for client in self.clients if group is not None else ():
            told = self.generation_told(client)
            known = client.member.membership.member_id in group.members
            if not known or told != group.generation or client.synced_generation < told - 1:
                continue
            for place in client.member.owned:
                other = holders.setdefault(place, client.name)
                assert other == client.name, f"{other} and {client.name} both have {place}"

    def generation_told(self, client: Client) -> int:
        """Also by an answer that is on its way."""
        coming = [self.loop.replies.get(ticket) for ticket, who in self.waiting.items() if who is client]
        told = [one.generation_id for one in coming if isinstance(one, JoinGroupResponse)]
        return max([client.member.membership.generation, *told])

    def settle_down(self) -> None:
        """Without further faults all members end in one generation, and all partitions are theirs."""
        self.is_calm = True
        for client in self.clients:
            client.asleep_until_ms = 0
        for _ in range(400):
            for client in list(self.clients):
                client.act()
                client.count()
            for ticket in sorted(self.waiting.keys() & self.loop.replies.keys()):
                self.deliver(ticket)
            self.check()
            if self.is_settled():
                return
            self.loop.advance(500)
        states = {client.name: (client.member.state, client.member.membership) for client in self.clients}
        raise AssertionError(f"no end: {self.strategy} {self.group() and self.group().state} {states}")

    def is_settled(self) -> bool:
        group = self.group()
        if not self.clients:
            return True
        members = [client.member for client in self.clients]
        wanted = {topic for member in members for topic in member._topics}
        places = {TopicAndPartition(topic, n) for topic in wanted for n in range(self.topics[topic])}
        return (
            group is not None
            and group.state is GroupState.STABLE
            and all(member.state is MemberState.STABLE for member in members)
            and {member.membership.generation for member in members} == {group.generation}
            and {member.membership.member_id for member in members} == set(group.members)
            and {place for member in members for place in member.owned} == places
        )
