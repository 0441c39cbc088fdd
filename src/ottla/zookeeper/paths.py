"""Every znode path that Kafka's layout knows, as a function. Nothing else in ottla puts a path together.

The paths are those of Kafka 0.8 … 3.9 below the optional chroot of `zookeeper.connect`. A path never
contains the chroot: `ConnectString.chroot` is added by the session, once, where requests leave.

    parse_connect("a:2181,b:2181/kafka")    →  hosts a:2181 and b:2181, chroot /kafka
    partition_state("orders", 3)            →  /brokers/topics/orders/partitions/3/state
    owner("billing", "orders", 3)           →  /consumers/billing/owners/orders/3

Names are checked here since a name with a slash would become another node's path. Topic and group names
follow Kafka's alphabet; ids that Kafka takes as they are follow ZooKeeper's rule for one path component.
All errors are ConfigError: a wrong name comes from a setting or an argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.model.errors import ConfigError

TOPIC_CHARS_MAX = 255
"""The limit of 0.8.x; its topics can still be read."""

PARTITION_MAX = 2**31 - 1

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"
CONFIG_TOPICS = "/config/topics"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"

PERSISTENT_ROOTS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    CONFIG_TOPICS,
    "/config/clients",
)
"""The nodes that a 0.9 broker creates when it starts, so that they can be watched."""

LATER_PERSISTENT_ROOTS = ("/config/users", "/config/brokers", LOG_DIR_EVENTS)
"""The nodes that newer brokers (0.10.1, 1.0) create in addition."""

CONFIG_CHANGE_PREFIX = "config_change_"

_KAFKA_NAME = re.compile(r"[a-zA-Z0-9._-]+")
# ZooKeeper refuses control characters, surrogates and the specials at the end of the basic plane.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


@dataclass(frozen=True)
class ConnectString:
    """`zookeeper.connect` taken apart: `host:port` of each server, and the chroot ("" or "/path")."""

    hosts: tuple[str, ...]
    chroot: str = ""

    def __str__(self) -> str:
        return ",".join(self.hosts) + self.chroot


def parse_connect(text: str) -> ConnectString:
    """Take `h1:2181,h2:2181/chroot` apart; a missing port is 2181, and "/" is no chroot."""
    servers, slash, rest = text.strip().partition("/")
    chroot = checked_path("/" + rest.rstrip("/")) if slash and rest.strip("/") else ""
    hosts = tuple(_host(server.strip(), text) for server in servers.split(","))
    return ConnectString(hosts, chroot)


def _host(server: str, text: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%a-z]+\]|[^\s:\[\]@]+)(?::([0-9]{1,5}))?", server)
    if match is None or not 0 < int(match[2] or 2181) < 65536:
        raise ConfigError(
            f"zookeeper.connect {text!r}: {server!r} is not host:port; write host1:2181,host2:2181/chroot"
        )
    return f"{match[1]}:{match[2] or 2181}"


def checked_path(path: str) -> str:
    """Return `path` if ZooKeeper accepts it. Raises ConfigError."""
    if path == "/":
        return path
    if not path.startswith("/"):
        raise ConfigError(f"znode path {path!r} does not begin with '/'")
    for name in path[1:].split("/"):
        _component(name, f"znode path {path!r}")
    return path


def _component(name: str, what: str) -> str:
    if name in {"", ".", ".."} or "/" in name or _FORBIDDEN.search(name):
        raise ConfigError(f"{what}: {name!r} cannot be the name of a znode")
    return name


def with_chroot(chroot: str, path: str) -> str:
    """Return the path as the server knows it."""
    return (chroot if path == "/" else chroot + path) or "/"


def without_chroot(chroot: str, path: str) -> str:
    """Return the path without the chroot, as all other code knows it."""
    return path.removeprefix(chroot) or "/"


def parent(path: str) -> str:
    """Return the path of the parent; the root is its own parent."""
    return path.rpartition("/")[0] or "/"


def child(path: str, name: str) -> str:
    """The node `name` below `path`."""
    return f"{'' if path == '/' else path}/{_component(name, 'child of ' + path)}"


def leaf(path: str) -> str:
    """The last component."""
    return path.rpartition("/")[2]


def lineage(path: str) -> tuple[str, ...]:
    """Return all nodes from below the root to `path`, in the order of their creation."""
    names = checked_path(path)[1:].split("/") if path != "/" else []
    return tuple("/" + "/".join(names[: depth + 1]) for depth in range(len(names)))


def checked_topic(name: str) -> str:
    """Return `name` if Kafka allows it as the name of a topic. Raises ConfigError."""
    if name in {".", ".."} or len(name) > TOPIC_CHARS_MAX or _KAFKA_NAME.fullmatch(name) is None:
        raise ConfigError(
            f"topic {name[:300]!r}: a topic has 1 to {TOPIC_CHARS_MAX} characters of a-z A-Z 0-9 . _ - "
            "and is not '.' or '..'"
        )
    return name


def checked_group(group_id: str) -> str:
    """Return `group_id` if the classic consumer allows it. Raises ConfigError."""
    if group_id in {".", ".."} or _KAFKA_NAME.fullmatch(group_id) is None:
        raise ConfigError(f"group.id {group_id[:300]!r}: use a-z A-Z 0-9 . _ - and at least one of them")
    return group_id


def _number(value: int, what: str) -> str:
    if not 0 <= value <= PARTITION_MAX:
        raise ConfigError(f"{what} {value} is outside 0 … {PARTITION_MAX}")
    return str(value)


def broker(broker_id: int) -> str:
    """Registration of a broker; ephemeral."""
    return f"{BROKER_IDS}/{_number(broker_id, 'broker id')}"


def topic(name: str) -> str:
    """Replica assignment of a topic."""
    return f"{TOPICS}/{checked_topic(name)}"


def partitions(topic_name: str) -> str:
    """Parent of a topic's partitions."""
    return f"{topic(topic_name)}/partitions"


def partition(topic_name: str, partition_id: int) -> str:
    """Parent of a partition's state."""
    return f"{partitions(topic_name)}/{_number(partition_id, 'partition')}"


def partition_state(topic_name: str, partition_id: int) -> str:
    """Leader and in-sync replicas of a partition."""
    return f"{partition(topic_name, partition_id)}/state"


def topic_config(name: str) -> str:
    """Configs of a topic."""
    return f"{CONFIG_TOPICS}/{checked_topic(name)}"


def entity_config(entity_type: str, name: str) -> str:
    """Configs of `topics`, `clients`, `users` or `brokers`; `name` may be Kafka's `<default>`."""
    if entity_type not in {"topics", "clients", "users", "brokers"}:
        raise ConfigError(f"entity type {entity_type!r} is none of topics, clients, users, brokers")
    return f"/config/{entity_type}/{_component(name, entity_type)}"


def config_change() -> str:
    """Beginning of the path of a config change; sequential."""
    return f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}"


def delete_topic(name: str) -> str:
    """Marker of a topic that shall be deleted."""
    return f"{DELETE_TOPICS}/{checked_topic(name)}"


def group(group_id: str) -> str:
    """Everything about a consumer group."""
    return f"{CONSUMERS}/{checked_group(group_id)}"


def consumer_ids(group_id: str) -> str:
    """Parent of the registrations of a group's members."""
    return f"{group(group_id)}/ids"


def consumer(group_id: str, consumer_id: str) -> str:
    """Registration of one member, by its consumerIdString; ephemeral."""
    return f"{consumer_ids(group_id)}/{_component(consumer_id, 'consumer id')}"


def owners(group_id: str) -> str:
    """Parent of the owned topics of a group."""
    return f"{group(group_id)}/owners"


def topic_owners(group_id: str, topic_name: str) -> str:
    """Parent of the owners of a topic's partitions."""
    return f"{owners(group_id)}/{checked_topic(topic_name)}"


def owner(group_id: str, topic_name: str, partition_id: int) -> str:
    """Which thread of which member owns a partition; ephemeral."""
    return f"{topic_owners(group_id, topic_name)}/{_number(partition_id, 'partition')}"


def stopped(group_id: str) -> str:
    """Parent of the topics of which a member owns partitions that it cannot read. Only ottla writes it."""
    return f"{group(group_id)}/stopped"


def stopped_partition(group_id: str, topic_name: str, partition_id: int) -> str:
    """Why a partition is owned and cannot be read; ephemeral."""
    return f"{stopped(group_id)}/{checked_topic(topic_name)}/{_number(partition_id, 'partition')}"


def offsets(group_id: str) -> str:
    """Parent of the topics that a group has offsets for."""
    return f"{group(group_id)}/offsets"


def topic_offsets(group_id: str, topic_name: str) -> str:
    """Parent of the offsets of a topic's partitions."""
    return f"{offsets(group_id)}/{checked_topic(topic_name)}"


def offset(group_id: str, topic_name: str, partition_id: int) -> str:
    """The next offset that a group reads from a partition."""
    return f"{topic_offsets(group_id, topic_name)}/{_number(partition_id, 'partition')}"
