"""Offsets of version 0: OffsetCommit and OffsetFetch that keep them in ZooKeeper, for clients of 0.8.

    /consumers/GROUP/offsets/TOPIC/PARTITION     the offset as decimal text, no metadata

Answers are those of Kafka 0.9: the topic must exist, the partition need not; an offset that was never stored
is -1 with UNKNOWN_TOPIC_OR_PARTITION. While ZooKeeper is away Kafka waits for it; here the client is told to
try again (COORDINATOR_NOT_AVAILABLE), since it would not wait that long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ottla.broker.storage.topic_store import TopicStore
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.java_hashes import utf16_units
from ottla.wire.api.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from ottla.wire.api.offset_fetch import (
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)
from ottla.wire.schema import Response
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.znode_json import decode_integer
from ottla.zookeeper.zookeeper_errors import (
    SessionClosed,
    SessionLost,
    ZooKeeperConnectionLost,
    ZooKeeperError,
)

_Answer = TypeVar("_Answer", bound=Response)

NO_OFFSET = -1
THREADS = 4
"""Calls that wait for ZooKeeper at the same time; a connection has one at most."""


class OffsetsOfVersion0:
    """`commit` and `fetch` are called on the loop, and call `reply` there."""

    def __init__(self, session: ZooKeeperSession, store: TopicStore, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._store = store
        self._loop = loop
        self._executor = ThreadPoolExecutor(THREADS, "ottla-zookeeper-offsets")

    def commit(self, request: OffsetCommitRequest, reply: Callable[[OffsetCommitResponse], None]) -> None:
        """Store offsets, then call `reply`."""
        existing = {topic.name for topic in request.topics if topic.name in self._store.partitions}
        length_max = self._store.config.groups.metadata_length_max
        self._work(reply, lambda: commit(self._session, request, existing, length_max))

    def fetch(self, request: OffsetFetchRequest, reply: Callable[[OffsetFetchResponse], None]) -> None:
        """Read offsets, then call `reply`."""
        existing = {topic.name for topic in request.topics or () if topic.name in self._store.partitions}
        self._work(reply, lambda: fetch(self._session, request, existing))

    def close(self) -> None:
        """Begin nothing any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _work(self, reply: Callable[[_Answer], None], work: Callable[[], _Answer]) -> None:
        def done(future: asyncio.Future[_Answer]) -> None:
            if not future.cancelled():
                reply(future.result())

        self._loop.run_in_executor(self._executor, work).add_done_callback(done)


def commit(
    session: ZooKeeperSession, request: OffsetCommitRequest, known: set[str], length_max: int
) -> OffsetCommitResponse:
    """Store what can be stored; `known` are the topics that exist."""

    def stored(topic: str, partition: OffsetCommitPartition) -> Code:
        if topic not in known:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        if len(utf16_units(partition.committed_metadata or "")) > length_max:
            return Code.OFFSET_METADATA_TOO_LARGE
        try:
            path = paths.offset(request.group_id, topic, partition.partition_index)
            # As text, whatever it is: Kafka stores negative ones too.
            recipes.write_persistent(session, path, str(partition.committed_offset).encode())
        except (ConfigError, ZooKeeperError) as error:
            return _code(error, request.group_id)
        return Code.NONE

    return OffsetCommitResponse(
        topics=[
            OffsetCommitTopicResponse(
                name=topic.name,
                partitions=[
                    OffsetCommitPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=stored(topic.name, partition),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch(session: ZooKeeperSession, request: OffsetFetchRequest, known: set[str]) -> OffsetFetchResponse:
    """Read what is there; `known` are the topics that exist."""

    def stored(topic: str, partition: int) -> tuple[int, Code]:
        if topic not in known:
            return NO_OFFSET, Code.UNKNOWN_TOPIC_OR_PARTITION
        try:
            path = paths.offset(request.group_id, topic, partition)
            znode = recipes.read_if_present(session, path)
            if znode is None:
                return NO_OFFSET, Code.UNKNOWN_TOPIC_OR_PARTITION
            return decode_integer(path, znode.data), Code.NONE
        except (ConfigError, ZooKeeperError) as error:
            return NO_OFFSET, _code(error, request.group_id)

    def answered(topic: str, partition: int) -> OffsetFetchPartitionResponse:
        offset, error = stored(topic, partition)
        return OffsetFetchPartitionResponse(
            partition_index=partition, committed_offset=offset, metadata="", error_code=error
        )

    return OffsetFetchResponse(
        topics=[
            OffsetFetchTopicResponse(
                name=topic.name,
                partitions=[answered(topic.name, partition) for partition in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ]
    )


def _code(error: ConfigError | ZooKeeperError, group_id: str) -> Code:
    if isinstance(error, ZooKeeperConnectionLost | SessionLost | SessionClosed):
        return Code.COORDINATOR_NOT_AVAILABLE
    if not isinstance(error, ConfigError):
        return Code.UNKNOWN_SERVER_ERROR
    try:
        paths.checked_group(group_id)
    except ConfigError:
        return Code.INVALID_GROUP_ID
    return Code.UNKNOWN_TOPIC_OR_PARTITION  # the partition: topics that exist have names that are right
