"""Members of a share group that join together share an assignment (group.share.assignment.interval.ms)."""

from __future__ import annotations

from ottla import EmbeddedBroker
from ottla.broker.share_groups.core.group import JOIN_EPOCH, Joining, ShareGroup, ShareGroupMember, TopicInfo
from ottla.wire.api.share_group_describe import DescribedShareGroup, ShareGroupDescribeRequest
from tests.broker.share_groups.share_member import Member, client_of, configure_group

INTERVAL_MS = 1_000
TOPICS = {"t": TopicInfo(b"t" * 16, 8), "u": TopicInfo(b"u" * 16, 2)}


class Group:
    """A group with a clock."""

    def __init__(self) -> None:
        self.group, self.now_ms = ShareGroup("g"), 50

    def beat(self, name: str, *topics: str) -> tuple[ShareGroupMember, bool]:
        """Join, or report what is subscribed to from now on; without topics only report."""
        member = self.group.members.get(name)
        epoch = member.epoch if member else JOIN_EPOCH
        said = Joining(name, epoch, tuple(topics) or None, None, "client", "/127.0.0.1")
        member, is_told = self.group.heartbeat(said, self.now_ms + 45_000, 200)
        self.rebalance()
        return member, self.group.catch_up(member) or is_told

    def rebalance(self) -> bool:
        return self.group.rebalance(TOPICS.get, self.now_ms, INTERVAL_MS)

    @property
    def epochs(self) -> tuple[int, int]:
        return self.group.epoch, self.group.assignment_epoch

    def counts(self) -> list[int]:
        return [len(self.group.assigned(name, TOPICS.get)) for name in self.group.members]


def test_members_that_join_together_share_one_assignment() -> None:
    group = Group()
    for number in range(8):
        member, is_told = group.beat(f"m{number}", "t")
        assert (member.epoch, is_told) == (1, True)
    assert group.epochs == (8, 1)
    assert group.counts() == [8, 0, 0, 0, 0, 0, 0, 0]
    group.now_ms += INTERVAL_MS - 1
    assert group.beat("m1")[1] is False
    group.now_ms += 1
    assert [group.beat(f"m{number}")[1] for number in range(8)] == [True] * 8
    assert group.epochs == (8, 8)
    assert group.counts() == [1] * 8


def test_what_a_member_does_not_want_any_more_it_loses_before_the_next_assignment() -> None:
    group = Group()
    group.beat("m", "t", "u")
    assert group.counts() == [10]
    assert group.beat("m", "u")[1]
    assert group.epochs == (2, 1)
    assert group.counts() == [2]


def test_members_that_are_gone_are_replaced_after_the_interval() -> None:
    group = Group()
    group.beat("a", "t")
    group.now_ms += INTERVAL_MS
    group.beat("b", "t")
    group.beat("a")
    assert group.counts() == [4, 4]
    group.group.leave("b")
    assert not group.rebalance()
    assert group.counts() == [4]
    group.now_ms += INTERVAL_MS
    assert group.beat("a")[1]
    assert group.counts() == [8]


def test_members_are_called_for_when_the_next_assignment_may_be_made() -> None:
    group = Group()
    group.beat("a", "t")
    assert group.group.wait_ms(group.now_ms, INTERVAL_MS) == 0
    group.now_ms += 700
    group.beat("b", "t")
    assert group.group.wait_ms(group.now_ms, INTERVAL_MS) == 300
    group.now_ms += 300
    assert group.group.wait_ms(group.now_ms, INTERVAL_MS) == 0


def test_the_broker_keeps_to_the_groups_own_interval_and_to_its_default() -> None:
    defaults = {"group.share.assignment.interval.ms": "0"}
    with EmbeddedBroker(properties=defaults) as broker:
        broker.create_topic("orders", 2)
        configure_group(broker.bootstrap, "own", share_assignment_interval_ms="15000")
        for group_id, epoch in (("own", 1), ("default", 2)):
            with (
                Member(broker, ["orders"], group_id) as one,
                Member(broker, ["orders"], group_id) as two,
            ):
                assert (one.member_epoch, two.member_epoch) == (1, epoch)
                assert epochs(broker, group_id) == (2, epoch)
                assert len(two.assigned) == epoch - 1
                told = two.heartbeat().heartbeat_interval_ms
                assert told == 5_000
        configure_group(broker.bootstrap, "own", share_assignment_interval_ms="1000")
        with Member(broker, ["orders"], "own") as three:
            called_ms: list[int] = []
            while not three.assigned:
                called_ms.append(three.heartbeat().heartbeat_interval_ms)
            assert all(one <= 1_000 for one in called_ms[:-1]), "until the last one, which brought it"


def epochs(broker: EmbeddedBroker, group_id: str) -> tuple[int, int]:
    with client_of(broker.bootstrap) as client:
        (group,) = client.call(ShareGroupDescribeRequest(group_ids=[group_id])).groups
    assert isinstance(group, DescribedShareGroup)
    return group.group_epoch, group.assignment_epoch
