"""The lag of many groups: `Admin.group_lag` beside Kafka's own tool, on one broker of ours.

500 groups have committed an offset of each of 1,000 partitions (`--quick`: 50 groups), none of which is at
the end of its log. The same is measured of a tenth and of a hundredth of the groups. The tool is
kafka-consumer-groups --describe --all-groups of Kafka 4 in a new Java; ours is a call in this process,
connections included, and a look at every row.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from benchmarks.broker.contenders import counted, ottla
from benchmarks.broker.processes import Server
from benchmarks.harness import FULL, Better, Case, Effort, Measure, Peer, benchmark, growth, noted
from ottla.admin import Admin, NewTopic
from ottla.model.topic_partition import TopicAndPartition
from ottla.producer import Producer
from tools.peer_cache import KAFKA_4, Unavailable, kafka_libs, program

GROUPS, FEW_GROUPS, PARTITIONS = 500, 50, 1_000
LIMIT_S = 1.0
GROWTH_LIMIT = 1.2
TOPIC = "many"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TIMEOUT_S = 600


@benchmark("lag")
def lag(effort: Effort) -> Iterator[Case]:
    """All groups at once."""
    most = GROUPS if effort is FULL else FEW_GROUPS
    seconds: dict[int, list[float]] = {}
    for groups in (max(most // 100, 1), most // 10, most):
        seconds[groups] = []
        with ottla() as server:
            _fill(server, groups)
            limit = Peer("what it may be", measure=partial(float, LIMIT_S * groups / GROUPS), target=1)
            yield Case(
                f"lag of {counted(groups, 'group')} with {PARTITIONS:,} partitions each",
                "s",
                noted(_ours(server, groups), seconds[groups]),
                [limit, _tool(server, groups)] if groups == most else [],
                effort.process_rounds,
                Better.LESS,
                is_warmed=False,
            )
    yield growth("the lag of groups", seconds, GROWTH_LIMIT)


def _fill(server: Server, groups: int) -> None:
    """A record in each partition, and offset 0 committed by each group."""
    columns = {
        "value": pa.array([b"one"] * PARTITIONS, pa.binary()),
        "partition": pa.array(range(PARTITIONS), pa.int32()),
    }
    offsets = {TopicAndPartition(TOPIC, number): 0 for number in range(PARTITIONS)}
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.create_topics(NewTopic(TOPIC, PARTITIONS))
        with Producer(bootstrap_servers=server.bootstrap) as producer:
            producer.send_batch(TOPIC, pa.record_batch(columns))
        for number in range(groups):
            admin.alter_group_offsets(f"group-{number:03}", offsets)


def _ours(server: Server, groups: int) -> Measure:
    def measure() -> float:
        start = time.perf_counter()
        with Admin(bootstrap_servers=server.bootstrap) as admin:
            names = [group.group_id for group in admin.list_groups()]
            lags = admin.group_lag(names)
        behind = sum(row.lag or 0 for group in lags.values() for row in group.partitions)
        seconds = time.perf_counter() - start
        if behind != groups * PARTITIONS:
            raise RuntimeError(f"ottla finds a lag of {behind:,}, not {groups * PARTITIONS:,}")
        return seconds

    return measure


def _tool(server: Server, groups: int) -> Peer:
    name = "kafka-consumer-groups"
    try:
        libs = kafka_libs(KAFKA_4)
    except Unavailable as error:
        return Peer(name, KAFKA_4, note=str(error), target=1)
    command = [program("java"), "-cp", f"{libs}/*", TOOL, "--bootstrap-server", server.bootstrap]
    command += ["--describe", "--all-groups", "--timeout", str(TIMEOUT_S * 1000)]

    def measure() -> float:
        start = time.perf_counter()
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        seconds = time.perf_counter() - start
        rows = sum(TOPIC in line.split() for line in said.stdout.splitlines())
        if rows != groups * PARTITIONS:
            raise RuntimeError(f"{name} shows {rows:,} rows, not {groups * PARTITIONS:,}")
        return seconds

    return Peer(name, KAFKA_4, measure, target=1)
