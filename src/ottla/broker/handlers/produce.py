"""Produce, key 0: append record sets.

Versions: 0 to 13. 0 to 2 carry formats 0 and 1 as well as 2; from 3 on exactly one batch of format 2 a
partition. zstd needs 7. 13 names topics by id.
Behaviour: acks=0 has no answer, and an error of it closes the connection; 1 and -1 are the same here, since
nobody replicates: the answer leaves when the records are in the log, and on disk where the policy says so. A
batch that an idempotent producer sends again is acknowledged with the offsets it got first.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cluster import INTERNAL_TOPICS, Cluster
from ottla.broker.leader_hints import endpoints_of, leader_of
from ottla.broker.partition import Partition
from ottla.broker.serving import DropConnection, Handler, Inquiry
from ottla.broker.turn import Failures
from ottla.log.batch_header import TRANSACTIONAL, BatchHeader
from ottla.log.file_system import Buffer
from ottla.log.validation import checked
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from ottla.wire.versions import VersionRange

if TYPE_CHECKING:
    from ottla.broker.node import Node

ACKS_ALL = -1
ACKS = (ACKS_ALL, 0, 1)
ZSTD_SINCE = 7
IDS_SINCE = 13
ZSTD = 4


class Placed(NamedTuple):
    """A record set that has got its offsets, and is written at the end of the turn."""

    partition: Partition
    base_offset: int
    append_time_ms: int
    start_offset: int


class Staged(NamedTuple):
    """What waits for the end of the turn, and the answer about it."""

    partition: Partition
    answer: ProducePartitionResponse


def place(node: Node, topic: str, index: int, records: Buffer, version: int, acks: int) -> Placed:
    """Check a record set and stage it. Raises KafkaError or StorageError; nothing is staged then."""
    cluster = node.cluster
    partition = cluster.partition(topic, index)
    if partition.leader != node.broker_id:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
    log = partition.log
    if log is None:
        raise StorageError(f"{partition} is offline")
    if acks == ACKS_ALL and partition.settings.min_insync_replicas > 1:
        _check_replicas(cluster, partition)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own")
    now_ms = cluster.now_ms()
    checked_set = checked(records, log.config, now_ms)
    batches = checked_set.batches
    if version < ZSTD_SINCE or len(batches) != 1 or batches[0].magic != 2:
        _check_batches(batches, version)
        if not batches:
            cluster.turn.stage(partition)  # nothing to write, but the answer leaves with the turn
            return Placed(partition, -1, -1, log.start_offset)
    header = batches[0]
    cluster.turn.stage(partition)
    if header.producer_id < 0 and not header.attributes & TRANSACTIONAL:
        base_offset, _, append_time_ms = log.append(checked_set, now_ms, partition.leader_epoch)
        if header.magic < 2 or partition.legacy_run is not None:
            partition.note_format(base_offset, max(batch.magic for batch in batches))
        return Placed(partition, base_offset, append_time_ms, log.start_offset)
    duplicate = partition.producers.check(header)
    if duplicate is not None:
        # Its first copy may still be on the way to the disk: it is acknowledged with the next write.
        return Placed(partition, duplicate.base_offset, duplicate.append_time_ms, log.start_offset)
    base_offset, _, append_time_ms = log.append(checked_set, now_ms, partition.leader_epoch)
    partition.producers.stage(header, base_offset, append_time_ms)
    partition.legacy_run = None
    return Placed(partition, base_offset, append_time_ms, log.start_offset)


def _check_replicas(cluster: Cluster, partition: Partition) -> None:
    alive = sum(broker_id in cluster.nodes for broker_id in partition.replicas)
    wanted = partition.settings.min_insync_replicas
    if alive < wanted:
        what = f"{partition}: {alive} replicas, min.insync.replicas is {wanted}"
        raise KafkaError(Code.NOT_ENOUGH_REPLICAS, what)


def _check_batches(batches: tuple[BatchHeader, ...], version: int) -> None:
    """What a version may carry, beyond what its format allows."""
    if version >= 3 and (len(batches) != 1 or batches[0].magic != 2):
        formats = sorted({batch.magic for batch in batches})
        what = f"Produce v{version} takes one batch of format 2, not {len(batches)} of {formats}"
        raise KafkaError(Code.INVALID_RECORD, what)
    if len(batches) > 1 and any(batch.magic == 2 for batch in batches):
        raise KafkaError(Code.INVALID_RECORD, f"{len(batches)} entries with a batch of format 2 among them")
    if version < ZSTD_SINCE and any(batch.codec == ZSTD for batch in batches):
        what = f"zstd in Produce v{version}, below {ZSTD_SINCE}"
        raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, what)


def handle(inquiry: Inquiry, request: ProduceRequest) -> ProduceResponse | None:
    """Stage what can be appended; answer when it is written."""
    if request.acks not in ACKS:
        raise KafkaError(Code.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    staged: list[Staged] = []
    answers = [_topic(inquiry, topic, request.acks, staged) for topic in request.topic_data]
    response = ProduceResponse(responses=answers)
    if request.acks == 0:
        _check_unanswered(answers)
        if staged:
            inquiry.cluster.turn.then(partial(_drop_if_lost, inquiry, staged))
        return response
    _add_leaders(inquiry, response)
    if not staged:
        return response

    def written(failures: Failures) -> None:
        if failures:
            _note_failures(staged, failures)
        inquiry.reply(response)

    inquiry.cluster.turn.then(written)
    inquiry.connection.express.learn(inquiry.call, request)
    return None


def _topic(inquiry: Inquiry, topic: ProduceTopic, acks: int, staged: list[Staged]) -> ProduceTopicResponse:
    answers = []
    name: str | None = topic.name
    if inquiry.version >= IDS_SINCE:
        name = inquiry.cluster.topic_names.get(topic.topic_id)
    for item in topic.partition_data:
        answer = ProducePartitionResponse(index=item.index, base_offset=-1)
        try:
            if name is None:
                raise KafkaError(Code.UNKNOWN_TOPIC_ID, topic.topic_id.hex())
            placed = place(inquiry.node, name, item.index, item.records or b"", inquiry.version, acks)
            partition, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset = placed
            staged.append(Staged(partition, answer))
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        except StorageError as error:
            answer.error_code, answer.error_message = Code.KAFKA_STORAGE_ERROR, str(error)
        answers.append(answer)
    return ProduceTopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _note_failures(staged: list[Staged], failures: Failures) -> None:
    for partition, answer in staged:
        failure = failures.get(partition)
        if failure is not None:
            answer.error_code, answer.error_message = Code.KAFKA_STORAGE_ERROR, str(failure)
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


def _check_unanswered(answers: list[ProduceTopicResponse]) -> None:
    """With acks=0 a closed connection is the only way to say that something was refused."""
    for topic in answers:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise DropConnection(f"Produce with acks=0 failed: {answer.error_message}")


def _drop_if_lost(inquiry: Inquiry, staged: list[Staged], failures: Failures) -> None:
    """The same for what could not be written."""
    lost = [str(failures[partition]) for partition, _ in staged if partition in failures]
    if lost:
        what = DropConnection(f"Produce with acks=0 failed: {lost[0]}")
        inquiry.node.note_fault(inquiry.connection.peer_host, what)
        inquiry.connection.close()


def _add_leaders(inquiry: Inquiry, response: ProduceResponse) -> None:
    """Tell who leads now, where a client asked the wrong broker (KIP-951)."""
    if inquiry.version < 10:
        return
    cluster = inquiry.cluster
    misdirected = []
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == Code.NOT_LEADER_OR_FOLLOWER:
                partition = cluster.partition(topic.name or cluster.topic_name(topic.topic_id), answer.index)
                answer.current_leader = leader_of(partition)
                misdirected.append(partition)
    if misdirected:
        response.node_endpoints = endpoints_of(cluster, misdirected)


def refuse(request: ProduceRequest, error: Code, _version: int) -> ProduceResponse:
    """One error for every partition."""
    topics = [
        ProduceTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                ProducePartitionResponse(index=item.index, error_code=error, base_offset=-1)
                for item in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


HANDLER = Handler(ProduceRequest, VersionRange(0, 13), handle, refuse, pipelined=True)
