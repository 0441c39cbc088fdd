"""The command-line tools of Kafka 3.9 and 4.x. Called with the Java command before the usual arguments."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from steps import restart, run, same, until
from tool_process import ToolProcess

*JAVA, VERSION, BOOTSTRAP, PREFIX, _ = sys.argv[1:]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
SERVER = ("--bootstrap-server", BOOTSTRAP)
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand|kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer|kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
IS_OLD = VERSION.startswith("3.")
READER, FORMATTER = ("--property",) * 2 if IS_OLD else ("--reader-property", "--formatter-property")
PARSE_KEYS = (READER, "parse.key=true", READER, "key.separator=:")
java = ToolProcess(JAVA)


def create_topic() -> None:
    printed = java.tool(
        TOPICS,
        *SERVER,
        *("--create", "--topic", TOPIC, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "segment.bytes=1048576"),
    )
    same(f"Created topic {TOPIC}." in printed, True, printed)
    again = java.attempt(TOPICS, *SERVER, "--create", "--topic", TOPIC)
    same((again.code, TOPIC in again.printed), (1, True), f"a second creation: {again.printed[:200]}")


def list_topics() -> None:
    same(TOPIC in java.tool(TOPICS, *SERVER, "--list").split(), True, "listed")


def describe_topic() -> None:
    printed = java.tool(TOPICS, *SERVER, "--describe", "--topic", TOPIC)
    same("PartitionCount: 3" in printed and "segment.bytes=1048576" in printed, True, printed)
    same(
        len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", printed)), 3, "partitions"
    )


def alter_topic() -> None:
    java.tool(TOPICS, *SERVER, "--alter", "--topic", TOPIC, "--partitions", "4")
    until(
        lambda: "PartitionCount: 4" in java.tool(TOPICS, *SERVER, "--describe", "--topic", TOPIC),
        "four partitions",
    )


def console_producer() -> None:
    lines = "".join(f"key{number}:value{number}\n" for number in range(20))
    java.tool(
        PRODUCER,
        *SERVER,
        *("--topic", TOPIC, "--compression-codec", "zstd", *PARSE_KEYS),
        text=lines,
    )


def consume(count: int, *options: str) -> list[str]:
    printed = java.tool(
        CONSUMER,
        *SERVER,
        *("--topic", TOPIC, "--max-messages", str(count), "--timeout-ms", "20000"),
        *(FORMATTER, "print.key=true", FORMATTER, "key.separator=:"),
        *options,
    )
    return sorted(printed.split())


def console_consumer() -> None:
    wanted = sorted(f"key{number}:value{number}" for number in range(20))
    same(consume(20, "--from-beginning"), wanted, "records")
    same(consume(20, "--from-beginning", "--group", GROUP), wanted, "records of a group")
    same(lag(), 0, "lag that the group leaves")


def after_restart() -> None:
    restart()
    java.tool(PRODUCER, *SERVER, "--topic", TOPIC, *PARSE_KEYS, text="late:record\n")
    same(consume(1, "--group", GROUP), ["late:record"], "the record behind the commit")


def topic_configs() -> None:
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    java.tool(CONFIGS, *SERVER, "--alter", *entity, "--add-config", "retention.ms=12345678")
    until(lambda: "retention.ms=12345678" in java.tool(CONFIGS, *SERVER, "--describe", *entity), "the value")
    java.tool(CONFIGS, *SERVER, "--alter", *entity, "--delete-config", "retention.ms")
    until(lambda: "retention.ms" not in java.tool(CONFIGS, *SERVER, "--describe", *entity), "its removal")


def broker_configs() -> None:
    found = re.search(r"Leader: (\d+)", java.tool(TOPICS, *SERVER, "--describe", "--topic", TOPIC))
    entity = ("--entity-type", "brokers", "--entity-name", found[1] if found else "?")
    same(
        "num.partitions=" in java.tool(CONFIGS, *SERVER, "--describe", "--all", *entity), True, "its configs"
    )
    java.tool(CONFIGS, *SERVER, "--alter", *entity, "--add-config", "log.retention.ms=87654321")
    until(
        lambda: "log.retention.ms=87654321" in java.tool(CONFIGS, *SERVER, "--describe", *entity), "the value"
    )


def list_groups() -> None:
    same(GROUP in java.tool(GROUPS, *SERVER, "--list").split(), True, "listed")
    same(f"{GROUP} " in java.tool(GROUPS, *SERVER, "--list", "--state"), True, "listed with its state")


def described(*options: str) -> str:
    return java.tool(GROUPS, *SERVER, "--describe", "--group", GROUP, *options)


def lag() -> int:
    rows = [line.split() for line in described().splitlines() if line.startswith(f"{GROUP} ")]
    return sum(int(row[5]) for row in rows)


def describe_group() -> None:
    same(lag(), 0, "lag")
    same("Empty" in described("--state"), True, "its state")
    described("--members")


def reset_offsets() -> None:
    reset = (*SERVER, "--reset-offsets", "--group", GROUP, "--topic", TOPIC)
    java.tool(GROUPS, *reset, "--to-earliest", "--execute")
    same(lag() >= 20, True, "a lag of all records")
    java.tool(GROUPS, *reset, "--shift-by", "1", "--execute")
    java.tool(GROUPS, *reset, "--to-datetime", "2020-01-01T00:00:00.000", "--dry-run")
    java.tool(GROUPS, *reset, "--to-latest", "--execute")
    same(lag(), 0, "lag")


def delete_offsets() -> None:
    java.tool(GROUPS, *SERVER, "--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0")
    same(
        re.search(rf"{TOPIC}\s+0\s+-\s", described()) is not None or f"{TOPIC}  0" not in described(),
        True,
        "gone",
    )


def delete_group() -> None:
    java.tool(GROUPS, *SERVER, "--delete", "--group", GROUP)
    same(GROUP in java.tool(GROUPS, *SERVER, "--list").split(), False, "still listed")


def get_offsets() -> None:
    def total(time: str) -> int:
        printed = java.tool(OFFSETS, *SERVER, "--topic", TOPIC, "--time", time)
        return sum(int(line.split(":")[2]) for line in printed.split())

    same((total("earliest"), total("latest") >= 20), (0, True), "offsets")
    total("max-timestamp")
    total("1600000000000")


def delete_records() -> None:
    request = Path("delete.json")
    part = {"topic": f"{PREFIX}-perf", "partition": 0, "offset": 7}
    request.write_text(json.dumps({"partitions": [part], "version": 1}))
    printed = java.tool(
        "org.apache.kafka.tools.DeleteRecordsCommand", *SERVER, "--offset-json-file", str(request)
    )
    same(re.search(rf"{PREFIX}-perf-0.*low_watermark: 7", printed) is not None, True, printed)


def producer_performance() -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        printed = java.tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", f"{PREFIX}-perf", "--num-records", "2000", "--record-size", "100"),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={BOOTSTRAP}"),
            f"compression.type={codec}",
        )
        same("2000 records sent" in printed, True, printed)


def consumer_performance() -> None:
    count = "--messages" if IS_OLD else "--num-records"
    printed = java.tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *SERVER,
        *("--topic", f"{PREFIX}-perf", count, "9000", "--timeout", "20000"),
    )
    numbers = [each.strip() for each in printed.strip().splitlines()[-1].split(",")]
    same(int(numbers[4]) >= 9000, True, printed)


def api_versions() -> None:
    found = "org.apache.kafka.tools.BrokerApiVersionsCommand|kafka.admin.BrokerApiVersionsCommand"
    printed = java.tool(found, *SERVER)
    same("Produce(0): " in printed and "Metadata(3): " in printed, True, printed)


def log_dirs() -> None:
    printed = java.tool("org.apache.kafka.tools.LogDirsCommand", *SERVER, "--describe", "--topic-list", TOPIC)
    found = json.loads(printed[printed.index("{") :])
    parts = [part for broker in found["brokers"] for each in broker["logDirs"] for part in each["partitions"]]
    same(len([part for part in parts if part["partition"].startswith(TOPIC)]), 4, "partitions")


def cluster_id() -> None:
    printed = java.tool("org.apache.kafka.tools.ClusterTool", "cluster-id", *SERVER)
    same(re.search(r"Cluster ID: \S+", printed) is not None, True, printed)


def delete_topic() -> None:
    java.tool(TOPICS, *SERVER, "--delete", "--topic", TOPIC)
    until(lambda: TOPIC not in java.tool(TOPICS, *SERVER, "--list").split(), "the topic gone from the list")


if __name__ == "__main__":
    run(
        "command-line tools",
        VERSION,
        [
            ("kafka-topics --create", create_topic),
            ("kafka-topics --list", list_topics),
            ("kafka-topics --describe", describe_topic),
            ("kafka-console-producer", console_producer),
            ("kafka-console-consumer, alone and in a group", console_consumer),
            ("the same after a restart of the broker", after_restart),
            ("kafka-topics --alter", alter_topic),
            ("kafka-configs of a topic", topic_configs),
            ("kafka-configs of a broker", broker_configs),
            ("kafka-consumer-groups --list", list_groups),
            ("kafka-consumer-groups --describe", describe_group),
            ("kafka-consumer-groups --reset-offsets", reset_offsets),
            ("kafka-consumer-groups --delete-offsets", delete_offsets),
            ("kafka-consumer-groups --delete", delete_group),
            ("kafka-get-offsets", get_offsets),
            ("kafka-producer-perf-test, every codec", producer_performance),
            ("kafka-consumer-perf-test", consumer_performance),
            ("kafka-delete-records", delete_records),
            ("kafka-broker-api-versions", api_versions),
            ("kafka-log-dirs", log_dirs),
            ("kafka-cluster cluster-id", cluster_id),
            ("kafka-topics --delete", delete_topic),
        ],
    )
    java.close()
