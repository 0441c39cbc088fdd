"""Every option of Spark's Kafka connector, in use, and the reasons for what is different here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.spark_parity.bench import (
    FIRST_MS,
    Bench,
    batch_sizes,
    rows,
    schema,
    streamed,
    task_sizes,
    written,
)


@dataclass(frozen=True)
class Case:
    """One use of an option. `act` runs it through a format."""

    option: str
    what: str
    act: Callable[[Bench, str], Any]


def cases() -> list[Case]:
    """Every option of the connector, with values that work and values that do not."""
    kv = ["cast(id as string) key", "cast(id as string) value"]
    everything = {"subscribe": "orders"}
    at = {
        "startingOffsets": '{"orders":{"0":10,"1":20,"2":0}}',
        "endingOffsets": '{"orders":{"0":15,"1":-1,"2":5}}',
    }
    times = json.dumps({"orders": {"0": FIRST_MS + 150_000, "1": FIRST_MS, "2": FIRST_MS + 299_000}})
    late = str(FIRST_MS + 10_000_000)
    many = {"subscribe": "many"}
    return [
        Case("subscribe", "one topic", rows(**everything)),
        Case("subscribe", "two topics", rows(subscribe="orders,other")),
        Case("subscribe", "a topic that does not exist", rows(subscribe="missing")),
        Case("subscribe", "beside assign", rows(subscribe="orders", assign='{"orders":[0]}')),
        Case("subscribe", "nothing to read is given", rows()),
        Case("subscribePattern", "finds anywhere in the name: `t`", rows(subscribePattern="t")),
        Case("subscribePattern", "anchored: `^orders$`", rows(subscribePattern="^orders$")),
        Case(
            "subscribePattern", "of Java's syntax: `\\p{Lower}+-eu`", rows(subscribePattern="\\p{Lower}+-eu")
        ),
        Case("subscribePattern", "that matches nothing", rows(subscribePattern="nothing-.*")),
        Case(
            "subscribePattern", "that matches an internal topic: `offsets`", rows(subscribePattern="offsets")
        ),
        Case("subscribePattern", "that is no pattern: `(`", rows(subscribePattern="(")),
        Case("assign", "two of three partitions", rows(assign='{"orders":[0,2]}')),
        Case("assign", "a partition that does not exist", rows(assign='{"orders":[0,9]}')),
        Case("assign", "a topic that does not exist", rows(assign='{"missing":[0]}')),
        Case("assign", "no JSON", rows(assign="orders")),
        Case("startingOffsets", "earliest", rows(**everything, startingOffsets="earliest")),
        Case("startingOffsets", "latest, in a batch", rows(**everything, startingOffsets="latest")),
        Case("startingOffsets", "JSON, with endingOffsets", rows(**everything, **at)),
        Case(
            "startingOffsets",
            "-2 for a partition",
            rows(**everything, startingOffsets='{"orders":{"0":-2,"1":99,"2":99}}'),
        ),
        Case(
            "startingOffsets",
            "-1 for a partition, in a batch",
            rows(**everything, startingOffsets='{"orders":{"0":-1,"1":0,"2":0}}'),
        ),
        Case(
            "startingOffsets",
            "behind endingOffsets",
            rows(
                **everything,
                startingOffsets='{"orders":{"0":50,"1":0,"2":0}}',
                endingOffsets='{"orders":{"0":20,"1":5,"2":5}}',
            ),
        ),
        Case(
            "startingOffsets",
            "behind the end of the log",
            rows(**everything, startingOffsets='{"orders":{"0":5000,"1":0,"2":0}}'),
        ),
        Case(
            "startingOffsets",
            "not for every partition",
            rows(**everything, startingOffsets='{"orders":{"0":5}}'),
        ),
        Case(
            "startingOffsets",
            "for a partition that is not read",
            rows(**everything, startingOffsets='{"orders":{"0":0,"1":0,"2":0,"7":0}}'),
        ),
        Case("startingOffsets", "a stream from earliest", streamed(**everything, startingOffsets="earliest")),
        Case("startingOffsets", "a stream from latest", streamed(**everything, startingOffsets="latest")),
        Case(
            "startingOffsets",
            "a stream from JSON with -1 and -2",
            streamed(**everything, startingOffsets='{"orders":{"0":-1,"1":-2,"2":7}}'),
        ),
        Case("endingOffsets", "latest", rows(**everything, endingOffsets="latest")),
        Case("endingOffsets", "earliest", rows(**everything, endingOffsets="earliest")),
        Case(
            "endingOffsets",
            "-2 for a partition",
            rows(**everything, endingOffsets='{"orders":{"0":-2,"1":0,"2":0}}'),
        ),
        Case(
            "endingOffsets",
            "behind the end of the log",
            rows(**everything, endingOffsets='{"orders":{"0":5000,"1":5,"2":5}}'),
        ),
        Case("endingOffsets", "in a stream", streamed(**everything, endingOffsets="latest")),
        Case("startingTimestamp", "a time", rows(**everything, startingTimestamp=str(FIRST_MS + 100_000))),
        Case("startingTimestamp", "after every record", rows(**everything, startingTimestamp=late)),
        Case(
            "startingTimestamp",
            "wins over startingOffsets",
            rows(**everything, startingTimestamp=str(FIRST_MS + 290_000), startingOffsets="earliest"),
        ),
        Case("endingTimestamp", "a time", rows(**everything, endingTimestamp=str(FIRST_MS + 100_000))),
        Case("endingTimestamp", "after every record", rows(**everything, endingTimestamp=late)),
        Case(
            "startingOffsetsByTimestamp", "a time each", rows(**everything, startingOffsetsByTimestamp=times)
        ),
        Case(
            "startingOffsetsByTimestamp",
            "not for every partition",
            rows(**everything, startingOffsetsByTimestamp='{"orders":{"0":1}}'),
        ),
        Case("endingOffsetsByTimestamp", "a time each", rows(**everything, endingOffsetsByTimestamp=times)),
        Case(
            "startingOffsetsByTimestampStrategy",
            "latest, after every record",
            rows(**everything, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest"),
        ),
        Case(
            "startingOffsetsByTimestampStrategy",
            "another word",
            rows(**everything, startingTimestamp=late, startingOffsetsByTimestampStrategy="first"),
        ),
        Case(
            "failOnDataLoss",
            "records that are gone",
            rows(subscribe="cut", startingOffsets='{"cut":{"0":0}}'),
        ),
        Case(
            "failOnDataLoss",
            "records that are gone, false",
            rows(subscribe="cut", startingOffsets='{"cut":{"0":0}}', failOnDataLoss="false"),
        ),
        Case(
            "maxOffsetsPerTrigger",
            "90 of 300",
            batch_sizes(**everything, startingOffsets="earliest", maxOffsetsPerTrigger="90"),
        ),
        Case(
            "maxOffsetsPerTrigger",
            "0",
            streamed(**everything, startingOffsets="earliest", maxOffsetsPerTrigger="0"),
        ),
        Case(
            "minOffsetsPerTrigger",
            "1,000 of 300, and the stream ends",
            streamed(**everything, startingOffsets="earliest", minOffsetsPerTrigger="1000"),
        ),
        Case(
            "minOffsetsPerTrigger",
            "above maxOffsetsPerTrigger",
            streamed(
                **everything, startingOffsets="earliest", minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5"
            ),
        ),
        Case(
            "maxTriggerDelay",
            "1s",
            streamed(
                **everything, startingOffsets="earliest", minOffsetsPerTrigger="1000", maxTriggerDelay="1s"
            ),
        ),
        Case("minPartitions", "9", task_sizes(**everything, minPartitions="9")),
        Case("minPartitions", "fewer than there are", task_sizes(**everything, minPartitions="2")),
        Case("maxRecordsPerPartition", "30: 12 tasks", task_sizes(**everything, maxRecordsPerPartition="30")),
        Case(
            "maxRecordsPerPartition",
            "30, in 10 partitions of 100",
            task_sizes(**many, maxRecordsPerPartition="30"),
        ),
        Case("includeHeaders", "true: the columns", schema(**everything, includeHeaders="true")),
        Case("includeHeaders", "true: the rows", rows(**everything, includeHeaders="true")),
        Case("includeHeaders", "false: the columns", schema(**everything)),
        Case(
            "kafkaConsumer.pollTimeoutMs",
            "60000",
            rows(**everything, **{"kafkaConsumer.pollTimeoutMs": "60000"}),
        ),
        Case("fetchOffset.numRetries", "5", rows(**everything, **{"fetchOffset.numRetries": "5"})),
        Case(
            "fetchOffset.retryIntervalMs", "20", rows(**everything, **{"fetchOffset.retryIntervalMs": "20"})
        ),
        Case(
            "partition.metadata.cache.ttl.ms",
            "1000",
            rows(**everything, **{"partition.metadata.cache.ttl.ms": "1000"}),
        ),
        Case("groupIdPrefix", "mine", rows(**everything, groupIdPrefix="mine")),
        Case("kafka.group.id", "mine", rows(**everything, **{"kafka.group.id": "mine"})),
        Case(
            "kafka.isolation.level",
            "read_committed",
            rows(**everything, **{"kafka.isolation.level": "read_committed"}),
        ),
        Case("kafka.client.rack", "r1", rows(**everything, **{"kafka.client.rack": "r1"})),
        Case(
            "kafka.client.dns.lookup",
            "use_all_dns_ips",
            rows(**everything, **{"kafka.client.dns.lookup": "use_all_dns_ips"}),
        ),
        Case(
            "kafka.metrics.recording.level",
            "INFO",
            rows(**everything, **{"kafka.metrics.recording.level": "INFO"}),
        ),
        *(
            Case(f"kafka.{name}", "is refused", rows(**everything, **{f"kafka.{name}": value}))
            for name, value in (
                ("auto.offset.reset", "earliest"),
                ("enable.auto.commit", "true"),
                ("key.deserializer", "x"),
                ("value.deserializer", "x"),
                ("interceptor.classes", "x"),
            )
        ),
        Case(
            "unknown options",
            "startingOffset, which is no option",
            rows(**everything, startingOffset="latest"),
        ),
        Case("column value", "string", written(kv, topic="TOPIC")),
        Case(
            "column value",
            "binary",
            written(["cast(cast(id as string) as binary) value", "0 as partition"], topic="TOPIC"),
        ),
        Case("column value", "a number", written(["id as value"], topic="TOPIC")),
        Case("column value", "missing", written(["id"], topic="TOPIC")),
        Case(
            "column key",
            "null",
            written(["cast(null as string) key", kv[1], "0 as partition"], topic="TOPIC"),
        ),
        Case("column key", "a number", written(["id as key", kv[1]], topic="TOPIC")),
        Case("column topic", "instead of the option", written([*kv, "'TOPIC' as topic"])),
        Case(
            "column topic", "beside the option, which wins", written([*kv, "'other' as topic"], topic="TOPIC")
        ),
        Case("column topic", "null", written([*kv, "cast(null as string) topic"])),
        Case("column topic", "neither column nor option", written(kv)),
        Case("column partition", "1 for all", written([*kv, "1 as partition"], topic="TOPIC")),
        Case("column partition", "a long", written([*kv, "1L as partition"], topic="TOPIC")),
        Case(
            "column headers",
            "array<struct<key string, value binary>>",
            written(
                [*kv, "array(struct('h' as key, cast('x' as binary) as value)) headers"],
                topic="TOPIC",
                includeHeaders="true",
            ),
        ),
        Case(
            "column headers",
            "array<string>",
            written([*kv, "array('x') headers"], topic="TOPIC", includeHeaders="true"),
        ),
        Case(
            "column headers",
            "struct with a text as value",
            written(
                [*kv, "array(struct('h' as key, 'x' as value)) headers"], topic="TOPIC", includeHeaders="true"
            ),
        ),
        Case(
            "column timestamp",
            "of 1970: ignored",
            written([*kv, "timestamp_millis(1000) as timestamp"], topic="TOPIC"),
        ),
        Case("other columns", "ignored", written([*kv, "id as more"], topic="TOPIC")),
        Case("save mode", "append", written(kv, "append", topic="TOPIC")),
        Case("save mode", "none given", written(kv, None, topic="TOPIC")),
        Case("save mode", "errorifexists", written(kv, "errorifexists", topic="TOPIC")),
        Case("save mode", "overwrite", written(kv, "overwrite", topic="TOPIC")),
        Case("save mode", "ignore", written(kv, "ignore", topic="TOPIC")),
    ]


REASONS: dict[str, str] = {
    "maxOffsetsPerTrigger: 0": "The connector accepts it and never reads a record. Ours refuses it.",
    "minPartitions: fewer than there are": (
        "Small partitions share a task, up to `minRecordsPerTask` (100,000) records; 0 turns that off."
    ),
    "maxRecordsPerPartition: 30: 12 tasks": (
        "The connector ignores it in batch queries, and keeps it in streams. Ours keeps it in both."
    ),
    "maxRecordsPerPartition: 30, in 10 partitions of 100": "The same.",
    "unknown options: startingOffset, which is no option": (
        "The connector ignores options that it does not know, typing errors too. Ours refuses them."
    ),
    "save mode: none given": (
        "Spark itself refuses its default mode, errorifexists, for every source in Python. Write mode append."
    ),
    "save mode: errorifexists": "The same.",
}
"""Why the results of a case differ, by option and case."""
