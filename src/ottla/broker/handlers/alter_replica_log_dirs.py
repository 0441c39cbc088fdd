"""AlterReplicaLogDirs, key 34: move partitions to another directory of a broker.

Versions: 0 to 2.
Behaviour: a broker has one directory. A partition that is wanted there is there already; no other is known.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    LogDirPartitionResult,
    LogDirTopicResult,
)


def handle(inquiry: Inquiry, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Say of each partition whether it is where it is wanted."""
    return _answer(request, lambda path, topic, index: _code(inquiry, path, topic, index))


def _code(inquiry: Inquiry, path: str, topic: str, index: int) -> int:
    store = inquiry.broker.store
    if path != str(store.directory.path.absolute()):
        return Code.LOG_DIR_NOT_FOUND
    try:
        store.partition(topic, index)
    except KafkaError as error:
        return error.code
    return Code.NONE


def _answer(
    request: AlterReplicaLogDirsRequest, code: Callable[[str, str, int], int]
) -> AlterReplicaLogDirsResponse:
    results = [
        LogDirTopicResult(
            topic_name=topic.name,
            partitions=[
                LogDirPartitionResult(partition_index=index, error_code=code(wanted.path, topic.name, index))
                for index in topic.partitions
            ],
        )
        for wanted in request.dirs
        for topic in wanted.topics
    ]
    return AlterReplicaLogDirsResponse(results=results)


def refuse(request: AlterReplicaLogDirsRequest, error: Code, _version: int) -> AlterReplicaLogDirsResponse:
    """One error for every partition."""
    return _answer(request, lambda _path, _topic, _index: error)


HANDLER = Handler(handle, refuse)
