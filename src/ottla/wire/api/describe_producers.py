"""DescribeProducers, key 61: the producers that a partition's leader knows, and their open transactions."""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
)


@struct
class DescribeProducersTopic:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@request(key=61, versions=0, flexible=0)
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    topics: list[DescribeProducersTopic] = field(array(DescribeProducersTopic))


@struct
class ActiveProducer:
    producer_id: int = field(int64)
    producer_epoch: int = field(int32)
    last_sequence: int = field(int32, default=-1)
    last_timestamp: int = field(int64, default=-1)
    coordinator_epoch: int = field(int32)
    current_txn_start_offset: int = field(int64, default=-1)


@struct
class DescribedProducersPartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    active_producers: list[ActiveProducer] = field(array(ActiveProducer))


@struct
class DescribedProducersTopic:
    name: str = field(string)
    partitions: list[DescribedProducersPartition] = field(array(DescribedProducersPartition))


@response(DescribeProducersRequest)
class DescribeProducersResponse(Response):
    throttle_time_ms: int = field(int32)
    topics: list[DescribedProducersTopic] = field(array(DescribedProducersTopic))
