"""DescribeLogDirs, key 35: where partitions are stored and how large they are.

Versions: 0 to 4. 4 tells how large the volume is and what is free of it.
Behaviour: there is one directory, which all brokers of the process share; each tells of the partitions that
it may lead. A damaged log is left out. Nothing is ever moved or behind, so there is no lag.
"""

from __future__ import annotations

import shutil

from ottla.broker.partition import Partition
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.describe_log_dirs import (
    DescribedLogDir,
    DescribedLogDirPartition,
    DescribedLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the directory, with the partitions that are asked for."""
    path = inquiry.cluster.directory.path.absolute()
    try:
        space = shutil.disk_usage(path)
    except OSError:
        return DescribeLogDirsResponse(
            results=[DescribedLogDir(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=str(path))]
        )
    asked = _asked(inquiry, request)
    found = {name: _described(inquiry, partitions) for name, partitions in asked.items()}
    return DescribeLogDirsResponse(
        results=[
            DescribedLogDir(
                log_dir=str(path),
                topics=[
                    DescribedLogDirTopic(name=name, partitions=logs) for name, logs in found.items() if logs
                ],
                total_bytes=space.total,
                usable_bytes=space.free,
            )
        ]
    )


def _asked(inquiry: Inquiry, request: DescribeLogDirsRequest) -> dict[str, list[Partition]]:
    """The partitions that are asked for and exist, by topic."""
    known = inquiry.cluster.partitions
    if request.topics is None:
        return known
    found: dict[str, list[Partition]] = {}
    for topic in request.topics:
        wanted = set(topic.partitions)
        partitions = [one for one in known.get(topic.topic, ()) if one.index in wanted]
        found.setdefault(topic.topic, []).extend(partitions)
    return found


def _described(inquiry: Inquiry, partitions: list[Partition]) -> list[DescribedLogDirPartition]:
    return [
        DescribedLogDirPartition(partition_index=one.index, partition_size=one.log.size)
        for one in partitions
        if one.log is not None and inquiry.node.broker_id in one.replicas
    ]


def refuse(_request: DescribeLogDirsRequest, error: Code, _version: int) -> DescribeLogDirsResponse:
    """One error for the whole request; versions below 3 have no place for it and get an empty answer."""
    return DescribeLogDirsResponse(error_code=error)


HANDLER = Handler(DescribeLogDirsRequest, VersionRange(0, 4), handle, refuse)
