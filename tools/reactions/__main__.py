"""Runs Kafka's own clients against our broker, with each error code in the answer to each call, once.

    python -m tools.reactions > tests/golden/reactions.jsonl
    python -m tools.reactions "Java 4.4.0 producer"              # one of CLIENTS only

Several clients run at a time, each with a broker of its own. `tools.reactions.trials` says what the outcomes
mean. Needs Java, javac and the peers of `tools.peers`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from ottla import Code, EmbeddedBroker
from ottla.zookeeper.server import ZooKeeperServer
from tools.peer_cache import KAFKA_0_9, KAFKA_CLIENTS
from tools.reactions.java_client import JavaClient
from tools.reactions.trials import OPENING_CALLS, TOPIC, ConsumerTrials, produced

AT_ONCE = 5
PARTS = 4
"""Of the clients that mostly wait: each part has every fourth code."""
CODES = [code for code in Code if code is not Code.NONE]
CALLS = (*OPENING_CALLS, "Fetch", "ListOffsets", "Heartbeat", "OffsetCommit")
GROUP_OFFSETS = ("FindCoordinator", "OffsetFetch", "OffsetCommit")
Codes = Sequence[Code]
Outcomes = Iterator[tuple[str, Code, str]]


def consumer(codes: Codes, version: str, *calls: str) -> Outcomes:
    """The outcomes of KafkaConsumer."""
    with _broker() as broker, JavaClient("ReactingClient.java", version, broker.bootstrap, TOPIC) as client:
        yield from _tried(codes, ConsumerTrials(broker, client), *calls)


def producer(codes: Codes, version: str) -> Outcomes:
    """The outcomes of KafkaProducer."""
    with _broker() as broker, JavaClient("ReactingClient.java", version, broker.bootstrap, TOPIC) as client:
        for code in codes:
            yield "Produce", code, produced(broker, client, code)


def stream(codes: Codes, storage: str, *calls: str) -> Outcomes:
    """The outcomes of the high-level consumer of Kafka 0.9, with its offsets in `storage`."""
    with ExitStack() as stack:
        server = ZooKeeperServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server.start()
        stack.callback(server.stop)
        broker = stack.enter_context(_broker({"zookeeper.connect": server.connect}))
        where = server.connect, TOPIC, storage
        client = stack.enter_context(JavaClient("ReactingStream.java", KAFKA_0_9, *where))
        yield from _tried(codes, ConsumerTrials(broker, client, loses_commits=True), *calls)


def _broker(more: dict[str, str] | None = None) -> EmbeddedBroker:
    quick = {"group.min.session.timeout.ms": "100", "zookeeper.connection.timeout.ms": "30000"}
    broker = EmbeddedBroker(properties=quick | (more or {}))
    broker.start()
    broker.create_topic(TOPIC, 1)
    return broker


def _tried(codes: Codes, trials: ConsumerTrials, *calls: str) -> Outcomes:
    with closing(trials):
        for call in calls:
            for code in codes:
                yield call, code, trials.outcome(call, code)


JAVA_NEW, JAVA_OLD, CLASSIC = f"Java {KAFKA_CLIENTS}", f"Java {KAFKA_0_9}", f"high-level {KAFKA_0_9}"
CLIENTS: dict[str, Callable[[Codes], Outcomes]] = {
    f"{JAVA_NEW} metadata": lambda codes: consumer(codes, KAFKA_CLIENTS, "Metadata"),
    f"{JAVA_OLD} metadata": lambda codes: consumer(codes, KAFKA_0_9, "Metadata"),
    f"{JAVA_NEW} consumer": lambda codes: consumer(codes, KAFKA_CLIENTS, *CALLS),
    f"{JAVA_OLD} consumer": lambda codes: consumer(codes, KAFKA_0_9, *CALLS),
    f"{JAVA_NEW} producer": lambda codes: producer(codes, KAFKA_CLIENTS),
    f"{CLASSIC} zookeeper": lambda codes: stream(codes, "zookeeper", "Fetch", "ListOffsets", "Metadata"),
    f"{CLASSIC} kafka": lambda codes: stream(
        codes, "kafka", "FindCoordinator", "OffsetFetch", "OffsetCommit"
    ),
}
"""The last word of a name is not part of the rows."""


def one_client(name: str, codes: Codes) -> None:
    """Print a row for every call and code of a client, each as soon as it is known."""
    for call, code, outcome in CLIENTS[name](codes):
        row = {"client": name.rpartition(" ")[0], "call": call, "code": code.name, "outcome": outcome}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


def all_clients() -> None:
    """Run every client, or every part of one, in a process of its own; then print all rows in order."""
    parts = {name: PARTS if name.endswith(" metadata") else 1 for name in CLIENTS}
    commands = [
        [sys.executable, "-m", "tools.reactions", name, f"{part}/{count}"]
        for name, count in parts.items()
        for part in range(count)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = pool.map(lambda command: subprocess.run(command, stdout=subprocess.PIPE, check=True), commands)
        rows = [json.loads(line) for run in runs for line in run.stdout.splitlines()]
    order = [name.rpartition(" ")[0] for name in CLIENTS]
    rows.sort(key=lambda row: (order.index(row["client"]), row["call"], Code[row["code"]]))
    sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)


def main(arguments: list[str]) -> None:
    """Print the rows of all clients, or of the one that is named."""
    if not arguments:
        all_clients()
        return
    part, count = map(int, arguments[1].split("/")) if len(arguments) > 1 else (0, 1)
    one_client(arguments[0], CODES[part::count])


if __name__ == "__main__":
    main(sys.argv[1:])
