"""InitProducerId, key 22: an id and epoch for an idempotent or transactional producer.

Version notes: 3 lets a producer continue with the id it has. 6 prepares two-phase commit (KIP-939) and is
not stable in Kafka 4.4: its brokers do not list it.
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


@request(key=22, versions=6, flexible=2)
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    transactional_id: str | None = field(string, nullable_since=0)
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, since=3, default=-1)
    producer_epoch: int = field(int16, since=3, default=-1)
    enable2_pc: bool = field(boolean, since=6)
    keep_prepared_txn: bool = field(boolean, since=6)


@response(InitProducerIdRequest)
class InitProducerIdResponse(Response):
    throttle_time_ms: int = field(int32, ignorable=True)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)
    ongoing_txn_producer_id: int = field(int64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(int16, since=6, default=-1)
