"""DeleteShareGroupOffsets, key 92: forget topics of an empty share group (KIP-932).

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
    request,
    response,
    string,
    struct,
    uuid,
)


@struct
class DeleteShareOffsetsTopic:
    topic_name: str = field(string)


@request(key=92, versions=0, flexible=0)
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    group_id: str = field(string)
    topics: list[DeleteShareOffsetsTopic] = field(array(DeleteShareOffsetsTopic))


@struct
class DeletedShareOffsetsTopic:
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)


@response(DeleteShareGroupOffsetsRequest)
class DeleteShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    responses: list[DeletedShareOffsetsTopic] = field(array(DeletedShareOffsetsTopic))
