"""What Kafka 4 answers, and our broker too: the same questions to both, the same expectations.

Kafka is the newest server that Maven has. Versions that only its newest clients know are asked of our broker
alone, below.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable, Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.registry import SERVED
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupTopic, OffsetFetchRequest
from tests.broker.handlers.admin.calls import create
from tests.broker.handlers.admin.calls import topic as new_topic
from tests.broker.real_clients import python_member, read_with_python, send
from tests.broker.wire_client import Client
from tests.kafka_programs import run_tool
from tests.waiting import wait_for
from tools.peer_cache import KAFKA_CLIENTS, Unavailable, kafka_libs
from tools.peers import KAFKA_4, RealKafka

TOPIC = GROUP = "as-kafka-4"
NO_ID, WRONG_ID = bytes(16), b"?" * 16
NOT_ASKED = -(2**31)
TOPIC_OPERATIONS, CLUSTER_OPERATIONS, GROUP_OPERATIONS = 3576, 8096, 3400


@pytest.fixture(scope="module", params=["ottla", KAFKA_4])
def client(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[Client]:
    """To a broker with a topic of two partitions, whose coordinator is ready."""
    if request.param == "ottla":
        with EmbeddedBroker(properties={"offsets.topic.num.partitions": "3"}) as broker:
            yield from _prepared(broker.bootstrap)
    else:
        yield from _prepared(real_kafka(request.param).bootstrap)


def _prepared(bootstrap: str) -> Iterator[Client]:
    with Client.of(bootstrap) as client:
        create(client, new_topic(TOPIC, 2))
        wait_for(lambda: len(_metadata(client, 12, TOPIC, NO_ID)[2]) == 2, "the topic is there")
        wait_for(lambda: not _find(client), "there is a coordinator")
        wait_for(lambda: _committed(client, [(_topic_id(client), [0, 1])]) == [[0, 0]], "it stores offsets")
        yield client


def _find(client: Client) -> int:
    """The error of a search for the coordinator, which makes the offsets topic."""
    return client.call(FindCoordinatorRequest(key=GROUP), 1).error_code


def _topic_id(client: Client) -> bytes:
    return client.call(MetadataRequest(topics=[MetadataTopic(name=TOPIC)]), 12).topics[0].topic_id


def _metadata(
    client: Client, version: int, name: str | None, topic_id: bytes
) -> tuple[int, str | None, list[int]]:
    asked = MetadataRequest(
        topics=[MetadataTopic(name=name, topic_id=topic_id)], allow_auto_topic_creation=False
    )
    (topic,) = client.call(asked, version).topics
    return topic.error_code, topic.name, sorted(one.partition_index for one in topic.partitions)


def _committed(
    client: Client, topics: list[tuple[bytes, list[int]]], generation: int = -1
) -> list[list[int]]:
    """The codes that a commit by topic ids gets, by topic and partition."""
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitTopic(
                topic_id=topic_id,
                partitions=[
                    OffsetCommitPartition(partition_index=index, committed_offset=5, committed_metadata="m")
                    for index in indexes
                ],
            )
            for topic_id, indexes in topics
        ],
    )
    found = {topic.topic_id: topic.partitions for topic in client.call(request, 10).topics}
    codes = [{one.partition_index: one.error_code for one in found[topic_id]} for topic_id, _ in topics]
    return [
        [by_index[index] for index in indexes] for by_index, (_, indexes) in zip(codes, topics, strict=True)
    ]


# --- topics by id ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("name", [None, "", TOPIC, "another"])
def test_an_id_finds_a_topic_whatever_name_is_beside_it(
    client: Client, version: int, name: str | None
) -> None:
    """Java's describeTopics by ids sends an empty name, others send null."""
    assert _metadata(client, version, name, _topic_id(client)) == (Code.NONE, TOPIC, [0, 1])
    assert _metadata(client, version, name, WRONG_ID) == (Code.UNKNOWN_TOPIC_ID, None, [])


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "", TOPIC])
def test_ids_are_refused_before_version_12(client: Client, version: int, name: str | None) -> None:
    assert _metadata(client, version, name, _topic_id(client)) == (Code.INVALID_REQUEST, name or "", [])


@pytest.mark.parametrize("version", [10, 13])
def test_an_empty_name_without_an_id_is_not_a_topic(client: Client, version: int) -> None:
    assert _metadata(client, version, "", NO_ID) == (Code.INVALID_TOPIC_EXCEPTION, "", [])


def test_offsets_are_committed_by_topic_ids(client: Client) -> None:
    known = _topic_id(client)
    assert _committed(client, [(known, [0, 9]), (WRONG_ID, [0]), (NO_ID, [1])]) == [[0, 3], [100], [100]]
    assert _committed(client, [(WRONG_ID, [0]), (known, [0, 9])], generation=3) == [
        [Code.UNKNOWN_TOPIC_ID],
        [Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_TOPIC_OR_PARTITION],
    ]


def test_offsets_are_fetched_by_topic_ids(client: Client) -> None:
    known = _topic_id(client)
    _committed(client, [(known, [0, 1])])
    wanted = [
        OffsetFetchGroupTopic(topic_id=topic_id, partition_indexes=indexes)
        for topic_id, indexes in ((known, [0, 9]), (WRONG_ID, [0]), (NO_ID, [1]))
    ]
    asked = [OffsetFetchGroup(group_id=GROUP, topics=wanted), OffsetFetchGroup(group_id=GROUP, topics=None)]
    some, everything = client.call(OffsetFetchRequest(groups=asked), 10).groups
    assert [
        (
            topic.topic_id,
            [(one.partition_index, one.committed_offset, one.error_code) for one in topic.partitions],
        )
        for topic in some.topics
    ] == [
        (known, [(0, 5, 0), (9, -1, 0)]),
        (WRONG_ID, [(0, -1, Code.UNKNOWN_TOPIC_ID)]),
        (NO_ID, [(1, -1, Code.UNKNOWN_TOPIC_ID)]),
    ]
    (topic,) = everything.topics
    assert (topic.topic_id, {one.partition_index: one.committed_offset for one in topic.partitions}) == (
        known,
        {0: 5, 1: 5},
    )


# --- what a client may do, without an authorizer --------------------------------------------------------


@pytest.mark.parametrize("version", [8, 9, 10, 11, 13])
@pytest.mark.parametrize("is_asked", [False, True])
def test_permitted_operations_of_topics_and_the_cluster(client: Client, version: int, is_asked: bool) -> None:
    has_cluster = version <= 10
    answer = client.call(
        MetadataRequest(
            topics=[MetadataTopic(name=TOPIC), MetadataTopic(name="nowhere")],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=is_asked and has_cluster,
            include_topic_authorized_operations=is_asked,
        ),
        version,
    )
    expected = TOPIC_OPERATIONS if is_asked else NOT_ASKED
    assert [topic.topic_authorized_operations for topic in answer.topics] == [expected] * 2
    cluster = CLUSTER_OPERATIONS if is_asked and has_cluster else NOT_ASKED
    assert answer.cluster_authorized_operations == cluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_permitted_operations_of_a_described_cluster(client: Client, version: int) -> None:
    for is_asked, expected in ((False, NOT_ASKED), (True, CLUSTER_OPERATIONS)):
        asked = DescribeClusterRequest(include_cluster_authorized_operations=is_asked)
        assert client.call(asked, version).cluster_authorized_operations == expected


@pytest.mark.parametrize("version", [3, 5, 6])
def test_permitted_operations_of_groups(client: Client, version: int) -> None:
    for is_asked, expected in ((False, NOT_ASKED), (True, GROUP_OPERATIONS)):
        asked = DescribeGroupsRequest(groups=[GROUP, "nowhere"], include_authorized_operations=is_asked)
        found = {one.group_id: one.authorized_operations for one in client.call(asked, version).groups}
        # From version 6 on an unknown group is an error, and an error tells nothing more.
        assert found == {GROUP: expected, "nowhere": expected if version < 6 else NOT_ASKED}


# --- coordinators, offsets, directories, groups ---------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_a_coordinator_that_is_found(client: Client, version: int) -> None:
    if version < 4:
        answer = client.call(FindCoordinatorRequest(key=GROUP), version)
        assert (answer.error_code, answer.error_message) == (Code.NONE, "NONE")
    else:
        found = client.call(FindCoordinatorRequest(coordinator_keys=[GROUP, "other"]), version).coordinators
        assert [(one.key, one.error_code, one.error_message) for one in found] == [
            (GROUP, Code.NONE, ""),
            ("other", Code.NONE, ""),
        ]


def test_a_share_coordinator_is_a_matter_of_version_6(client: Client) -> None:
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    (found,) = client.call(asked, 5).coordinators
    assert found.error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "time", "code", "offset"),
    [
        (10, -6, Code.UNSUPPORTED_VERSION, -1),
        (11, -4, 0, 0),
        (11, -5, 0, -1),
        (11, -6, 0, -1),
        (11, -7, 35, -1),
    ],
)
def test_special_times(client: Client, version: int, time: int, code: int, offset: int) -> None:
    wanted = ListOffsetsTopic(
        name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=time)]
    )
    (topic,) = client.call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), version).topics
    (found,) = topic.partitions
    assert (found.error_code, found.offset) == (code, offset)


def test_no_directory_is_closed_for_new_partitions(client: Client) -> None:
    (found,) = client.call(DescribeLogDirsRequest(topics=[]), 5).results
    assert (found.error_code, found.is_cordoned) == (Code.NONE, False)


# --- versions that only Kafka 4.4 has -------------------------------------------------------------------


def _newest_of_kafka() -> dict[int, int]:
    """The newest version of each API that a broker lists, from the tables in the newest jar."""
    try:
        jar = kafka_libs(KAFKA_CLIENTS) / f"kafka-clients-{KAFKA_CLIENTS}.jar"
    except Unavailable as missing:
        pytest.skip(f"Kafka's tables of messages are not read: {missing}")
    newest = {}
    with zipfile.ZipFile(jar) as tables:
        for name in tables.namelist():
            if name.startswith("common/message/") and name.endswith("Request.json"):
                lines = tables.read(name).decode().splitlines()
                table = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                if table["validVersions"] != "none":
                    last = int(table["validVersions"].rpartition("-")[2])
                    newest[table["apiKey"]] = last - bool(table.get("latestVersionUnstable"))
    return newest


def test_every_api_is_served_up_to_the_newest_version_of_kafka() -> None:
    kafkas = _newest_of_kafka()
    newest = {key: versions.newest for key, versions in SERVED.items()}
    assert newest == {key: kafkas[key] for key in newest}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"offsets.topic.num.partitions": "3"}) as one:
        yield one


@pytest.mark.parametrize(
    ("other_cluster", "node", "code"),
    [
        (False, 0, Code.NONE),
        (False, 1, Code.REBOOTSTRAP_REQUIRED),
        (True, 0, Code.REBOOTSTRAP_REQUIRED),
        (False, -1, Code.INVALID_REQUEST),
        (None, 0, Code.INVALID_REQUEST),
        (None, -1, Code.NONE),
    ],
)
def test_a_client_may_name_the_broker_that_it_means(
    broker: EmbeddedBroker, other_cluster: bool | None, node: int, code: Code
) -> None:
    with Client.of(broker.bootstrap) as ours:
        here = ours.call(MetadataRequest(topics=[]), 12).cluster_id
        named = {None: None, False: here, True: "another"}[other_cluster]
        asked = ApiVersionsRequest("test", "1", named, node)
        answer = ours.call(asked, 5)
    assert (answer.error_code, bool(answer.api_keys)) == (code, code is Code.NONE)


@pytest.mark.parametrize("release", [(3, 9), (4, 0)])
def test_a_client_that_is_pinned_to_a_release_joins_a_group(
    broker: EmbeddedBroker, release: tuple[int, int]
) -> None:
    """It asks nobody for versions: whatever that release of Kafka serves it takes for granted."""
    topic = f"pinned-{release[0]}"
    broker.create_topic(topic)
    send(broker.bootstrap, topic, [b"a", b"b"])
    with python_member(broker.bootstrap, topic, [topic], api_version=release) as member:
        assert read_with_python(member, 2) == [b"a", b"b"]
        member.commit()


def test_kafkas_own_tool_describes_a_topic_by_its_id(broker: EmbeddedBroker) -> None:
    broker.create_topic("by-id", 2)
    with Client.of(broker.bootstrap) as ours:
        topic_id = ours.call(MetadataRequest(topics=[MetadataTopic(name="by-id")]), 12).topics[0].topic_id
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    told = _tool("org.apache.kafka.tools.TopicCommand", broker, "--describe", "--topic-id", text)
    assert f"Topic: by-id\tTopicId: {text}\tPartitionCount: 2" in told


def _tool(name: str, broker: EmbeddedBroker, *arguments: str) -> str:
    return run_tool(KAFKA_4, name, "--bootstrap-server", broker.bootstrap, *arguments)


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_that_is_not_deleted_says_why(broker: EmbeddedBroker, version: int) -> None:
    with Client.of(broker.bootstrap) as ours:
        wait_for(lambda: not _find(ours), "there is a coordinator")
        (result,) = ours.call(DeleteGroupsRequest(groups_names=["nowhere"]), version).results
    text = Code.GROUP_ID_NOT_FOUND.text if version >= 3 else None
    assert (result.error_code, result.error_message) == (Code.GROUP_ID_NOT_FOUND, text)
