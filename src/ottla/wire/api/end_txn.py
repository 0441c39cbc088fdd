"""EndTxn, key 26: commit or abort a transaction.

Version notes: 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE. 5 gives the producer the id and epoch of
its next transaction (KIP-890, `transaction.version` 2).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    boolean,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
)


@request(key=26, versions=5, flexible=3)
class EndTxnRequest(Request["EndTxnResponse"]):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    committed: bool = field(boolean)


@response(EndTxnRequest)
class EndTxnResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, since=5, default=-1, ignorable=True)
    producer_epoch: int = field(int16, since=5, default=-1, ignorable=True)
