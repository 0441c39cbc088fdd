"""ListTransactions, key 66: the transactional ids that a broker coordinates.

Version notes: 1 can ask for transactions that have been open for some time, 2 for ids that match a pattern
(KIP-1152), which null and the empty string do not restrict.
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


@request(key=66, versions=2, flexible=0)
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    state_filters: list[str] = field(array(string))
    producer_id_filters: list[int] = field(array(int64))
    duration_filter: int = field(int64, since=1, default=-1)
    transactional_id_pattern: str | None = field(string, since=2, nullable_since=2, default=None)


@struct
class ListedTransaction:
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    transaction_state: str = field(string)


@response(ListTransactionsRequest)
class ListTransactionsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    unknown_state_filters: list[str] = field(array(string))
    transaction_states: list[ListedTransaction] = field(array(ListedTransaction))
