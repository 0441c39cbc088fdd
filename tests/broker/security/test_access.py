"""What a client may do, over the socket: parts of requests, what is shown, what a change of rules changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import count

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.acls import PatternType, Permission, ResourceType
from ottla.model.error_codes import Code
from ottla.model.permissions import Operation
from ottla.wire.api.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.api.describe_acls import DescribeAclsRequest
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupTopic,
    OffsetFetchRequest,
)
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.security.secured import log_in, properties, sasl_client
from tests.broker.wire_client import Client
from tests.client.certificates import Certificates
from tests.log.record_sets import batch

DENIED = Code.TOPIC_AUTHORIZATION_FAILED
_numbers = count()


@pytest.fixture(scope="module")
def strict(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    more = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    more["super.users"] = "User:ann"
    with EmbeddedBroker(properties={**properties(certificates), **more}) as broker:
        yield broker


@pytest.fixture
def root(strict: EmbeddedBroker) -> Iterator[Client]:
    with sasl_client(strict) as client:
        log_in(client, "PLAIN")
        yield client


@pytest.fixture
def bob(strict: EmbeddedBroker) -> Iterator[Client]:
    with sasl_client(strict) as client:
        log_in(client, "PLAIN", "bob", "bob-secret")
        yield client


def grant(
    root: Client,
    resource: ResourceType,
    name: str,
    *operations: Operation,
    permission: Permission = Permission.ALLOW,
) -> None:
    creations = [
        AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:bob",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        for operation in operations
    ]
    answer = root.call(CreateAclsRequest(creations=creations))
    assert {result.error_code for result in answer.results} == {0}


def revoke(root: Client, name: str) -> None:
    wanted = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    result = root.call(DeleteAclsRequest(filters=[wanted])).filter_results[0]
    assert result.matching_acls
    assert {result.error_message, *(acl.error_message for acl in result.matching_acls)} == {None}


@pytest.fixture
def topics(strict: EmbeddedBroker, root: Client) -> tuple[str, str]:
    """Two topics of a test: bob may do all with the first, nothing with the second."""
    number = next(_numbers)
    mine, other = f"mine-{number}", f"other-{number}"
    strict.create_topic(mine)
    strict.create_topic(other)
    grant(root, ResourceType.TOPIC, mine, Operation.READ, Operation.WRITE)
    return mine, other


def produce(client: Client, *names: str) -> dict[str, int]:
    data = [
        ProduceTopic(name=name, partition_data=[ProducePartition(index=0, records=batch((b"k", b"v")))])
        for name in names
    ]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data), 9)
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def test_a_request_is_served_in_part(topics: tuple[str, str], bob: Client) -> None:
    mine, other = topics
    for _ in range(3):
        assert produce(bob, mine, other) == {mine: Code.NONE, other: DENIED}
        assert produce(bob, other) == {other: DENIED}
        assert produce(bob, mine) == {mine: Code.NONE}
    wanted = [
        FetchTopic(
            topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9999)]
        )
        for name in (other, mine)
    ]
    answer = bob.call(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=9999, topics=wanted), 11)
    found = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert (found[mine].error_code, found[other].error_code) == (Code.NONE, DENIED)
    assert found[mine].records
    assert not found[other].records


def test_a_right_that_is_taken_away_counts_for_the_express_lane_too(
    topics: tuple[str, str], bob: Client, root: Client
) -> None:
    mine, _ = topics
    for _ in range(4):
        assert produce(bob, mine) == {mine: Code.NONE}
    revoke(root, mine)
    assert produce(bob, mine) == {mine: DENIED}
    grant(root, ResourceType.TOPIC, mine, Operation.WRITE)
    assert produce(bob, mine) == {mine: Code.NONE}
    grant(root, ResourceType.TOPIC, mine, Operation.WRITE, permission=Permission.DENY)
    assert produce(bob, mine) == {mine: DENIED}


def test_metadata_shows_what_may_be_seen(topics: tuple[str, str], bob: Client) -> None:
    mine, other = topics
    everything = bob.call(MetadataRequest(topics=None, include_topic_authorized_operations=True))
    by_name = {topic.name: topic for topic in everything.topics}
    assert mine in by_name
    assert other not in by_name
    rights = by_name[mine].topic_authorized_operations
    assert rights == sum(1 << right for right in (Operation.READ, Operation.WRITE, Operation.DESCRIBE))
    named = bob.call(MetadataRequest(topics=[MetadataTopic(name=mine), MetadataTopic(name=other)]))
    assert {topic.name: topic.error_code for topic in named.topics} == {mine: 0, other: DENIED}
    assert named.brokers


def test_a_topic_is_made_for_those_who_may(topics: tuple[str, str], bob: Client, root: Client) -> None:
    mine, _ = topics
    name = f"new-{mine}"
    ask = MetadataRequest(topics=[MetadataTopic(name=name)], allow_auto_topic_creation=True)
    assert [topic.error_code for topic in bob.call(ask).topics] == [DENIED]
    grant(root, ResourceType.TOPIC, name, Operation.DESCRIBE)
    assert [topic.error_code for topic in bob.call(ask).topics] == [DENIED]
    wish = CreateTopicsRequest(topics=[CreateTopic(name=name, num_partitions=1, replication_factor=1)])
    assert [topic.error_code for topic in bob.call(wish).topics] == [DENIED]
    grant(root, ResourceType.TOPIC, name, Operation.CREATE)
    made = bob.call(wish).topics[0]
    assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, DENIED, -1)
    assert [topic.error_code for topic in bob.call(ask).topics] == [Code.NONE]


def test_groups_and_their_offsets(topics: tuple[str, str], bob: Client, root: Client) -> None:
    mine, other = topics
    group = f"group-{mine}"
    commit = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitTopic(
                name=name, partitions=[OffsetCommitPartition(partition_index=0, committed_offset=5)]
            )
            for name in topics
        ],
    )
    root.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
    answer = bob.call(commit, 8)
    assert {topic.partitions[0].error_code for topic in answer.topics} == {Code.GROUP_AUTHORIZATION_FAILED}
    grant(root, ResourceType.GROUP, group, Operation.READ)
    answer = bob.call(commit, 8)
    found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert found == {mine: Code.NONE, other: DENIED}
    root.call(commit, 8)
    named = [OffsetFetchGroupTopic(name=name, partition_indexes=[0]) for name in topics]
    for wanted in (named, None):
        ask = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=wanted)])
        fetched = bob.call(ask, 9).groups[0]
        shown = {topic.name: topic.partitions[0] for topic in fetched.topics}
        assert (shown[mine].error_code, shown[mine].committed_offset) == (0, 5)
        if wanted is None:
            assert other not in shown
        else:
            assert (shown[other].error_code, shown[other].committed_offset) == (DENIED, -1)
    assert group in {listed.group_id for listed in bob.call(ListGroupsRequest()).groups}
    revoke(root, group)
    assert group not in {listed.group_id for listed in bob.call(ListGroupsRequest()).groups}


def test_a_producer_needs_a_topic_that_it_may_write(bob: Client, root: Client) -> None:
    ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    name = f"written-{next(_numbers)}"
    grant(root, ResourceType.TOPIC, name, Operation.WRITE)
    assert bob.call(ask, 4).error_code == Code.NONE
    ours = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    assert bob.call(ours, 4).error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_rules_are_described_and_only_by_those_who_may(
    topics: tuple[str, str], bob: Client, root: Client
) -> None:
    mine, _ = topics
    ask = DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=mine,
        pattern_type_filter=PatternType.MATCH,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = root.call(ask)
    assert [resource.resource_name for resource in answer.resources] == [mine]
    assert {acl.operation for acl in answer.resources[0].acls} == {Operation.READ, Operation.WRITE}
    assert bob.call(ask).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    rights = bob.call(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert rights.cluster_authorized_operations == 0


def test_refused_and_admin_calls_are_in_the_audit_log(
    topics: tuple[str, str], bob: Client, root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    _, other = topics
    with caplog.at_level(logging.INFO, "ottla.audit"):
        produce(bob, other)
        grant(root, ResourceType.TOPIC, other, Operation.READ)
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.audit"]
    assert f"User:bob is denied WRITE on TOPIC:{other} from 127.0.0.1 for Produce" in lines
    assert "User:ann from 127.0.0.1 calls CreateAcls" in lines


def test_without_an_authorizer_security_is_disabled(secured: EmbeddedBroker) -> None:
    with Client.of(secured.bootstrap) as client:
        grants = CreateAclsRequest(creations=[AclCreation(principal="User:x", host="*")])
        assert client.call(grants).results[0].error_code == Code.SECURITY_DISABLED
        assert client.call(DescribeAclsRequest()).error_code == Code.SECURITY_DISABLED
