"""What it costs to begin: imports, the first decode, a first program, and the way to full speed.

Every measurement is a process of its own. Seconds and peak memory count from after the interpreter's own
start to after the step, imports included. "Cold" means that the kernel cache is empty, as in a new container;
"warm" that an earlier process filled it. Lower is better.

Bytecode is there already, for all contenders, as after an installation by pip.

The first program starts a broker, sends three records and reads them. The peers' programs do it with the same
broker and their own clients. Two rows are about a steady load that begins with an empty cache: how long it
takes until a decode takes no more CPU time than at the end (times FULL_SPEED), and until all kernels are
compiled and serve, those too that this load does not use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import (
    Better,
    Case,
    Effort,
    Measure,
    Peer,
    benchmark,
    bytecode_kept,
    version_of,
)
from benchmarks.workload import Shape, record_sets

# ru_maxrss is no use on Linux: a process starts with its parent's.
_CHILD = """
import sys, time
def peak_kb():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
start, wall, before = time.process_time(), time.perf_counter(), peak_kb()
{step}
print(
    time.process_time() - start, (peak_kb() - before) / 1024, time.perf_counter() - wall, peak_kb() / 1024,
    *globals().get("reached_s", ()),
)
"""

_OUR_DECODE = """
from ottla.records.reader import decode
decode(open(sys.argv[1], "rb").read())
"""

_PEER_DECODE = """
import pyarrow as pa
from {package}.record.memory_records import MemoryRecords
records, values = MemoryRecords(open(sys.argv[1], "rb").read()), []
while records.has_next():
    values += [record.value for record in records.next_batch()]
pa.array(values, pa.binary())
"""

_FIRST_PROGRAM = """
from ottla import EmbeddedBroker
with EmbeddedBroker() as broker:
    broker.create_topic("first")
    {client}
assert values == [b"0", b"1", b"2"], values
"""

_OUR_CLIENT = """
    from ottla import Producer, replay
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(3):
            producer.send("first", b"%d" % number)
    values = [message.value for message in replay("first", bootstrap_servers=broker.bootstrap).messages()]
"""

_PEER_CLIENTS = {
    "confluent-kafka": """
    from confluent_kafka import Consumer, Producer, TopicPartition
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for number in range(3):
        producer.produce("first", b"%d" % number)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("first", 0, 0)])
    values = [message.value() for message in consumer.consume(3, 60)]
    consumer.close()
""",
    "aiokafka": """
    import asyncio
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    async def client():
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(3):
                await producer.send_and_wait("first", b"%d" % number)
        settings = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("first", **settings) as consumer:
            return [(await consumer.getone()).value for _ in range(3)]
    values = asyncio.run(client())
""",
}

# A decode is timed by its thread: the kernels are loaded by another one.
_STEADY_LOAD = """
from ottla import kernels
from ottla.records.reader import decode
data = open(sys.argv[1], "rb").read()
rounds = []
def decode_once():
    began = time.thread_time()
    decode(data)
    rounds.append((time.perf_counter() - wall, time.thread_time() - began))
while getattr(kernels.path(), "__name__", "") != "ottla.kernels.compiled":
    decode_once()
count = len(rounds)
for _ in range(200):
    decode_once()
full = {full_speed} * sorted(cpu_s for _, cpu_s in rounds[count:])[100]
fast = [sum(cpu_s <= full for _, cpu_s in rounds[at:at + 20]) >= 10 for at in range(len(rounds) - 19)]
reached_s = rounds[fast.index(True)][0], rounds[count][0]
"""
FULL_SPEED = 1.25

_PACKAGES = {"aiokafka": "aiokafka", "kafka-python": "kafka", "confluent-kafka": "confluent_kafka"}
_PARSERS = ("aiokafka", "kafka-python")

# A way to run a piece of Python: CPU seconds, peak MB more than before, seconds, peak MB of the process; for
# a steady load also the seconds to its full speed, and to compiled kernels.
Run = Callable[[str], list[float]]
_CPU_S, _MORE_MB, _SECONDS, _PEAK_MB, _FULL_SPEED_S, _COMPILED_S = range(6)


@benchmark("startup")
def startup(effort: Effort) -> Iterator[Case]:
    """Imports and first decodes."""
    with bytecode_kept(), tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        place = Path(directory)
        data = place / "records"
        data.write_bytes(record_sets(Shape(key_bytes=8), 1).sets[0])
        warm, cold = _runner(data, place / "warm"), _runner(data, None)
        imports = {name: f"import {package}" for name, package in _PACKAGES.items()}
        decodes = {name: _PEER_DECODE.format(package=_PACKAGES[name]) for name in _PARSERS}
        yield from _cases("import ottla", "import ottla", warm, imports, effort)
        yield from _cases("import ottla.records.reader", "import ottla.records.reader", warm, imports, effort)
        yield from _cases("first decode, warm kernel cache", _OUR_DECODE, warm, decodes, effort)
        yield from _cases("first decode, cold kernel cache", _OUR_DECODE, cold, decodes, effort)
        yield from _first_program(cold, effort)
        for name, run in (("cold", cold), ("warm", warm)):
            yield from _full_speed(name, run, effort)


def _first_program(run: Run, effort: Effort) -> Iterator[Case]:
    ours = _FIRST_PROGRAM.format(client=_OUR_CLIENT.strip())
    peers = {name: _FIRST_PROGRAM.format(client=client.strip()) for name, client in _PEER_CLIENTS.items()}
    for unit, index, goal in (("s", _SECONDS, 0.6), ("MB", _PEAK_MB, 140)):
        measured = [_peer(name, _measure(run, step, index)) for name, step in peers.items()]
        measure = _measure(run, ours, index)
        rounds = effort.process_rounds
        yield Case("first program", unit, measure, [_goal(goal, unit), *measured], rounds, Better.LESS)


def _full_speed(cache: str, run: Run, effort: Effort) -> Iterator[Case]:
    steady = _STEADY_LOAD.format(full_speed=FULL_SPEED)
    for what, index in (
        ("a steady load decodes at full speed", _FULL_SPEED_S),
        ("all kernels are compiled", _COMPILED_S),
    ):
        yield Case(
            f"{what} after, {cache} cache",
            "s",
            _measure(run, steady, index),
            [_goal(10, "s")],
            effort.process_rounds,
            Better.LESS,
            is_warmed=cache == "warm",
        )


def _goal(value: float, unit: str) -> Peer:
    """A limit, as something to compare with: 1 or more means that it is kept."""
    return Peer(f"goal: {value:g} {unit}", measure=lambda: value, target=1)


def _cases(name: str, step: str, run: Run, peer_steps: dict[str, str], effort: Effort) -> Iterator[Case]:
    for unit, index in (("CPU s", _CPU_S), ("MB", _MORE_MB)):
        peers = [_peer(peer, _measure(run, peer_step, index)) for peer, peer_step in peer_steps.items()]
        yield Case(name, unit, _measure(run, step, index), peers, effort.process_rounds, Better.LESS)


def _peer(name: str, measure: Measure) -> Peer:
    version = version_of(name)
    return Peer(name, version, measure) if version else Peer(name, note="not installed")


def _measure(run: Run, step: str, index: int) -> Measure:
    return lambda: run(step)[index]


def _runner(data: Path, cache: Path | None) -> Run:
    """Runs with this kernel cache, or with a new one each time."""

    def run(step: str) -> list[float]:
        with tempfile.TemporaryDirectory(dir=data.parent) as fresh:
            environment = os.environ | {"NUMBA_CACHE_DIR": str(cache or fresh), "OTTLA_KERNELS": "auto"}
            command = [sys.executable, "-c", _CHILD.format(step=step), str(data)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [*map(float, done.stdout.split())]

    return run
