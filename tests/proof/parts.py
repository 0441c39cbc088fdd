"""The parts of the proof: what each does, how it is run, and what a round of it counts."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SECONDS_MIN = 45.0
SUITE = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
SIZE = re.compile(r"\{size\*(\d+)\}")


@dataclass(frozen=True)
class Part:
    """A command that fails if it finds anything. `{seed}` stands for the seed of a round, `{seconds}` for
    the part's time, at least SECONDS_MIN, and `{size*8}` for 8 times the size of the round.

    `weight` is its share of the time. `counts` are what a round of size 1 counts: numbers, or names of
    numbers in a module. `environment` is added to that of the proof. A part is run round by round, each with
    a new seed, until its time is over; at least once. Its rounds have a size of 1 to `size_max`.
    """

    name: str
    does: str
    arguments: tuple[str, ...]
    counts: Mapping[str, int | str] = field(default_factory=dict)
    weight: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    size_max: int = 1

    def command(self, seed: int, seconds: float = 0.0, size: int = 1) -> list[str]:
        """What Python is started with."""
        time_s = f"{max(seconds, SECONDS_MIN):.0f}"
        return [
            _of_size(each, size).replace("{seed}", str(seed)).replace("{seconds}", time_s)
            for each in self.arguments
        ]

    def environment_of(self, size: int = 1) -> dict[str, str]:
        """What is added to the environment."""
        return {name: _of_size(value, size) for name, value in self.environment.items()}

    def counted(self, size: int = 1) -> dict[str, int]:
        """What a round that passed adds."""
        return {name: _number(value) * size for name, value in self.counts.items()}


def _of_size(text: str, size: int) -> str:
    """The text for a round of this size."""
    return SIZE.sub(lambda found: str(size * int(found[1])), text)


def _number(value: int | str) -> int:
    """A number, or the one that `module:name` or `module:name.field` has."""
    if isinstance(value, int):
        return value
    module, _, path = value.partition(":")
    found: object = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    assert isinstance(found, int)
    return found


def _suite(name: str, does: str, path: str, weight: float = 1.0, **counts: int | str) -> Part:
    spelled = {key.replace("_", " "): value for key, value in counts.items()}
    return Part(name, does, (*SUITE, path), spelled, weight)


def _kills(name: str, does: str, path: str, counted: str, kills: int, *, is_nightly: bool = False) -> Part:
    """A test with so many kills in a round of size 1. `make test` leaves out those that are nightly."""
    environment = {"OTTLA_KILLS": f"{{size*{kills}}}"} | ({"OTTLA_SOAK": "1"} if is_nightly else {})
    return Part(name, does, (*SUITE, path), {counted: kills}, environment=environment, size_max=200)


def _churn(strategy: str, kafka: str = "") -> Part:
    members = ("--processes=4", "--members-each=3", "--partitions=16")
    scale = (*members, "--messages={size*100000}", "--events={size*10}")
    command = ("-m", "tests.consumer.coordinated.churn", f"--strategy={strategy}", "--offsets=kafka")
    beside = (f"--kafka={kafka}",) if kafka else ()
    where = f" on Apache Kafka {kafka}" if kafka else ""
    return Part(
        f"churn, {strategy}{where}",
        "members of several clients join, leave, are killed and stopped",
        (*command, *scale, *beside, "--seed={seed}"),
        {f"churn events{where}": 10, f"messages in churn{where}": 100_000},
        size_max=10,
    )


def _cuts(flush: str, points: int, weight: float) -> Part:
    command = ("-m", "tests.proof.power_loss", f"--flush={flush}", f"--points={points}", "--seed={seed}")
    does = "the power fails at instants of a recorded history of a broker with four kinds of clients"
    return Part(f"power loss, flush={flush}", does, command, {"power cuts": points}, weight)


PARTS = (
    _cuts("always", 2_000, 3),
    _cuts("os", 1_000, 1),
    _kills(
        "broker kills",
        "kill -9 while clients write, make topics and commit",
        "tests/broker/faults/test_kills.py",
        "broker kills",
        8,
    ),
    _kills(
        "kills in compaction",
        "kill -9 while logs are compacted",
        "tests/broker/faults/test_kills_in_compaction.py",
        "broker kills",
        3,
    ),
    _kills(
        "exactly once",
        "workers are killed and replaced, the broker is killed",
        "tests/transactions/test_kills.py::test_exactly_once_under_kills",
        "kills in transactions",
        60,
    ),
    _kills(
        "exactly once on Apache Kafka",
        "the same workers and kills",
        "tests/transactions/test_kills.py::test_apache_kafka_under_the_same_kills",
        "kills in transactions on Apache Kafka",
        30,
        is_nightly=True,
    ),
    Part(
        "faults of every kind",
        "lines cut, delay, throttle, go silent and repeat; stops, kills, clock jumps, no descriptors",
        ("-m", "tests.proof.faults", "--count={size*39}", "--seed={seed}"),
        {"faults of lines, clocks and processes": 39},
        size_max=10,
    ),
    _kills(
        "ZooKeeper faults",
        "sessions end, ZooKeeper goes away, members are stopped and killed",
        "tests/consumer/classic/test_faults.py",
        "ZooKeeper faults",
        20,
    ),
    _churn("consumer"),
    _churn("range"),
    _churn("cooperative-sticky"),
    _churn("share"),
    _churn("zookeeper"),
    _churn("consumer", kafka="4.3.1"),
    _suite(
        "share groups",
        "members of a share group and their broker are killed",
        "tests/broker/share_groups/test_share_kills.py",
        kills_of_share_groups="tests.broker.share_groups.test_share_kills:SCALE.kills",
    ),
    _kills(
        "mirror kills",
        "a mirror is killed while its source grows",
        "tests/mirror/test_kills.py",
        "mirror kills",
        5,
    ),
    _kills(
        "mirror, exactly once",
        "a mirror with transactions is killed",
        "tests/mirror/test_exactly_once.py",
        "mirror kills",
        20,
    ),
    _kills(
        "mirror over bad lines",
        "lines of a mirror to both brokers cut, delay, throttle, go silent and repeat",
        "tests/mirror/test_lines.py",
        "faults of lines, clocks and processes",
        10,
    ),
    _kills(
        "Spark kills",
        "drivers and workers are killed",
        "tests/spark/test_kills.py",
        "Spark kills",
        10,
        is_nightly=True,
    ),
    _suite(
        "Spark, exactly once",
        "a write to Kafka dies between any two of its steps; drivers and workers are killed",
        "tests/spark/test_exactly_once_kills.py",
        Spark_kills="tests.spark.test_exactly_once_kills:KILLS",
        deaths_between_steps_of_Spark="tests.spark.test_exactly_once_kills:DEATHS",
    ),
    Part(
        "half load",
        "retention, compaction and rebalances for a while: memory, descriptors, threads and p99 stay flat",
        ("-m", "tests.proof.slopes", "--seconds={seconds}"),
        weight=3,
    ),
    _suite(
        "damaged files",
        "each kind of file is deleted, cut, flipped, enlarged and zeroed",
        "tests/broker/faults/test_damage_matrix.py",
    ),
    _suite("full disk", "the disk has no room for a while", "tests/broker/faults/test_full_disk.py"),
    Part(
        "hostile bytes",
        "damaged messages, record sets and streams",
        ("-m", "tests.fuzz", "--count={size*100000}", "--seed={seed}"),
        {"fuzzed inputs": 100_000},
        size_max=100,
    ),
    Part(
        "hostile peers",
        "damaged requests to a running broker, an honest client beside them",
        ("-m", "tests.fuzz.live", "--count={size*20000}", "--seed={seed}"),
        {"live frames": 20_000},
        size_max=100,
    ),
    _suite(
        "strangers",
        "requests before a login, and without rights",
        "tests/broker/security/test_nobody_gets_in.py",
        unauthenticated_tries="tests.broker.security.test_nobody_gets_in:TRIES",
        tries_without_rights="tests.broker.security.test_nobody_gets_in:RIGHTLESS",
    ),
    Part(
        "simulated system",
        "brokers, ZooKeeper, groups of every kind and transactions in virtual time; the power fails too",
        ("-m", "tests.proof.simulated", "--seeds={size*1}", "--first={seed}", "--hours=1"),
        {"simulated hours": 1},
        2,
        size_max=200,
    ),
    Part(
        "simulated ZooKeeper groups",
        "classic members, ZooKeeper and brokers in virtual time",
        ("-m", "tests.consumer.classic.simulation", "--seeds=400", "--first={seed}"),
        {"simulated histories": 400},
    ),
    _suite(
        "simulated coordinator",
        "groups under faults in virtual time",
        "tests/broker/groups/coordinator/test_simulation.py",
        simulated_histories="tests.broker.groups.coordinator.test_simulation:SEEDS",
    ),
    _suite(
        "simulated members",
        "classic members and their coordinator",
        "tests/consumer/coordinated/test_member_simulation.py",
        simulated_histories="tests.consumer.coordinated.test_member_simulation:SEEDS",
    ),
    _suite(
        "simulated consumer groups",
        "members of KIP-848, mixed with classic ones",
        "tests/consumer/coordinated/test_consumer_simulation.py",
        simulated_histories="tests.consumer.coordinated.test_consumer_simulation:SEEDS",
    ),
    _suite(
        "simulated transactions",
        "a coordinator that restarts between any two writes",
        "tests/broker/transactions/coordinator/test_transaction_simulation.py",
        simulated_histories="tests.broker.transactions.coordinator.test_transaction_simulation:SEEDS",
    ),
    _suite(
        "simulated share partitions",
        "locks, times and acknowledgements of shared records",
        "tests/broker/share_groups/test_share_partition_simulation.py",
        simulated_histories="tests.broker.share_groups.test_share_partition_simulation:SEEDS",
    ),
    Part(
        "planted bugs",
        "each bug makes a part of the proof fail",
        ("-m", "tests.proof.planted_bugs", "--seconds={seconds}", "--seed={seed}"),
        weight=4,
    ),
)

TARGETS = {
    "power cuts": 100_000,
    "broker kills": 1_000,
    "ZooKeeper faults": 700,
    "churn events": 1_000,
    "messages in churn": 1_000_000,
    "Spark kills": 100,
    "mirror kills": 500,
    "fuzzed inputs": 100_000_000,
    "live frames": 10_000_000,
    "unauthenticated tries": 10_000,
    "simulated hours": 10_000,
}
"""What the page aims at, over all runs."""
