"""Every API by its key, for a server that reads the key of each request from the wire.

A module is imported when its API is first asked for: a client names the types it needs and never pays for the
others, and a broker starts without those that nobody has called.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType

import ottla.wire.api
from ottla.model.errors import RemoteProtocolError
from ottla.wire.schema import Api, Request

MODULES: Mapping[int, str] = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    55: "describe_quorum",
    57: "update_features",
    60: "describe_cluster",
    61: "describe_producers",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    71: "get_telemetry_subscriptions",
    72: "push_telemetry",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
}
"""The module of `ottla.wire.api` that declares each API, by its key."""


@cache
def api(key: int) -> Api:
    """Return the API of `key`. Raises RemoteProtocolError for an unknown key."""
    if key not in MODULES:
        raise RemoteProtocolError(f"unknown API key {key}")
    (only,) = declared(import_module(f"{ottla.wire.api.__name__}.{MODULES[key]}"))
    return only


@cache
def apis() -> Mapping[int, Api]:
    """Return all APIs, in the order of their keys."""
    return MappingProxyType({key: api(key) for key in MODULES})


def declared(module: ModuleType) -> list[Api]:
    """The APIs that `module` itself declares."""
    kinds = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Request)
    ]
    return [kind.API for kind in kinds if kind.__module__ == module.__name__]
