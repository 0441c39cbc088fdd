"""What it costs to begin: importing, the first decode with and without compiled kernels on disk, memory.

Every measurement is a process of its own. CPU seconds and peak memory count from after the interpreter's own
start to after the step, imports included. "Cold" means that the kernel cache is empty, as after an upgrade;
"warm" that an earlier process filled it. Lower is better; there are no targets.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, version_of
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
start, before = time.process_time(), peak_kb()
{step}
print(time.process_time() - start, (peak_kb() - before) / 1024)
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

_PACKAGES = {"aiokafka": "aiokafka", "kafka-python": "kafka", "confluent-kafka": "confluent_kafka"}
_PARSERS = ("aiokafka", "kafka-python")

# A way to run a piece of Python: (CPU seconds, peak MB).
Run = Callable[[str], tuple[float, float]]


@benchmark("startup")
def startup(effort: Effort) -> Iterator[Case]:
    """Imports and first decodes."""
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
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


def _cases(name: str, step: str, run: Run, peer_steps: dict[str, str], effort: Effort) -> Iterator[Case]:
    for index, unit in enumerate(("CPU s", "MB")):
        peers = [_peer(peer, _measure(run, peer_step, index)) for peer, peer_step in peer_steps.items()]
        yield Case(name, unit, _measure(run, step, index), peers, effort.process_rounds, Better.LESS)


def _peer(name: str, measure: Measure) -> Peer:
    version = version_of(name)
    return Peer(name, version, measure) if version else Peer(name, note="not installed")


def _measure(run: Run, step: str, index: int) -> Measure:
    return lambda: run(step)[index]


def _runner(data: Path, cache: Path | None) -> Run:
    """Runs with this kernel cache, or with a new one each time."""

    def run(step: str) -> tuple[float, float]:
        with tempfile.TemporaryDirectory(dir=data.parent) as fresh:
            environment = os.environ | {"NUMBA_CACHE_DIR": str(cache or fresh)}
            command = [sys.executable, "-c", _CHILD.format(step=step), str(data)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        cpu_s, peak_mb = map(float, done.stdout.split())
        return cpu_s, peak_mb

    return run
