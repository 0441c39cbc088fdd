"""AlterShareGroupOffsets, key 91: let an empty share group begin elsewhere (KIP-932).

Version notes: flexible from the start.
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
    uuid,
)


@struct
class AlterShareOffset:
    partition_index: int = field(int32)
    start_offset: int = field(int64)


@struct
class AlterShareOffsetsTopic:
    topic_name: str = field(string)
    partitions: list[AlterShareOffset] = field(array(AlterShareOffset))


@request(key=91, versions=0, flexible=0)
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    group_id: str = field(string)
    topics: list[AlterShareOffsetsTopic] = field(array(AlterShareOffsetsTopic))


@struct
class AlteredShareOffset:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)


@struct
class AlteredShareOffsetsTopic:
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[AlteredShareOffset] = field(array(AlteredShareOffset))


@response(AlterShareGroupOffsetsRequest)
class AlterShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    responses: list[AlteredShareOffsetsTopic] = field(array(AlteredShareOffsetsTopic))
