"""What the broker serves: the versions of each API, and its handler, which is imported by the first call."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import cache
from importlib import import_module

import ottla.broker.handlers
from ottla.broker.serving.handler import Handler
from ottla.wire.registry import MODULES
from ottla.wire.version_range import VersionRange

SERVED: dict[int, VersionRange] = {
    0: VersionRange(0, 13),  # Produce
    1: VersionRange(0, 18),  # Fetch
    2: VersionRange(0, 11),  # ListOffsets
    3: VersionRange(0, 13),  # Metadata
    8: VersionRange(0, 10),  # OffsetCommit
    9: VersionRange(0, 10),  # OffsetFetch
    10: VersionRange(0, 6),  # FindCoordinator
    11: VersionRange(0, 9),  # JoinGroup
    12: VersionRange(0, 4),  # Heartbeat
    13: VersionRange(0, 5),  # LeaveGroup
    14: VersionRange(0, 5),  # SyncGroup
    15: VersionRange(0, 6),  # DescribeGroups
    16: VersionRange(0, 5),  # ListGroups
    17: VersionRange(0, 1),  # SaslHandshake
    18: VersionRange(0, 5),  # ApiVersions
    19: VersionRange(0, 7),  # CreateTopics
    20: VersionRange(0, 6),  # DeleteTopics
    21: VersionRange(0, 2),  # DeleteRecords
    22: VersionRange(0, 5),  # InitProducerId
    23: VersionRange(0, 4),  # OffsetForLeaderEpoch
    24: VersionRange(0, 5),  # AddPartitionsToTxn
    25: VersionRange(0, 4),  # AddOffsetsToTxn
    26: VersionRange(0, 5),  # EndTxn
    27: VersionRange(0, 2),  # WriteTxnMarkers
    28: VersionRange(0, 6),  # TxnOffsetCommit
    29: VersionRange(1, 3),  # DescribeAcls
    30: VersionRange(1, 3),  # CreateAcls
    31: VersionRange(1, 3),  # DeleteAcls
    32: VersionRange(0, 4),  # DescribeConfigs
    33: VersionRange(0, 2),  # AlterConfigs
    34: VersionRange(0, 2),  # AlterReplicaLogDirs
    35: VersionRange(0, 5),  # DescribeLogDirs
    36: VersionRange(0, 2),  # SaslAuthenticate
    37: VersionRange(0, 3),  # CreatePartitions
    42: VersionRange(0, 3),  # DeleteGroups
    43: VersionRange(0, 2),  # ElectLeaders
    44: VersionRange(0, 1),  # IncrementalAlterConfigs
    45: VersionRange(0, 1),  # AlterPartitionReassignments
    46: VersionRange(0, 0),  # ListPartitionReassignments
    47: VersionRange(0, 0),  # OffsetDelete
    48: VersionRange(0, 1),  # DescribeClientQuotas
    49: VersionRange(0, 1),  # AlterClientQuotas
    50: VersionRange(0, 0),  # DescribeUserScramCredentials
    51: VersionRange(0, 0),  # AlterUserScramCredentials
    55: VersionRange(0, 2),  # DescribeQuorum
    57: VersionRange(0, 2),  # UpdateFeatures
    60: VersionRange(0, 2),  # DescribeCluster
    61: VersionRange(0, 0),  # DescribeProducers
    64: VersionRange(0, 0),  # UnregisterBroker
    65: VersionRange(0, 0),  # DescribeTransactions
    66: VersionRange(0, 2),  # ListTransactions
    68: VersionRange(0, 1),  # ConsumerGroupHeartbeat
    69: VersionRange(0, 1),  # ConsumerGroupDescribe
    71: VersionRange(0, 0),  # GetTelemetrySubscriptions
    72: VersionRange(0, 0),  # PushTelemetry
    74: VersionRange(0, 1),  # ListConfigResources
    75: VersionRange(0, 0),  # DescribeTopicPartitions
    76: VersionRange(1, 1),  # ShareGroupHeartbeat
    77: VersionRange(1, 1),  # ShareGroupDescribe
    78: VersionRange(1, 2),  # ShareFetch
    79: VersionRange(1, 2),  # ShareAcknowledge
    90: VersionRange(0, 1),  # DescribeShareGroupOffsets
    91: VersionRange(0, 0),  # AlterShareGroupOffsets
    92: VersionRange(0, 0),  # DeleteShareGroupOffsets
}
"""The versions that are served, by API key. ApiVersions advertises them."""

NEED_ZOOKEEPER = {8: 0, 9: 0}
"""Versions whose offsets are in ZooKeeper: without it a broker serves only later ones."""


def served_versions(*, zookeeper: bool) -> Mapping[int, VersionRange]:
    """Return the versions that work, by API key."""
    if zookeeper:
        return SERVED
    return SERVED | {
        key: VersionRange(version + 1, SERVED[key].newest) for key, version in NEED_ZOOKEEPER.items()
    }


_OTHERS = (
    "ottla.broker.security.sasl_session",
    "ottla.broker.security.tls_contexts",
    "ottla.broker.security.token_login",
    "ottla.broker.serving.login_gate",
    "ottla.broker.serving.guard",
    "ottla.log.compaction",
)
"""Modules that no handler imports, and that are not loaded before they are needed."""


@cache
def handler(key: int) -> Handler:
    """Return the handler of an API: `HANDLER` of the module that is called like the API's in `wire.api`."""
    declared: Handler = import_module(f"{ottla.broker.handlers.__name__}.{MODULES[key]}").HANDLER
    return declared


def all_loaded() -> Generator[None, None, None]:
    """Import the handlers that nobody has called, with their messages: one at each step."""
    for key in SERVED:
        handler(key)
        yield
    for name in _OTHERS:
        import_module(name)
        yield
