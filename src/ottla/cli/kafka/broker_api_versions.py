"""kafka-broker-api-versions: which APIs and versions each broker serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cli.kafka.api_names import API_NAMES
from ottla.cli.kafka.broker_links import linked
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import require, run_tool, show, tool_of
from ottla.cli.kafka.usage.broker_api_versions import USAGE
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import KafkaError
from ottla.model.version import VERSION
from ottla.wire.api.api_versions import ApiVersionsRequest

Ranges = Mapping[int, tuple[int, int]]


def run(arguments: Sequence[str]) -> int:
    """Print the APIs of every broker."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server")
    with linked(admin_properties(options)) as (pool, brokers):
        for node in brokers:
            who = ApiVersionsRequest(client_software_name="ottla", client_software_version=VERSION)
            answer = pool.to(node.broker_id).call(who)
            if answer.error_code:
                raise KafkaError(answer.error_code, f"{node.host}:{node.port}: ApiVersions")
            ranges = {
                api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.api_keys
            }
            show(broker_text(node, ranges))
    return 0


def broker_text(node: BrokerNode, ranges: Ranges) -> str:
    """The text for a broker: its APIs, those that Kafka 4 knows and others."""
    keys = sorted({*API_NAMES, *ranges})
    lines = ",\n".join(f"\t{_call_text(key, ranges.get(key))}" for key in keys)
    rack = node.rack or "null"
    head = f"{node.host}:{node.port} (id: {node.broker_id} rack: {rack} isFenced: false)"
    return f"{head} -> (\n{lines}\n)"


def _call_text(key: int, version_range: tuple[int, int] | None) -> str:
    name, newest = API_NAMES.get(key, ("UNKNOWN", -1))
    if version_range is None:
        return f"{name}({key}): UNSUPPORTED"
    low, high = version_range
    versions = str(low) if low == high else f"{low} to {high}"
    if key not in API_NAMES:
        return f"{name}({key}): {versions}"
    usable = f"usable: {min(high, newest)}" if low <= newest else "unusable: node too new"
    return f"{name}({key}): {versions} [{usable}]"


TOOL = tool_of(USAGE, _act)
