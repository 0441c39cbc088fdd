"""Topics on the embedded broker: made, grown, described, deleted."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from ottla.admin import Admin, NewPartitions, NewTopic, TopicCreation, topic_resource
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, BrokerUnreachable, ConfigError, ConnectionLost, KafkaError
from tests.waiting import wait_for


def test_a_topic_has_leaders_when_it_is_made(admin: Admin, name: str) -> None:
    made = admin.create_topics(NewTopic(name, partitions=3, replication_factor=2, configs={"flush.ms": 7}))
    assert made == TopicCreation(name, 3, 2)
    found = admin.describe_topics(name)
    assert [one.partition for one in found.partitions] == [0, 1, 2]
    assert found.replication_factor == 2
    for one in found.partitions:
        assert one.leader == one.replicas[0]
        assert one.isr == one.replicas
        assert one.leader_epoch == 0
    assert found.topic_id is not None
    assert len(found.topic_id) == 22
    assert admin.describe_configs(topic_resource(name))["flush.ms"].value == "7"


def test_without_counts_the_brokers_defaults_are_taken(admin: Admin, name: str) -> None:
    assert admin.create_topics(NewTopic(name)) == TopicCreation(name, 1, 1)


def test_replicas_go_where_the_assignment_says(admin: Admin, name: str) -> None:
    admin.create_topics(NewTopic(name, assignment={0: [2, 0], 1: [1, 2]}))
    assert [one.replicas for one in admin.describe_topics(name).partitions] == [(2, 0), (1, 2)]


def test_validate_only_makes_nothing(admin: Admin, name: str) -> None:
    wanted = NewTopic(name, partitions=2, replication_factor=1)
    assert admin.create_topics(wanted, validate_only=True) == TopicCreation(name, 2, 1)
    with pytest.raises(KafkaError, match="replication factor"):
        admin.create_topics(NewTopic(name, partitions=1, replication_factor=9), validate_only=True)
    assert name not in admin.list_topics()


def test_of_many_each_has_its_own_outcome(admin: Admin, topic: str) -> None:
    other = f"{topic}-other"
    with pytest.raises(AdminErrors, match=r"1 of 2 failed.*TOPIC_ALREADY_EXISTS") as caught:
        admin.create_topics([NewTopic(topic), NewTopic(other)])
    (error,) = caught.value.errors.values()
    assert list(caught.value.errors) == [topic]
    assert isinstance(error, KafkaError)
    assert error.code == Code.TOPIC_ALREADY_EXISTS
    assert caught.value.results == {other: TopicCreation(other, 1, 1)}
    with pytest.raises(AdminErrors, match="1 of 2 failed") as caught:
        admin.describe_topics([topic, "missing"])
    assert len(caught.value.results[topic].partitions) == 3
    with pytest.raises(AdminErrors):
        admin.delete_topics([other, "missing"])
    assert other not in admin.list_topics()


def test_of_one_its_own_error_is_raised(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError, match=f"{topic}.*TOPIC_ALREADY_EXISTS"):
        admin.create_topics(NewTopic(topic))
    for call in (admin.describe_topics, admin.delete_topics):
        with pytest.raises(KafkaError, match=r"'missing'.*UNKNOWN_TOPIC_OR_PARTITION"):
            call("missing")


def test_asking_about_a_topic_does_not_make_it(admin: Admin) -> None:
    with pytest.raises(KafkaError):
        admin.describe_topics("not-to-be-made")
    assert "not-to-be-made" not in admin.list_topics()


def test_partitions_are_added(admin: Admin, topic: str) -> None:
    admin.create_partitions(NewPartitions(topic, 4), validate_only=True)
    assert len(admin.describe_topics(topic).partitions) == 3
    admin.create_partitions(NewPartitions(topic, 5, assignment=[[0, 1], [1, 2]]))
    found = admin.describe_topics(topic).partitions
    assert [one.replicas for one in found[3:]] == [(0, 1), (1, 2)]
    assert all(one.leader is not None for one in found)
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        admin.create_partitions(NewPartitions(topic, 5))
    with pytest.raises(AdminErrors, match="1 of 2 failed"):
        admin.create_partitions([NewPartitions(topic, 6), NewPartitions("missing", 6)])
    assert len(admin.describe_topics(topic).partitions) == 6


def test_topics_are_listed_and_deleted(admin: Admin, topic: str) -> None:
    admin.alter_group_offsets("some-group", {})
    admin.group_offsets("some-group")  # there is a coordinator now, and its topic
    assert topic in admin.list_topics()
    assert "__consumer_offsets" in admin.list_topics()
    assert "__consumer_offsets" not in admin.list_topics(include_internal=False)
    assert set(admin.describe_topics()) == set(admin.list_topics())
    admin.delete_topics(topic)
    assert topic not in admin.list_topics()


def test_the_cluster_is_described(admin: Admin, brokers: EmbeddedBroker) -> None:
    cluster = admin.describe_cluster()
    assert [node.broker_id for node in cluster.brokers] == [0, 1, 2]
    assert ",".join(str(node.address) for node in cluster.brokers) == brokers.bootstrap
    assert cluster.controller_id in {0, 1, 2}
    assert cluster.cluster_id


def test_another_controller_is_looked_up(admin: Admin, brokers: EmbeddedBroker, name: str) -> None:
    rule = brokers.fail("CreateTopics", Code.NOT_CONTROLLER, times=2)
    admin.create_topics(NewTopic(name))
    assert rule.struck == 2


def test_a_creation_without_an_answer_is_not_repeated(
    admin: Admin, brokers: EmbeddedBroker, name: str
) -> None:
    brokers.drop("CreateTopics", handled=True)
    with pytest.raises(ConnectionLost):
        admin.create_topics(NewTopic(name))
    wait_for(lambda: name in admin.list_topics(), "the topic that the lost answer was about")


def test_what_is_only_asked_is_asked_again(admin: Admin, brokers: EmbeddedBroker, topic: str) -> None:
    brokers.drop("Metadata")
    assert topic in admin.list_topics()
    brokers.drop("DescribeConfigs")
    assert admin.describe_configs(topic_resource(topic))


def test_a_refusal_says_what_may_not_be_done(admin: Admin, brokers: EmbeddedBroker, topic: str) -> None:
    brokers.fail("DeleteTopics", Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match=f"topic '{topic}'.*this user may not do that with the topic"):
        admin.delete_topics(topic)
    brokers.fail("CreateTopics", Code.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="this user may not do that with the cluster"):
        admin.create_topics(NewTopic("forbidden"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"partitions": 0}, "partitions is 0, and must be 1 or more"),
        ({"replication_factor": -1}, "replication factor is -1"),
        ({"partitions": 1, "assignment": {0: [1]}}, "not both"),
        ({"assignment": {1: [1]}}, r"partitions \[1\], and must have all from 0 on"),
        ({"assignment": {}}, "must have all from 0 on"),
    ],
)
def test_wrong_topics_are_refused_here(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        NewTopic("t", **wrong)  # type: ignore[arg-type]


def test_settings_are_checked_and_nothing_connects_before_it_must() -> None:
    with pytest.raises(ConfigError, match=r"did you mean zookeeper.connect"):
        Admin(zookeper_connect="localhost")
    with pytest.raises(ConfigError, match=r"neither bootstrap.servers nor zookeeper.connect is set"):
        Admin()
    with pytest.raises(ConfigError, match="host1:2181"):
        Admin(zookeeper_connect="a b")
    with Admin({"bootstrap.servers": "127.0.0.1:1"}, default_api_timeout_ms=500):
        pass


def test_what_is_of_another_kind_is_refused_here(admin: Admin) -> None:
    for call in (
        lambda: admin.create_topics(["orders"]),  # type: ignore[list-item]
        lambda: admin.describe_topics([1]),  # type: ignore[list-item]
        lambda: admin.describe_configs("orders"),  # type: ignore[arg-type]
        lambda: admin.list_offsets([("orders", 0)]),  # type: ignore[list-item]
        lambda: admin.list_offsets({("orders", 0): 0}),  # type: ignore[dict-item]
        lambda: admin.delete_records({("orders", 0): 0}),  # type: ignore[dict-item]
        lambda: admin.alter_group_offsets("g", {("orders", 0): 0}),  # type: ignore[dict-item]
    ):
        with pytest.raises(ConfigError, match=r"is given where a .* is expected"):
            call()
    with pytest.raises(ConfigError, match="2 topics are given under 1 names"):
        admin.create_topics([NewTopic("t"), NewTopic("t")])
    with pytest.raises(ConfigError, match="give each name once"):
        admin.create_partitions([NewPartitions("t", 2), NewPartitions("t", 3)])


def test_ctrl_c_ends_a_call_and_leaves_the_admin_in_order(admin: Admin, brokers: EmbeddedBroker) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    here = os.getpid()
    rule = brokers.delay("ListGroups", 60, when=lambda _: os.kill(here, signal.SIGALRM) is None)
    try:
        with pytest.raises(KeyboardInterrupt):
            admin.list_groups()
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for(lambda: rule.struck == 1)
    assert isinstance(admin.list_groups(), tuple)


def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1", api_version_request_timeout_ms=500) as admin,
        pytest.raises(BrokerUnreachable, match=r"127.0.0.1:1"),
    ):
        admin.list_topics()


def test_a_closed_admin_says_so(brokers: EmbeddedBroker) -> None:
    admin = Admin(bootstrap_servers=brokers.bootstrap)
    assert admin.describe_cluster()
    admin.close()
    admin.close()
    with pytest.raises(ConnectionLost, match="closed"):
        admin.describe_cluster()


def test_an_admin_says_what_it_is_and_warns_when_it_is_dropped(brokers: EmbeddedBroker) -> None:
    admin = Admin(bootstrap_servers=brokers.bootstrap)
    assert repr(admin) == f"<Admin of {brokers.bootstrap}: idle>"
    admin.list_topics()
    assert repr(admin).endswith(": connected>")
    cycle = [admin]
    cycle.append(cycle)  # type: ignore[arg-type]  # so that only the garbage collector finds it
    del admin, cycle
    with pytest.warns(ResourceWarning, match=r"Admin of .* was not closed"):
        gc.collect()
