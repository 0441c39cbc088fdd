"""The tools and the classic consumer of Kafka 0.9.0.1, which find the broker through ZooKeeper.

Called with the Java command before the usual arguments.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steps import restart, run, same, until
from tool_process import ToolProcess

*JAVA, VERSION, BOOTSTRAP, PREFIX, KEEPER = sys.argv[1:]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
ZOOKEEPER, BROKERS = ("--zookeeper", KEEPER), ("--broker-list", BOOTSTRAP)
TOPICS, CONFIGS, GROUPS = (f"kafka.admin.{name}Command" for name in ("Topic", "Config", "ConsumerGroup"))
PRODUCER, CONSUMER = "kafka.tools.ConsoleProducer", "!kafka.tools.ConsoleConsumer"
CHECKER, OFFSETS = "kafka.tools.ConsumerOffsetChecker", "kafka.tools.GetOffsetShell"
NEW = ("--new-consumer", "--bootstrap-server", BOOTSTRAP)
LINES = [f"value-{number}" for number in range(20)]
java = ToolProcess(JAVA)


def settings(group: str, **more: str) -> str:
    """A file with the settings of a consumer; its path."""
    path = Path(f"{group}-{len(more)}.properties")
    values = {
        "group.id": group,
        "zookeeper.connect": KEEPER,
        "zookeeper.session.timeout.ms": "6000",
        "auto.commit.interval.ms": "200",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(path)


def create(topic: str, partitions: int = 2) -> None:
    counts = ("--partitions", str(partitions), "--replication-factor", "1")
    printed = java.tool(TOPICS, *ZOOKEEPER, "--create", "--topic", topic, *counts)
    same(f'Created topic "{topic}".' in printed, True, printed)
    # The broker learns of it from ZooKeeper, in its own time; who asks sooner would make it by asking.
    until(lambda: len(offsets(topic)) == partitions, "the topic at the broker")


def offsets(topic: str, time: str = "-1") -> list[int]:
    found = java.attempt(OFFSETS, *BROKERS, "--topic", topic, "--time", time)
    rows = sorted(re.findall(rf"^{topic}:(\d+):(\d+)$", found.printed, re.MULTILINE))
    return [int(offset) for _, offset in rows]


def send(topic: str, lines: list[str], *options: str) -> None:
    text = "".join(line + "\n" for line in lines)
    # The tool's own default is 0: it would end before the broker has the records.
    java.tool(PRODUCER, *BROKERS, "--topic", topic, "--request-required-acks", "1", *options, text=text)


def consume(count: int, *options: str) -> list[str]:
    return sorted(
        java.tool(CONSUMER, *options, "--max-messages", str(count), "--timeout-ms", "20000").split()
    )


def create_topic() -> None:
    create(TOPIC)
    again = java.attempt(
        TOPICS, *ZOOKEEPER, "--create", "--topic", TOPIC, "--partitions", "1", "--replication-factor", "1"
    )
    same("already exists" in again.printed, True, again.printed)


def list_topics() -> None:
    same(TOPIC in java.tool(TOPICS, *ZOOKEEPER, "--list").split(), True, "listed")


def describe_topic() -> None:
    printed = java.tool(TOPICS, *ZOOKEEPER, "--describe", "--topic", TOPIC)
    same(len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", printed)), 2, printed)


def new_producer() -> None:
    for codec in ("none", "gzip", "snappy", "lz4"):
        topic = f"{PREFIX}-new-{codec}"
        create(topic)
        send(topic, LINES, "--compression-codec", codec)
        same(sum(offsets(topic)), 20, f"records of {codec}")


def old_producer() -> None:
    for codec in ("none", "gzip", "snappy", "lz4"):
        topic = f"{PREFIX}-old-{codec}"
        create(topic)
        send(topic, LINES, "--old-producer", "--compression-codec", codec)
        same(sum(offsets(topic)), 20, f"records of {codec}")


def auto_creation() -> None:
    topic = f"{PREFIX}-auto"
    send(topic, LINES)
    until(lambda: topic in java.tool(TOPICS, *ZOOKEEPER, "--list").split(), "the topic in ZooKeeper")
    same(sum(offsets(topic)), 20, "records")


def classic_consumer() -> None:
    for name in ("new-none", "new-gzip", "new-snappy", "new-lz4", "old-none", "old-gzip", "old-snappy"):
        found = consume(20, *ZOOKEEPER, "--topic", f"{PREFIX}-{name}", "--from-beginning")
        same(found, sorted(LINES), f"records of {name}")


def new_consumer() -> None:
    for name in ("new-none", "new-gzip", "new-snappy", "new-lz4", "old-none", "old-gzip", "old-snappy"):
        found = consume(20, *NEW, "--topic", f"{PREFIX}-{name}", "--from-beginning")
        same(found, sorted(LINES), f"records of {name}")


def committed(group: str, topic: str) -> list[str]:
    printed = java.tool(CHECKER, *ZOOKEEPER, "--group", group, "--topic", topic)
    return sorted(re.findall(rf"^{group}\s+{topic}\s+(\d+\s+\d+)\s", printed, re.MULTILINE))


def classic(group: str, **more: str) -> tuple[str, ...]:
    return ("--consumer.config", settings(group, **more), *ZOOKEEPER, "--topic", TOPIC)


def classic_group() -> None:
    send(TOPIC, LINES)
    same(consume(20, *classic(GROUP), "--from-beginning"), sorted(LINES), "records")
    same(sum(int(each.split()[1]) for each in committed(GROUP, TOPIC)), 20, "committed in ZooKeeper")
    send(TOPIC, ["late"])
    same(consume(1, *classic(GROUP)), ["late"], "the record behind the commit")


def classic_group_in_kafka() -> None:
    group = f"{PREFIX}-stored"
    options = classic(group, offsets_storage="kafka", dual_commit_enabled="false")
    same(len(consume(21, *options, "--from-beginning")), 21, "records")
    same(sum(int(each.split()[1]) for each in committed(group, TOPIC)), 21, "committed in Kafka")
    send(TOPIC, ["stored"])
    same(consume(1, *options), ["stored"], "the record behind the commit")


@contextmanager
def background(main_class: str, *arguments: str) -> Iterator[None]:
    process = subprocess.Popen(
        [*JAVA, main_class, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def owners(group: str) -> int:
    """How many members own the two partitions of the topic."""
    printed = java.tool(CHECKER, *ZOOKEEPER, "--group", group, "--topic", TOPIC)
    found = re.findall(rf"^{group}\s+{TOPIC}\s+\d+\s.*\s(\S+)$", printed, re.MULTILINE)
    return len(set(found)) if len(found) == 2 and "none" not in found else 0


def rebalance() -> None:
    group = f"{PREFIX}-pair"
    reader = (
        "kafka.tools.ConsoleConsumer",
        "--consumer.config",
        settings(group),
        *ZOOKEEPER,
        "--topic",
        TOPIC,
    )
    with background(*reader):
        until(lambda: owners(group) == 1, "both partitions with one member")
        with background(*reader):
            until(lambda: owners(group) == 2, "one partition each")
            verify = ("--zookeeper.connect", KEEPER, "--group", group)
            printed = java.tool("kafka.tools.VerifyConsumerRebalance", *verify)
            # It compares names with objects and so never believes an owner; that it finds both is enough.
            same(len(re.findall(rf"Owner {group}_\S+ for partition", printed)), 2, printed)
        until(lambda: owners(group) == 1, "both partitions with the one that stays")


def new_group() -> None:
    group = f"{PREFIX}-modern"
    options = ("--consumer.config", settings(group), *NEW, "--topic", TOPIC)
    same(len(consume(22, *options, "--from-beginning")), 22, "records")
    send(TOPIC, ["modern"])
    same(consume(1, *options), ["modern"], "the record behind the commit")


def after_restart() -> None:
    consume(2, *classic(GROUP))
    restart()
    until(lambda: len(offsets(TOPIC)) == 2, "the broker")
    send(TOPIC, ["after"])
    same(consume(1, *classic(GROUP)), ["after"], "the record behind the commit")


def offset_shell() -> None:
    same(offsets(TOPIC, "-2"), [0, 0], "first offsets")
    same(sum(offsets(TOPIC)) >= 22, True, "last offsets")


def simple_consumer() -> None:
    options = ("--topic", f"{PREFIX}-new-none", "--partition", "0", "--offset", "-2", "--no-wait-at-logend")
    printed = java.tool("kafka.tools.SimpleConsumerShell", *BROKERS, *options)
    same(len(set(printed.split()) & set(LINES)), offsets(f"{PREFIX}-new-none")[0], "records of the partition")


def groups_in_zookeeper() -> None:
    same(GROUP in java.tool(GROUPS, *ZOOKEEPER, "--list").split(), True, "listed")
    printed = java.tool(GROUPS, *ZOOKEEPER, "--describe", "--group", GROUP)
    same(len(re.findall(rf"^{GROUP}, {TOPIC}, \d+, \d+, \d+, 0, none", printed, re.MULTILINE)), 2, printed)


def groups_in_kafka() -> None:
    group = f"{PREFIX}-watched"
    config = settings(group)
    reader = ("--consumer.config", config, *NEW, "--topic", TOPIC)
    with background("kafka.tools.ConsoleConsumer", *reader):
        until(lambda: group in java.tool(GROUPS, *NEW, "--list").split(), "the group in the list")

        def rows() -> list[str]:
            printed = java.tool(GROUPS, *NEW, "--describe", "--group", group)
            return re.findall(rf"^{group}, {TOPIC}, \d+, \d+, \d+, 0, ", printed, re.MULTILINE)

        until(lambda: len(rows()) == 2, "both partitions without a lag")


def topic_configs() -> None:
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    java.tool(CONFIGS, *ZOOKEEPER, "--alter", *entity, "--add-config", "max.message.bytes=2000")
    printed = java.tool(CONFIGS, *ZOOKEEPER, "--describe", *entity)
    same("max.message.bytes=2000" in printed, True, printed)

    def is_refused() -> bool:
        before = sum(offsets(TOPIC))
        send(TOPIC, ["x" * 5000])
        return sum(offsets(TOPIC)) == before

    until(is_refused, "a long record refused by the broker")
    java.tool(CONFIGS, *ZOOKEEPER, "--alter", *entity, "--delete-config", "max.message.bytes")
    until(lambda: not is_refused(), "a long record accepted again")


def alter_topic() -> None:
    topic = f"{PREFIX}-more"
    create(topic, 1)
    java.tool(TOPICS, *ZOOKEEPER, "--alter", "--topic", topic, "--partitions", "3")
    until(lambda: len(offsets(topic)) == 3, "three partitions at the broker")


def performance() -> None:
    topic = f"{PREFIX}-perf"
    create(topic)
    java.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "3000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={BOOTSTRAP}"),
    )
    same(sum(offsets(topic)), 3000, "records")
    measured = ("--topic", topic, "--messages", "3000", "--hide-header")
    for source in (ZOOKEEPER, (*BROKERS, "--new-consumer")):
        printed = java.tool(
            "kafka.tools.ConsumerPerformance", *source, *measured, "--group", f"{topic}{len(source)}"
        )
        same(re.search(r"\b3000\b", printed) is not None, True, printed)


def replay() -> None:
    source, copy = f"{PREFIX}-new-none", f"{PREFIX}-replayed"
    create(copy)
    java.tool(
        "kafka.tools.ReplayLogProducer",
        *(*ZOOKEEPER, *BROKERS, "--inputtopic", source, "--outputtopic", copy, "--messages", "20"),
    )
    same(sum(offsets(copy)), 20, "records")


def mirror() -> None:
    topic = f"{PREFIX}-mirrored"
    create(topic)
    send(topic, LINES)
    target = Path("mirror-producer.properties")
    target.write_text(f"bootstrap.servers={BOOTSTRAP}\n")
    options = (
        "--consumer.config",
        settings(f"{PREFIX}-mirror", auto_offset_reset="smallest"),
        "--producer.config",
        str(target),
    )
    # Its source is also its target, so it goes round and round: twice the records mean that all were copied.
    with background("kafka.tools.MirrorMaker", *options, "--whitelist", topic):
        until(lambda: sum(offsets(topic)) >= 40, "the records copied")


def export_offsets() -> None:
    place = Path("offsets.txt")
    java.tool(
        "kafka.tools.ExportZkOffsets", "--zkconnect", KEEPER, "--group", GROUP, "--output-file", str(place)
    )
    same(len(re.findall(rf"/consumers/{GROUP}/offsets/{TOPIC}/\d+:\d+", place.read_text())), 2, "offsets")
    java.tool("kafka.tools.ImportZkOffsets", "--zkconnect", KEEPER, "--input-file", str(place))


def delete_topic() -> None:
    topic = f"{PREFIX}-more"
    java.tool(TOPICS, *ZOOKEEPER, "--delete", "--topic", topic)
    until(lambda: topic not in java.tool(TOPICS, *ZOOKEEPER, "--list").split(), "the topic gone")


if __name__ == "__main__":
    run(
        "Scala tools",
        VERSION,
        [
            ("TopicCommand --create", create_topic),
            ("TopicCommand --list", list_topics),
            ("TopicCommand --describe", describe_topic),
            ("ConsoleProducer, the new producer, every codec", new_producer),
            ("ConsoleProducer, the old producer, every codec", old_producer),
            ("create a topic by producing", auto_creation),
            ("ConsoleConsumer, the classic consumer", classic_consumer),
            ("ConsoleConsumer, the new consumer", new_consumer),
            ("classic consumer: group, offsets in ZooKeeper", classic_group),
            ("classic consumer: group, offsets in Kafka", classic_group_in_kafka),
            ("classic consumer: rebalance, VerifyConsumerRebalance", rebalance),
            ("new consumer: group, commit", new_group),
            ("classic consumer goes on after a restart", after_restart),
            ("GetOffsetShell", offset_shell),
            ("SimpleConsumerShell", simple_consumer),
            ("ConsumerGroupCommand --zookeeper", groups_in_zookeeper),
            ("ConsumerGroupCommand --bootstrap-server", groups_in_kafka),
            ("ConfigCommand of a topic", topic_configs),
            ("TopicCommand --alter", alter_topic),
            ("ProducerPerformance, ConsumerPerformance", performance),
            ("ReplayLogProducer", replay),
            ("MirrorMaker", mirror),
            ("ExportZkOffsets, ImportZkOffsets", export_offsets),
            ("TopicCommand --delete", delete_topic),
        ],
    )
    java.close()
