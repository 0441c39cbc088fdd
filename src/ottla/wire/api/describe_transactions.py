"""DescribeTransactions, key 65: the state of transactional ids, and the partitions of their open
transactions.
"""

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


@request(key=65, versions=0, flexible=0)
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    transactional_ids: list[str] = field(array(string))


@struct
class TransactionTopic:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class DescribedTransaction:
    error_code: int = field(int16)
    transactional_id: str = field(string)
    transaction_state: str = field(string)
    transaction_timeout_ms: int = field(int32)
    transaction_start_time_ms: int = field(int64)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    topics: list[TransactionTopic] = field(array(TransactionTopic))


@response(DescribeTransactionsRequest)
class DescribeTransactionsResponse(Response):
    throttle_time_ms: int = field(int32)
    transaction_states: list[DescribedTransaction] = field(array(DescribedTransaction))
