"""WriteTxnMarkers, key 27: end transactions in partitions.

Sent by brokers, and by tools that abort transactions.

Version notes: Kafka 4 dropped 0. 2 says which protocol the transaction has, since its markers are checked
more strictly (KIP-1228).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
)


@struct
class WritableMarkerTopic:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@struct
class WritableMarker:
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    transaction_result: bool = field(boolean)
    topics: list[WritableMarkerTopic] = field(array(WritableMarkerTopic))
    coordinator_epoch: int = field(int32)
    transaction_version: int = field(int8, since=2, ignorable=True)


@request(key=27, versions=2, flexible=1)
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    markers: list[WritableMarker] = field(array(WritableMarker))


@struct
class WrittenMarkerPartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class WrittenMarkerTopic:
    name: str = field(string)
    partitions: list[WrittenMarkerPartition] = field(array(WrittenMarkerPartition))


@struct
class WrittenMarker:
    producer_id: int = field(int64)
    topics: list[WrittenMarkerTopic] = field(array(WrittenMarkerTopic))


@response(WriteTxnMarkersRequest)
class WriteTxnMarkersResponse(Response):
    markers: list[WrittenMarker] = field(array(WrittenMarker))
