"""The programs of Kafka's own system tests of clients, against our broker.

kafkatest starts Kafka's brokers on machines of its own, and looks at their processes and files: as it is, it
runs against no other broker. What its tests of clients do is in programs of Kafka's distribution, which print
what they saw. They are started here as those tests start them, and judged by the same rules.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ottla import EmbeddedBroker, replay
from tests.foreign.results import FAILED, PASSED, SKIPPED, Result
from tools.java_process import java_command
from tools.peer_cache import KAFKA_3, KAFKA_4, kafka_libs

VERSIONS = (KAFKA_3, KAFKA_4)
RUN_S = 300
RECORDS = 1_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BROKERS = 3
SETTINGS = {
    "num.partitions": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NOT_RUN = {
    "quota_test": "it reads the metrics of Kafka's own processes; our own tests have quotas",
    "truncation_test": "followers that replicate, and leaders that were lost; brokers here have no followers",
    "client_compatibility_features_test, old brokers": "it is about Kafka's own brokers of older versions",
    "consumer_rolling_upgrade_test": "it changes strategies of members; our own tests do too",
    "consumer_test, pluggable_test": "they kill members and brokers of their own machines; the proof does it",
}
"""Kafka's other tests of clients, and why they are not here."""


class Bench(NamedTuple):
    """A version's programs, a broker, and a directory for their files."""

    version: str
    broker: EmbeddedBroker
    place: Path

    def run(self, program: str, *arguments: object, timeout_s: float = RUN_S) -> list[dict[str, Any]]:
        """The JSON lines that a program of Kafka's prints. Raises AssertionError if it fails."""
        command = [*java_command(kafka_libs(self.version)), f"org.apache.kafka.tools.{program}"]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=self.place,
        )
        check(done.returncode == 0, f"{program} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def produce(self, topic: str, *arguments: object) -> None:
        """Let VerifiableProducer write, and check that all is acknowledged."""
        common = ("--topic", topic, "--bootstrap-server", self.broker.bootstrap, "--acks", "-1")
        told = self.run("VerifiableProducer", *common, "--max-messages", RECORDS, *arguments)
        acked = [line for line in told if line["name"] == "producer_send_success"]
        check(len(acked) == RECORDS, f"{len(acked)} of {RECORDS} records were acknowledged")

    def values(self, topic: str) -> list[bytes | None]:
        """All committed values of a topic."""
        bootstrap = self.broker.bootstrap
        with replay(topic, bootstrap_servers=bootstrap, isolation_level="read_committed") as rows:
            return [message.value for message in rows]


def check(condition: bool, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def results(place: Path) -> Iterator[Result]:
    """Run all programs of each version. Raises Unavailable where Kafka cannot be had."""
    for version in VERSIONS:
        run = f"Kafka {version}, programs of its system tests"
        (place / version).mkdir()
        with EmbeddedBroker(properties=SETTINGS, brokers=BROKERS) as broker:
            bench = Bench(version, broker, place / version)
            for name, test in TESTS.items():
                if version == KAFKA_3 and test is share_groups:
                    continue  # that version has none
                try:
                    test(bench)
                except (AssertionError, subprocess.TimeoutExpired, KeyError) as error:
                    yield Result(run, name, FAILED, str(error)[-300:])
                else:
                    yield Result(run, name, PASSED)
        yield from (Result(run, name, SKIPPED, why) for name, why in NOT_RUN.items())


def features(bench: Bench) -> None:
    """Offsets by time, cluster id, nodes, new topics, ACLs, configurations, idempotence, large records."""
    bench.broker.create_topic("features", 1)
    supported = ("offsets-for-times", "cluster-id", "create-topics", "describe-acls", "describe-configs")
    options = [part for name in supported for part in (f"--{name}-supported", "True")]
    options += ["--expect-record-too-large-exception", "False", "--num-cluster-nodes", str(BROKERS)]
    common = ("--topic", "features", "--bootstrap-server", bench.broker.bootstrap)
    bench.run("ClientCompatibilityTest", *common, *options, "--idempotent-producer-supported", "True")


def produce_and_consume(bench: Bench) -> None:
    """Each member of a group sees each record once, in both protocols of version 4."""
    bench.broker.create_topic("records", 3)
    bench.produce("records")
    for protocol in ("classic",) if bench.version == KAFKA_3 else ("classic", "consumer"):
        chosen = () if bench.version == KAFKA_3 else ("--group-protocol", protocol)
        common = ("--topic", "records", "--bootstrap-server", bench.broker.bootstrap, "--group-id", protocol)
        limits = ("--max-messages", RECORDS, "--reset-policy", "earliest", "--verbose")
        told = bench.run("VerifiableConsumer", *common, *limits, *chosen)
        places = [(line["partition"], line["offset"]) for line in told if line["name"] == "record_data"]
        check(len(places) == len({*places}) == RECORDS, f"{protocol}: {len(places)} of {RECORDS} records")


def compression(bench: Bench) -> None:
    """Records of each codec are stored and read."""
    bench.broker.create_topic("compressed", 1)
    for codec in CODECS:
        settings = bench.place / f"{codec}.properties"
        settings.write_text(f"compression.type={codec}\n")
        bench.produce("compressed", "--producer.config", settings)
    count = len(bench.values("compressed"))
    check(count == len(CODECS) * RECORDS, f"{count} records are stored")


def transactions(bench: Bench) -> None:
    """Records are copied in transactions, some of which are aborted: each is there once."""
    for topic in ("input", "output"):
        bench.broker.create_topic(topic, 1)
    bench.produce("input")
    bench.run(
        "TransactionalMessageCopier",
        *("--input-topic", "input", "--input-partition", 0, "--output-topic", "output"),
        *("--broker-list", bench.broker.bootstrap, "--transaction-size", 50, "--transactional-id", "copier"),
        *("--consumer-group", "copiers", "--max-messages", RECORDS, "--enable-random-aborts"),
    )
    source, copy = bench.values("input"), bench.values("output")
    check(source == copy, f"{len(source)} records became {len(copy)}")


def share_groups(bench: Bench) -> None:
    """A member of a share group gets and accepts each record once."""
    bench.broker.create_topic("shared", 1)
    bench.produce("shared")
    common = ("--topic", "shared", "--bootstrap-server", bench.broker.bootstrap, "--group-id", "sharers")
    limits = ("--max-messages", RECORDS, "--offset-reset-strategy", "earliest")
    told = bench.run("VerifiableShareConsumer", *common, *limits)
    accepted = sum(line["count"] for line in told if line["name"] == "offsets_acknowledged")
    check(accepted == RECORDS, f"{accepted} of {RECORDS} records were accepted")


TESTS: dict[str, Callable[[Bench], None]] = {
    "client_compatibility_features_test: ClientCompatibilityTest": features,
    "client_compatibility_produce_consume_test: VerifiableProducer, VerifiableConsumer": produce_and_consume,
    "compression_test: VerifiableProducer": compression,
    "transactions_test: TransactionalMessageCopier": transactions,
    "share_consumer_test: VerifiableShareConsumer": share_groups,
}
