"""Produce, key 0: append record sets to partitions.

Version notes: 0-2 carry message sets of format 0 or 1; from 3 on a record set is format 2 and a transactional
id comes first. 7 admits zstd. 8 explains which records were refused. 10 names the current leader if another
broker leads. 13 names topics by id. With acks=0 there is no response at all. Kafka 4 answers only 3 and
above, but must list 0 for librdkafka's sake (KAFKA-18659).
"""

from __future__ import annotations

from ottla.wire.leader_hint import LeaderIdAndEpoch, NodeEndpoint
from ottla.wire.primitives import Buffer
from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    int64,
    record_set,
    request,
    response,
    string,
    struct,
    uuid,
)


@struct
class ProducePartition:
    index: int = field(int32)
    records: Buffer | None = field(record_set, nullable_since=0)


@struct
class ProduceTopic:
    name: str = field(string, until=12, ignorable=True)
    topic_id: bytes = field(uuid, since=13, ignorable=True)
    partition_data: list[ProducePartition] = field(array(ProducePartition))


@request(key=0, versions=13, flexible=9)
class ProduceRequest(Request["ProduceResponse"]):
    transactional_id: str | None = field(string, since=3, nullable_since=3, default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[ProduceTopic] = field(array(ProduceTopic))


@struct
class RecordError:
    batch_index: int = field(int32)
    batch_index_error_message: str | None = field(string, nullable_since=8, default=None)


@struct
class ProducePartitionResponse:
    index: int = field(int32)
    error_code: int = field(int16)
    base_offset: int = field(int64)
    log_append_time_ms: int = field(int64, since=2, default=-1, ignorable=True)
    log_start_offset: int = field(int64, since=5, default=-1, ignorable=True)
    record_errors: list[RecordError] = field(array(RecordError), since=8, ignorable=True)
    error_message: str | None = field(string, since=8, nullable_since=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@struct
class ProduceTopicResponse:
    name: str = field(string, until=12, ignorable=True)
    topic_id: bytes = field(uuid, since=13, ignorable=True)
    partition_responses: list[ProducePartitionResponse] = field(array(ProducePartitionResponse))


@response(ProduceRequest)
class ProduceResponse(Response):
    responses: list[ProduceTopicResponse] = field(array(ProduceTopicResponse))
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=10, tag=0)
