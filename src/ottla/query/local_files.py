"""The data directories of brokers that run on this machine.

A file is read instead of a broker only if it is the same data: the directory that the broker names exists
here, and its `meta.properties` has the cluster's id. A broker in a container names a directory that is not
here, or another cluster's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_config import ADMIN_PROPERTIES, AdminConfig
from ottla.admin.log_dirs import log_dirs
from ottla.client.conversation import completed
from ottla.client.pool import ThreadDriver
from ottla.consumer.partition.partition_config import PARTITION_PROPERTIES
from ottla.log.checkpoints import META, read_properties
from ottla.log.file_names import partition_directory
from ottla.model.errors import OttlaError
from ottla.model.property_table import snake
from ottla.model.topic_partition import TopicAndPartition

_ADMIN_NAMES = {name for row in ADMIN_PROPERTIES for name in row.names}
_ADMIN_ONLY = _ADMIN_NAMES - {name for row in PARTITION_PROPERTIES for name in row.names}


def admin_properties(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a consumer that Admin knows too."""
    return {name: value for name, value in properties.items() if snake(name) in _ADMIN_NAMES}


def reader_properties(properties: Mapping[str, object]) -> dict[str, object]:
    """The settings without those that only Admin knows, such as zookeeper.connect."""
    return {name: value for name, value in properties.items() if snake(name) not in _ADMIN_ONLY}


def partition_directories(properties: Mapping[str, object], topic: str) -> dict[TopicAndPartition, Path]:
    """The directories of a topic's partitions that are on this machine, of the leaders only.

    Returns {} if no broker runs here, or if the brokers do not say.
    """
    return completed(_directories(properties, topic))


async def _directories(properties: Mapping[str, object], topic: str) -> dict[TopicAndPartition, Path]:
    access = ClusterAccess(AdminConfig.from_properties(admin_properties(properties)), ThreadDriver())
    try:
        view = await access.view([topic], "finding local files")
        here = {number for number, node in view.brokers.items() if _is_loopback(node.host)}
        if not here or view.cluster_id is None or topic not in view.topics:
            return {}
        leaders = {part.index: part.leader for part in view.topics[topic].partitions}
        directories: dict[TopicAndPartition, Path] = {}
        for directory in await log_dirs(access, [TopicAndPartition(topic, number) for number in leaders]):
            root = Path(directory.path)
            if directory.broker_id not in here or not _is_of(root, view.cluster_id):
                continue
            for topic_partition in directory.sizes:
                if leaders.get(topic_partition.partition) == directory.broker_id:
                    directories[topic_partition] = partition_directory(root, *topic_partition)
        return {part: path for part, path in directories.items() if path.is_dir()}
    except OttlaError:
        return {}  # then the records are fetched from brokers, or they say why not
    finally:
        await access.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_of(root: Path, cluster_id: str) -> bool:
    try:
        return read_properties(root / META).get("cluster.id") == cluster_id
    except (OSError, ValueError, OttlaError):
        return False
