"""kafka-run-class: runs a tool by the name of its Java class, in any package that it ever had."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ottla.cli.kafka.tool import show
from ottla.model.did_you_mean import did_you_mean

CLASSES = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker_api_versions",
    "ConfigCommand": "configs",
    "ConsoleConsumer": "console_consumer",
    "ConsoleProducer": "console_producer",
    "ConsumerGroupCommand": "consumer_groups",
    "ConsumerOffsetChecker": "offset_checker",
    "ConsumerPerformance": "consumer_perf_test",
    "DeleteRecordsCommand": "delete_records",
    "DumpLogSegments": "dump_log",
    "ExportZkOffsets": "zookeeper_offsets:export",
    "GetOffsetShell": "get_offsets",
    "ImportZkOffsets": "zookeeper_offsets:load",
    "MirrorMaker": "mirror_maker",
    "ProducerPerformance": "producer_perf_test",
    "ShareGroupCommand": "share_groups",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "UpdateOffsetsInZK": "zookeeper_offsets:update",
    "VerifiableConsumer": "verifiable_consumer",
    "VerifiableProducer": "verifiable_producer",
    "VerifyConsumerRebalance": "verify_rebalance",
}
"""Class names without their packages → our modules, and the function if it is not `run`."""


def run(arguments: Sequence[str]) -> int:
    """Run the class with the arguments that follow its name."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        lines = ["usage: kafka-run-class CLASS [options]", "", "The classes, with or without a package:"]
        show("\n".join([*lines, *(f"  {name}" for name in sorted(CLASSES))]), is_error=not words)
        raise SystemExit(0 if words else 1)
    name = words[0].rpartition(".")[2]
    if name not in CLASSES:
        near = did_you_mean(name, CLASSES)
        hint = "" if near is None else f", but there is {near}"
        show(f"Error: Could not find or load main class {words[0]}{hint}", is_error=True)
        return 1
    module, _, function = CLASSES[name].partition(":")
    code: int = getattr(import_module(f"ottla.cli.kafka.{module}"), function or "run")(words[1:])
    return code
