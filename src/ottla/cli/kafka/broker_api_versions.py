"""kafka-broker-api-versions: which calls each broker answers, and in which versions."""

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
    """Print them."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server")
    with linked(admin_properties(options)) as (pool, brokers):
        for node in brokers:
            who = ApiVersionsRequest(client_software_name="ottla", client_software_version=VERSION)
            answer = pool.to(node.broker_id).call(who)
            if answer.error_code:
                raise KafkaError(answer.error_code, f"{node.host}:{node.port}: ApiVersions")
            told = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
            show(broker_text(node, told))
    return 0


def broker_text(node: BrokerNode, told: Ranges) -> str:
    """A broker and its calls, those that Kafka 4 knows and those beyond them."""
    keys = sorted({*API_NAMES, *told})
    lines = ",\n".join(f"\t{_call_text(key, told.get(key))}" for key in keys)
    rack = node.rack or "null"
    head = f"{node.host}:{node.port} (id: {node.broker_id} rack: {rack} isFenced: false)"
    return f"{head} -> (\n{lines}\n)"


def _call_text(key: int, told: tuple[int, int] | None) -> str:
    name, newest = API_NAMES.get(key, ("UNKNOWN", -1))
    if told is None:
        return f"{name}({key}): UNSUPPORTED"
    low, high = told
    versions = str(low) if low == high else f"{low} to {high}"
    if key not in API_NAMES:
        return f"{name}({key}): {versions}"
    usable = f"usable: {min(high, newest)}" if low <= newest else "unusable: node too new"
    return f"{name}({key}): {versions} [{usable}]"


TOOL = tool_of(USAGE, _act)
