"""DeleteTopics, key 20: remove topics.

Version notes: 6 names topics by name or id in `topics`, which replaces `topic_names`.
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
class DeleteTopic:
    name: str | None = field(string, nullable_since=6, default=None)
    topic_id: bytes = field(uuid)


@request(key=20, versions=6, flexible=4)
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    topics: list[DeleteTopic] = field(array(DeleteTopic), since=6)
    topic_names: list[str] = field(array(string), until=5, ignorable=True)
    timeout_ms: int = field(int32)


@struct
class DeletedTopic:
    name: str | None = field(string, nullable_since=6)
    topic_id: bytes = field(uuid, since=6, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)


@response(DeleteTopicsRequest)
class DeleteTopicsResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    responses: list[DeletedTopic] = field(array(DeletedTopic))
