"""AddPartitionsToTxn, key 24: name the partitions that a transaction is about to write.

Version notes: up to 3 a producer asks, for one transaction. From 4 on brokers ask, for several at once, and
may only want to know whether the partitions were added before (`verify_only`). 5 may answer
TRANSACTION_ABORTABLE. Producers of `transaction.version` 2 do not send it: Produce adds its partitions by
itself.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
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
class AddPartitionsTopic:
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class AddPartitionsTransaction:
    transactional_id: str = field(string, since=4)
    producer_id: int = field(int64, since=4)
    producer_epoch: int = field(int16, since=4)
    verify_only: bool = field(boolean, since=4)
    topics: list[AddPartitionsTopic] = field(array(AddPartitionsTopic), since=4)


@request(key=24, versions=5, flexible=3)
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    transactions: list[AddPartitionsTransaction] = field(array(AddPartitionsTransaction), since=4)
    v3_and_below_transactional_id: str = field(string, until=3)
    v3_and_below_producer_id: int = field(int64, until=3)
    v3_and_below_producer_epoch: int = field(int16, until=3)
    v3_and_below_topics: list[AddPartitionsTopic] = field(array(AddPartitionsTopic), until=3)


@struct
class AddPartitionsPartitionResult:
    partition_index: int = field(int32)
    partition_error_code: int = field(int16)


@struct
class AddPartitionsTopicResult:
    name: str = field(string)
    results_by_partition: list[AddPartitionsPartitionResult] = field(array(AddPartitionsPartitionResult))


@struct
class AddPartitionsResult:
    transactional_id: str = field(string, since=4)
    topic_results: list[AddPartitionsTopicResult] = field(array(AddPartitionsTopicResult), since=4)


@response(AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsResult] = field(array(AddPartitionsResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsTopicResult] = field(
        array(AddPartitionsTopicResult), until=3
    )
