"""Produce, key 0: append record sets.

Versions: 0 to 13. 0 to 2 carry formats 0 and 1 as well as 2; from 3 on exactly one batch of format 2 a
partition. zstd needs 7. 13 names topics by id.
Behaviour: acks=0 has no answer, and an error of it closes the connection; 1 and -1 are the same here, since
nobody replicates: the answer leaves when the records are in the log, and on disk where the policy says so. A
batch that an idempotent producer sends again is acknowledged with the offsets it got first.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.cluster import INTERNAL_TOPICS
from ottla.broker.leader_hints import endpoints_of, leader_of
from ottla.broker.partition import Partition
from ottla.broker.serving import DropConnection, Handler, Inquiry
from ottla.broker.turn import Failures
from ottla.log.validation import CheckedSet, checked
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from ottla.wire.versions import VersionRange

ACKS = (-1, 0, 1)
ZSTD_SINCE = 7
ZSTD = 4


class Staged(NamedTuple):
    """An append that waits for the end of the turn, and the answer about it."""

    partition: Partition
    answer: ProducePartitionResponse


def handle(inquiry: Inquiry, request: ProduceRequest) -> ProduceResponse | None:
    """Stage what can be appended; answer when it is written."""
    if request.acks not in ACKS:
        raise KafkaError(Code.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    staged: list[Staged] = []
    answers = [_topic(inquiry, topic, staged) for topic in request.topic_data]
    response = ProduceResponse(responses=answers)
    if request.acks == 0:
        _check_unanswered(answers)
        return response
    if not staged:
        return _with_leaders(inquiry, response)

    def written(failures: Failures) -> None:
        if failures:
            _note_failures(staged, failures)
        inquiry.reply(_with_leaders(inquiry, response))

    inquiry.cluster.turn.then(written)
    return None


def _topic(inquiry: Inquiry, topic: ProduceTopic, staged: list[Staged]) -> ProduceTopicResponse:
    answers = []
    name = topic.name
    if inquiry.version >= 13:
        name = inquiry.cluster.topic_names.get(topic.topic_id, "")
    for item in topic.partition_data:
        answer = ProducePartitionResponse(index=item.index, base_offset=-1)
        try:
            if not name:
                raise KafkaError(Code.UNKNOWN_TOPIC_ID, topic.topic_id.hex())
            _append(inquiry, name, item, answer, staged)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        except StorageError as error:
            answer.error_code, answer.error_message = Code.KAFKA_STORAGE_ERROR, str(error)
        answers.append(answer)
    return ProduceTopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _append(
    inquiry: Inquiry,
    topic: str,
    item: ProducePartition,
    answer: ProducePartitionResponse,
    staged: list[Staged],
) -> None:
    cluster, version = inquiry.cluster, inquiry.version
    partition = cluster.partition(topic, item.index)
    if partition.leader != inquiry.node.broker_id:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
    if topic in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own")
    log = partition.log
    if log is None:
        raise StorageError(f"{partition} is offline")
    now_ms = cluster.now_ms()
    records = checked(item.records or b"", log.config, now_ms)
    _check_version(records, version)
    if not records.batches:
        answer.base_offset = log.next_offset  # nothing to append is no error, as with Kafka
        return
    header = records.batches[0]
    if header.producer_id >= 0:
        duplicate = partition.producers.check(header)
        if duplicate is not None:
            answer.base_offset, answer.log_append_time_ms = duplicate.base_offset, duplicate.append_time_ms
            answer.log_start_offset = log.start_offset
            staged.append(Staged(partition, answer))  # its first copy may still be on the way to the disk
            cluster.turn.stage(partition)
            return
    appended = log.append(records, now_ms, partition.leader_epoch)
    if header.producer_id >= 0:
        partition.producers.stage(header, appended.base_offset, appended.append_time_ms)
    cluster.turn.stage(partition)
    answer.base_offset, answer.log_append_time_ms = appended.base_offset, appended.append_time_ms
    answer.log_start_offset = log.start_offset
    staged.append(Staged(partition, answer))


def _note_failures(staged: list[Staged], failures: Failures) -> None:
    for partition, answer in staged:
        failure = failures.get(partition)
        if failure is not None:
            answer.error_code, answer.error_message = Code.KAFKA_STORAGE_ERROR, str(failure)
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


def _check_version(records: CheckedSet, version: int) -> None:
    """What a version may carry, beyond what its format allows."""
    batches = records.batches
    if version >= 3 and (len(batches) != 1 or batches[0].magic != 2):
        formats = sorted({batch.magic for batch in batches})
        what = f"Produce v{version} takes one batch of format 2, not {len(batches)} of {formats}"
        raise KafkaError(Code.INVALID_RECORD, what)
    if version < ZSTD_SINCE and any(batch.codec == ZSTD for batch in batches):
        raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce v{version}, below {ZSTD_SINCE}")


def _check_unanswered(answers: list[ProduceTopicResponse]) -> None:
    """With acks=0 a closed connection is the only way to say that something was refused."""
    for topic in answers:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise DropConnection(f"Produce with acks=0 failed: {answer.error_message}")


def _with_leaders(inquiry: Inquiry, response: ProduceResponse) -> ProduceResponse:
    """Tell who leads now, where a client asked the wrong broker (KIP-951)."""
    if inquiry.version < 10:
        return response
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
    return response


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
