"""CreateTopics, key 19: make topics, with counts or with an explicit assignment.

Version notes: 1 can merely check. From 4 on -1 stands for the broker's default of partitions or replicas.
5 returns what was made, 7 also its topic id.
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
    request,
    response,
    string,
    struct,
    uuid,
)


@struct
class CreateTopicAssignment:
    partition_index: int = field(int32)
    broker_ids: list[int] = field(array(int32))


@struct
class CreateTopicConfig:
    name: str = field(string)
    value: str | None = field(string, nullable_since=0)


@struct
class CreateTopic:
    name: str = field(string)
    num_partitions: int = field(int32)
    replication_factor: int = field(int16)
    assignments: list[CreateTopicAssignment] = field(array(CreateTopicAssignment))
    configs: list[CreateTopicConfig] = field(array(CreateTopicConfig))


@request(key=19, versions=7, flexible=5)
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    topics: list[CreateTopic] = field(array(CreateTopic))
    timeout_ms: int = field(int32, default=60000)
    validate_only: bool = field(boolean, since=1)


@struct
class CreatedTopicConfig:
    name: str = field(string)
    value: str | None = field(string, nullable_since=5)
    read_only: bool = field(boolean)
    config_source: int = field(int8, default=-1, ignorable=True)
    is_sensitive: bool = field(boolean)


@struct
class CreatedTopic:
    name: str = field(string)
    topic_id: bytes = field(uuid, since=7, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, since=1, nullable_since=1, ignorable=True)
    num_partitions: int = field(int32, since=5, default=-1, ignorable=True)
    replication_factor: int = field(int16, since=5, default=-1, ignorable=True)
    configs: list[CreatedTopicConfig] | None = field(
        array(CreatedTopicConfig), since=5, nullable_since=5, ignorable=True
    )
    topic_config_error_code: int = field(int16, since=5, tag=0, ignorable=True)


@response(CreateTopicsRequest)
class CreateTopicsResponse(Response):
    throttle_time_ms: int = field(int32, since=2, ignorable=True)
    topics: list[CreatedTopic] = field(array(CreatedTopic))
