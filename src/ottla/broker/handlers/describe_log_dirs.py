"""DescribeLogDirs, key 35: where partitions are stored and how large they are.

Versions: 0 to 5. 4 adds the size of the volume and its free space, 5 whether the directory is closed for new
partitions: it never is.
Behaviour: there is one directory, which all brokers of the process share; each reports the partitions that
it may lead. A damaged log is left out. Nothing is ever moved or behind, so there is no lag.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.partition import Partition
from ottla.model.error_codes import Code
from ottla.wire.api.describe_log_dirs import (
    DescribedLogDir,
    DescribedLogDirPartition,
    DescribedLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


def handle(inquiry: Inquiry, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the directory, with the partitions that the request names."""
    import shutil  # here: a start does not need it

    path = inquiry.broker.store.directory.path.absolute()
    try:
        space = shutil.disk_usage(path)
    except OSError:
        return DescribeLogDirsResponse(
            results=[DescribedLogDir(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=str(path))]
        )
    wanted = _wanted(inquiry, request)
    logs_of_topics = {name: _described(inquiry, partitions) for name, partitions in wanted.items()}
    return DescribeLogDirsResponse(
        results=[
            DescribedLogDir(
                log_dir=str(path),
                topics=[
                    DescribedLogDirTopic(name=name, partitions=logs)
                    for name, logs in logs_of_topics.items()
                    if logs
                ],
                total_bytes=space.total,
                usable_bytes=space.free,
            )
        ]
    )


def _wanted(inquiry: Inquiry, request: DescribeLogDirsRequest) -> dict[str, list[Partition]]:
    """Return the partitions that the request names and that exist, by topic."""
    known = inquiry.broker.store.partitions
    if request.topics is None:
        return known
    wanted: dict[str, list[Partition]] = {}
    for topic in request.topics:
        indexes = set(topic.partitions)
        partitions = [partition for partition in known.get(topic.topic, ()) if partition.index in indexes]
        wanted.setdefault(topic.topic, []).extend(partitions)
    return wanted


def _described(inquiry: Inquiry, partitions: list[Partition]) -> list[DescribedLogDirPartition]:
    return [
        DescribedLogDirPartition(partition_index=partition.index, partition_size=partition.log.size)
        for partition in partitions
        if partition.log is not None and inquiry.broker.broker_id in partition.replicas
    ]


def refuse(_request: DescribeLogDirsRequest, error: Code, _version: int) -> DescribeLogDirsResponse:
    """One error for the whole request; versions below 3 cannot carry it and get an empty answer."""
    return DescribeLogDirsResponse(error_code=error)


HANDLER = Handler(handle, refuse)
