"""Peak resident memory of clients: at full speed, and where the other side is slow.

Each contender is a process of its own, and the peak of the whole process counts, Python or Java included.
What ours may take is what it takes with a few records, and what its settings allow: queued.max.bytes of a
consumer and fetch.message.max.bytes of each partition while an answer arrives, buffer.memory of a producer,
all of that of a mirror. Peers have settings of the same sizes, where they have them. Kernels are compiled,
which is half of what ours has with a few records.

The topic has more than the queues take, in eight partitions of 1 KB values. "Does not read" is an application
that takes one record and then waits while its consumer fetches. The memory of brokers is `broker-memory`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.cpu_time import peak_resident_mb
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, version_of

if TYPE_CHECKING:
    from benchmarks import mirror

PARTITIONS, VALUE_BYTES = 8, 1_000
QUEUED_MB, FETCH_MB, BUFFER_MB = 32, 1, 32
HEAP_MB = 512
WAITING_S = 4.0
DEADLINE_S, LOOK_S = 300, 0.01
TABLE_ROWS = 10_000
MB = 1 << 20


@benchmark("memory")
def memory(effort: Effort) -> Iterator[Case]:
    """Consumers, producers and mirrors."""
    from benchmarks.broker.contenders import ottla
    from benchmarks.consume import filled

    megabytes = 8 * effort.server_mb
    with ottla() as server:
        log = filled(server, VALUE_BYTES, PARTITIONS, megabytes)
        where = (server.bootstrap, log.topic)
        base_mb = peak_mb(_program("read_ottla", *where, "1", "0"))
        allowed_mb = base_mb + QUEUED_MB + PARTITIONS * FETCH_MB
        for said, count, wait_s in (
            ("at full speed", log.records, 0.0),
            ("that does not read", 1, WAITING_S),
        ):
            ends = (str(count), str(wait_s))
            java = _kafka_tool(
                "org.apache.kafka.tools.ConsumerPerformance",
                *("--bootstrap-server", server.bootstrap, "--topic", log.topic),
                *("--messages", str(count - 1), "--timeout", "60000"),
            )
            yield _case(
                f"memory of a consumer {said}, {QUEUED_MB} MB queued",
                partial(peak_mb, _program("read_ottla", *where, *ends)),
                allowed_mb,
                [
                    _python_peer("confluent-kafka", _program("read_confluent", *where, *ends)),
                    Peer("Kafka's", note="its tool reads all it gets") if wait_s else java,
                ],
            )
        base_mb = peak_mb(_program("write_ottla", *where, "1"))
        records = str(megabytes * 1000)
        java = _kafka_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", log.topic, "--num-records", records, "--record-size", str(VALUE_BYTES)),
            *("--throughput", "-1", "--bootstrap-server", server.bootstrap),
            *("--command-property", f"buffer.memory={BUFFER_MB * MB}"),
        )
        yield _case(
            f"memory of a producer at full speed, {BUFFER_MB} MB buffered",
            partial(peak_mb, _program("write_ottla", *where, records)),
            base_mb + BUFFER_MB,
            [_python_peer("confluent-kafka", _program("write_confluent", *where, records)), java],
        )
    yield from _mirrors(effort)


def _mirrors(effort: Effort) -> Iterator[Case]:
    """Of batches that ours hands on as bytes; the peer is the last MirrorMaker that there was."""
    from benchmarks import mirror
    from ottla import EmbeddedBroker

    ours = (*mirror.OURS, "--message.handler", "ottla.mirror:same_partition")
    with EmbeddedBroker() as source:
        sizes = f"queued.max.bytes={QUEUED_MB * MB}\nfetch.message.max.bytes={FETCH_MB * MB}\n"
        where = f"bootstrap.servers={source.bootstrap}\nauto.offset.reset=earliest\n"
        buffer = f"buffer.memory={BUFFER_MB * MB}\n"

        def task(topic: str, megabytes: int, consumer: str) -> mirror.Task:
            records = mirror.written(source, topic, PARTITIONS, megabytes)
            return mirror.Task(topic, PARTITIONS, records, consumer, buffer)

        base_mb = mirror.peak_mb(ours, task("little", PARTITIONS, where + sizes))
        much = task("much", 8 * effort.server_mb, where)
        yield _case(
            f"memory of a mirror at full speed, {QUEUED_MB} MB queued, {BUFFER_MB} MB buffered",
            lambda: mirror.peak_mb(ours, much._replace(consumer=where + sizes)),
            base_mb + QUEUED_MB + PARTITIONS * FETCH_MB + BUFFER_MB,
            [_mirror_maker(much)],
        )


def _mirror_maker(task: mirror.Task) -> Peer:
    from benchmarks import mirror
    from tools.peer_cache import KAFKA_3, Unavailable

    try:
        command = mirror.mirror_maker(KAFKA_3, HEAP_MB)
    except Unavailable as error:
        return Peer("MirrorMaker", KAFKA_3, note=str(error))
    return Peer("MirrorMaker", KAFKA_3, lambda: mirror.peak_mb(command, task))


def _case(name: str, ours: Measure, allowed_mb: float, peers: list[Peer]) -> Case:
    """Measured once: memory only grows, and each round is a new process."""
    limit = Peer("what its settings allow", measure=lambda: allowed_mb, target=1)
    return Case(name, "MB", ours, [limit, *peers], 1, Better.LESS, is_warmed=False)


def _python_peer(package: str, command: Sequence[str]) -> Peer:
    version = version_of(package)
    if version is None:
        return Peer(package, note="not installed")
    return Peer(package, version, partial(peak_mb, command))


def _kafka_tool(name: str, *arguments: str) -> Peer:
    from tools.peer_cache import KAFKA_4, Unavailable, kafka_libs, program

    said = f"Kafka's {name.rpartition('.')[2]}"
    try:
        command = [program("java"), f"-Xmx{HEAP_MB}m", "-cp", f"{kafka_libs(KAFKA_4)}/*", name, *arguments]
    except Unavailable as error:
        return Peer(said, KAFKA_4, note=str(error))
    return Peer(said, KAFKA_4, partial(peak_mb, command))


def _program(name: str, *arguments: str) -> list[str]:
    """A function of this module as a process."""
    call = f"import sys; from benchmarks.memory import {name}; {name}(*sys.argv[1:])"
    return [sys.executable, "-c", call, *arguments]


def peak_mb(command: Sequence[str]) -> float:
    """Run a command to its end, and return the most memory that it ever had."""
    deadline = time.monotonic() + DEADLINE_S
    peak = 0.0
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError, RuntimeError):  # it has just ended
                    peak = peak_resident_mb(process.pid)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{command[:3]} took more than {DEADLINE_S} s")
                time.sleep(LOOK_S)
        finally:
            process.kill()
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{command[:3]} failed: {said.read().decode(errors='replace')[-800:]}")
    return peak


# --- the programs


def read_ottla(bootstrap: str, topic: str, records: str, wait_s: str) -> None:
    """Columns of all partitions."""
    from ottla import TopicAndPartition
    from ottla.client.client_config import ClientConfig
    from ottla.fetching.engine import FetchEngine
    from ottla.fetching.fetch_config import FetchConfig
    from ottla.fetching.inbox import Inbox

    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    sizes = {"queued.max.bytes": QUEUED_MB * MB, "fetch.message.max.bytes": FETCH_MB * MB}
    with FetchEngine(client, FetchConfig.from_properties(sizes)) as engine:
        inbox = Inbox()
        for partition in range(PARTITIONS):
            engine.add(TopicAndPartition(topic, partition), 0, inbox=inbox)
        left = int(records)
        while left > 0:
            chunk = inbox.poll(DEADLINE_S * 1000)
            if chunk is None:
                raise RuntimeError(f"no records for {DEADLINE_S} s")
            left -= chunk.batch.num_rows
        time.sleep(float(wait_s))


def read_confluent(bootstrap: str, topic: str, records: str, wait_s: str) -> None:
    """Messages of all partitions."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "memory", "fetch.queue.backoff.ms": 1}
    sizes = {"queued.max.messages.kbytes": QUEUED_MB * 1024, "max.partition.fetch.bytes": FETCH_MB * MB}
    consumer = Consumer({**settings, **sizes})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    left = int(records)
    while left > 0:
        left -= len(consumer.consume(min(left, 10_000), DEADLINE_S))
    time.sleep(float(wait_s))
    consumer.close()


def write_ottla(bootstrap: str, topic: str, records: str) -> None:
    """Tables, as fast as they are taken."""
    import pyarrow as pa

    from ottla import Producer

    table = pa.record_batch({"value": pa.array([b"v" * VALUE_BYTES] * TABLE_ROWS, pa.binary())})
    left = int(records)
    with Producer({"bootstrap.servers": bootstrap, "buffer.memory": BUFFER_MB * MB}) as producer:
        while left > 0:
            producer.send_batch(topic, table[:left])
            left -= TABLE_ROWS


def write_confluent(bootstrap: str, topic: str, records: str) -> None:
    """Rows, as fast as they are taken."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": BUFFER_MB * 1024}
    producer, value = Producer(settings), b"v" * VALUE_BYTES
    for _ in range(int(records)):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
