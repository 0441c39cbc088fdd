"""python -m tests.proof.slopes [--seconds 60]: half load for a while; what a process holds must not grow.

Topics with retention and compaction are written at half of the rate that was measured before, a group reads
them while a member joins and leaves, and a record at a time is timed. Memory, descriptors and threads of the
broker and of its clients, and the p99 of the timed records, are sampled. A slope is the median of the slopes
between any two samples (Theil and Sen), so that a busy moment does not count. The run fails where a slope
would have added too much over the run. Where others take more and more of the machine meanwhile, what waits
in clients grows and records take longer: then their memory and the p99 are shown, but not judged.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import combinations, cycle
from pathlib import Path
from statistics import median, quantiles

from ottla import Admin, GroupConsumer, Producer, kernels
from ottla.admin import NewTopic, topic_resource
from tests.broker.faults.broker_process import BrokerProcess
from tests.waiting import PATIENCE_S, wait_for

SETTINGS = {
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": "500",
}
PARTITIONS = 4
RETAINED, COMPACTED, GROUP = "retained", "compacted", "readers"
COMPACTED_ONE_IN = 10
SEGMENTS = 8
"""A partition has about so many when the warm-up is half over, and no more from then on."""
LOAD = "machine load"
KEYS = 500
VALUE = b"x" * 100
RECORD_BYTES = 110
TICK_S = 0.02
CALIBRATION_S = 5.0
WARM_UP = 0.3
"""The part of a run that is left out: caches fill, threads start."""
FILL_S = 60.0
"""The load before a run: readers keep memory in reserve for the next answers, which is full by then."""
WINDOWS = 30
MEMBER_STAYS_S = 1.5


@dataclass(frozen=True)
class Limit:
    """How much a slope may add over a run: a number, and a part of what there was first."""

    plus: float
    part: float


LIMITS = {
    "memory": Limit(8.0, 0.1),
    "descriptors": Limit(8.0, 0.05),
    "threads": Limit(2.0, 0.05),
    "p99": Limit(20.0, 1.0),
}
BUSIER = 1.5
"""A machine is steady while its load average is below this many times the first, and two."""
SHAKEN = {"writers memory", "readers memory", "produce p99"}
UNITS = {"memory": "MB", "descriptors": "open", "threads": "running", "p99": "ms"}


@dataclass
class Series:
    """What was sampled of one thing: seconds since the start, and values."""

    name: str
    at_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.name.rpartition(" ")[2]

    def add(self, at_s: float, value: float) -> None:
        self.at_s.append(at_s)
        self.values.append(value)

    def verdict(self, *, is_steady: bool = True) -> Verdict:
        """Its median and slope behind the warm-up; whether the machine was steady says what is judged."""
        begin = int(len(self.values) * WARM_UP)
        at_s, values = self.at_s[begin:], self.values[begin:]
        usual, per_s = median(values), slope(at_s, values)
        limit, first = LIMITS[self.kind], median(values[: len(values) // 3 + 1])
        added = per_s * (at_s[-1] - at_s[0])
        is_judged = is_steady or self.name not in SHAKEN
        return Verdict(self.name, usual, added, not is_judged or added <= limit.plus + limit.part * first)


@dataclass(frozen=True)
class Verdict:
    """The outcome for a series: its median, what its slope added over the run, and whether it is flat."""

    name: str
    median: float
    added: float
    is_flat: bool

    def __str__(self) -> str:
        unit = UNITS[self.name.rpartition(" ")[2]]
        text = f"{self.name}: {self.median:.1f} {unit}, {self.added:+.2f} over the run"
        return text + ("" if self.is_flat else ": GROWS")


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between any two points."""
    points = zip(at, values, strict=True)
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2))


def held_by(pid: int) -> dict[str, float]:
    """Memory in MB, descriptors and threads of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    numbers = {line.split(":")[0]: line.split(":")[1].split() for line in status}
    return {
        "memory": int(numbers["VmRSS"][0]) / 1024,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(numbers["Threads"][0]),
    }


class Load:
    """Clients in threads, until `close`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    def start(self, *works: Callable[[], None]) -> None:
        """Let each work run in a thread."""
        for work in works:
            self._threads.append(threading.Thread(target=self._guarded, args=(work,)))
            self._threads[-1].start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told by the run
            self.failures.append(repr(error))

    def close(self) -> None:
        """End them."""
        self._over.set()
        for thread in self._threads:
            thread.join()


class Writers(Load):
    """Records at a rate, and one at a time that is timed."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.latencies_ms: list[float] = []
        self.written = 0

    def capacity(self) -> float:
        """Records a second that are stored, flat out, while members read them."""
        sent = 0
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            begun = time.monotonic()
            while time.monotonic() < begun + CALIBRATION_S:
                for number in range(1000):
                    producer.send(RETAINED, VALUE, partition=number % PARTITIONS)
                sent += 1000
            producer.flush()
            return sent / (time.monotonic() - begun)

    def write(self, per_s: float) -> None:
        """Nine of ten records to the topic with retention, the others to the compacted one."""
        keys, partitions = cycle(range(KEYS)), cycle(range(PARTITIONS))
        with Producer(bootstrap_servers=self._bootstrap, linger_ms=5) as producer:
            begun = time.monotonic()
            while not self._over.wait(TICK_S):
                while self.written < (time.monotonic() - begun) * per_s and not self._over.is_set():
                    if self.written % COMPACTED_ONE_IN:
                        producer.send(RETAINED, VALUE, partition=next(partitions))
                    else:
                        producer.send(COMPACTED, VALUE, key=b"%d" % next(keys))
                    self.written += 1

    def probe(self) -> None:
        """One record at a time, and how long each takes."""
        with Producer(bootstrap_servers=self._bootstrap, linger_ms=0) as producer:
            while not self._over.wait(TICK_S):
                begun = time.perf_counter()
                producer.send(RETAINED, VALUE, partition=0).result(60)
                self.latencies_ms.append((time.perf_counter() - begun) * 1000)


class Members(Load):
    """Two members of a group that stay, and one that joins and leaves: a rebalance each time."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.read = self.rebalances = 0
        self.start(self.follow, self.follow, self.come_and_go)

    def follow(self) -> None:
        self._member(lambda: False)

    def come_and_go(self) -> None:
        while not self._over.is_set():
            end = time.monotonic() + MEMBER_STAYS_S
            self._member(lambda end=end: time.monotonic() > end)
            gc.collect()  # a client is in cycles: what it held is no leak, but the collector may come late
            self.rebalances += 2

    def _member(self, is_enough: Callable[[], bool]) -> None:
        with GroupConsumer(
            RETAINED,
            bootstrap_servers=self._bootstrap,
            group_id=GROUP,
            heartbeat_interval_ms=200,
            auto_commit_interval_ms=200,
        ) as consumer:
            while not self._over.is_set() and not is_enough():
                chunk = consumer.poll(0.1)
                self.read += chunk.batch.num_rows if chunk else 0


def run_members(bootstrap: str) -> None:
    """Say when all members have read and one has come and gone; when standard input ends, how often."""
    gc.freeze()
    members = Members(bootstrap)
    wait_for(lambda: members.failures or (members.read and members.rebalances), "members read")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    members.close()
    assert not members.failures, members.failures
    sys.stdout.write(f"{members.read} {members.rebalances}\n")


def steady(loads: Sequence[float]) -> bool:
    """Whether the machine's load has stayed about what it was."""
    return max(loads) <= loads[0] * BUSIER + 2


def size_topics(admin: Admin, per_s: float, seconds: float) -> None:
    """Let segments be begun, deleted and compacted all the time at this rate."""
    partition_bytes = per_s * RECORD_BYTES / PARTITIONS * seconds * WARM_UP / 2
    segment = max(10_000, int(partition_bytes / SEGMENTS))
    retention = {"retention.bytes": f"{SEGMENTS * segment}", "segment.bytes": f"{segment}"}
    segment = max(10_000, segment // COMPACTED_ONE_IN)
    compaction = {
        "cleanup.policy": "compact",
        "segment.bytes": f"{segment}",
        "min.cleanable.dirty.ratio": "0.1",
    }
    admin.alter_configs(topic_resource(RETAINED), retention)
    admin.alter_configs(topic_resource(COMPACTED), compaction)


def measure(
    seconds: float, directory: Path, per_s: float = 0.0, fill_s: float = FILL_S
) -> tuple[list[Series], str]:
    """The samples of a run, and how much was done. Without a rate half of what is possible is written.

    The load begins `fill_s` before the run.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(directory / "data", SETTINGS))
        bootstrap = f"127.0.0.1:{broker.port}"
        admin = stack.enter_context(Admin(bootstrap_servers=bootstrap))
        admin.create_topics([NewTopic(name, PARTITIONS) for name in (RETAINED, COMPACTED)])
        writers = stack.enter_context(closing(Writers(bootstrap)))
        writers.start(writers.probe)
        command = [sys.executable, "-m", "tests.proof.slopes", "--members", bootstrap]
        members = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert members.stdout is not None
        assert members.stdout.readline() == "ready\n"
        rate = per_s or writers.capacity() / 2
        size_topics(admin, rate, seconds)
        writers.start(lambda: writers.write(rate))
        time.sleep(fill_s)
        pids = {"broker": broker.pid, "writers": os.getpid(), "readers": members.pid}
        samples = _sampled(seconds, pids, writers.latencies_ms)
        writers.close()
        read, rebalances = members.communicate(timeout=PATIENCE_S)[0].split()
        assert not writers.failures, writers.failures
        assert not broker.surprises, broker.surprises
        started = int(min(path.stem for path in (directory / "data" / f"{RETAINED}-0").glob("*.log")))
        done = (
            f"{writers.written:,} records written at {rate:,.0f}/s, {int(read):,} read, {rebalances} "
            f"rebalances, retention up to offset {started:,} of a partition, {fill_s + seconds:.0f} s"
        )
    return samples, done


def _sampled(seconds: float, pids: dict[str, int], latencies_ms: list[float]) -> list[Series]:
    series = {f"{name} {kind}": Series(f"{name} {kind}") for name in pids for kind in held_by(os.getpid())}
    series["produce p99"] = Series("produce p99")
    series[LOAD] = Series(LOAD)
    begun = time.monotonic()
    for window in range(WINDOWS):
        series[LOAD].add(time.monotonic() - begun, os.getloadavg()[0])
        first = len(latencies_ms)
        end = begun + seconds * (window + 1) / WINDOWS
        rounds: dict[str, list[float]] = {}
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, max(seconds / WINDOWS / 5, 0.05)))
            for name, pid in pids.items():
                for kind, value in held_by(pid).items():
                    rounds.setdefault(f"{name} {kind}", []).append(value)
        at_s = time.monotonic() - begun
        for name, values in rounds.items():
            series[name].add(at_s, median(values))
        times = latencies_ms[first:]
        if len(times) > 1:
            series["produce p99"].add(at_s, quantiles(times, n=100)[98])
    return [*series.values()]


def main() -> int:
    """Return 1 if something grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.slopes", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--members", metavar="BOOTSTRAP", help="only the members; for the run itself")
    options = parser.parse_args()
    # They would be loaded at some time later: a step of 100 MB, and not of the load.
    os.environ["OTTLA_KERNELS"] = "compiled"
    kernels.use("compiled")
    if options.members:
        run_members(options.members)
        return 0
    with tempfile.TemporaryDirectory(prefix="ottla-slopes-") as directory:
        series, done = measure(options.seconds, Path(directory))
    loads = next(each.values for each in series if each.name == LOAD)
    verdicts = [each.verdict(is_steady=steady(loads)) for each in series if each.name != LOAD]
    judged = "" if steady(loads) else f"; {', '.join(sorted(SHAKEN))} were not judged"
    lines = [
        done,
        *map(str, verdicts),
        f"the machine's load was {min(loads):.1f} to {max(loads):.1f}{judged}",
    ]
    sys.stdout.write("".join(f"figure: {line}\n" for line in lines))
    return 0 if all(verdict.is_flat for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
