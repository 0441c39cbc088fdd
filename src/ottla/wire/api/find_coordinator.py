"""FindCoordinator, key 10: which broker coordinates a group or a transactional id.

Version notes: 0 is the consumer-metadata API of Kafka 0.8.2 and knows groups only; `key_type` 1 is a
transactional id, 2 (from 6 on) a share group. 4 asks for several keys and replaces `key` by
`coordinator_keys` and the answer's fields by `coordinators`.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@request(key=10, versions=6, flexible=3)
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    key: str = field(string, until=3)
    key_type: int = field(int8, since=1)
    coordinator_keys: list[str] = field(array(string), since=4)


@struct
class Coordinator:
    key: str = field(string)
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=4, ignorable=True)


@response(FindCoordinatorRequest)
class FindCoordinatorResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16, until=3)
    error_message: str | None = field(string, since=1, until=3, nullable_since=1, ignorable=True)
    node_id: int = field(int32, until=3)
    host: str = field(string, until=3)
    port: int = field(int32, until=3)
    coordinators: list[Coordinator] = field(array(Coordinator), since=4)
