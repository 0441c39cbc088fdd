"""AddOffsetsToTxn, key 25: a transaction is about to commit offsets of a group.

Version notes: 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE. Producers of
`transaction.version` 2 do not send it: TxnOffsetCommit adds the group by itself.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
)


@request(key=25, versions=4, flexible=3)
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    group_id: str = field(string)


@response(AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
