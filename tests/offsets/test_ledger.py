"""The ledger: positions with the results, one worker a partition, exactly once whatever dies when."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

from ottla import EmbeddedBroker
from ottla.model.errors import ConfigError, OwnershipLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import LedgerOffsets, OffsetAndMetadata, OffsetLedger
from ottla.offsets.databases import database_of
from tests.fetching.traffic import Writer
from tests.offsets.database_servers import KINDS, NotHere, connect, database
from tests.scale import REPLAY, seeded, sized

T0, T1 = TopicAndPartition("t", 0), TopicAndPartition("t", 1)
KILLS = sized(3, 100)
PARTITIONS, RECORDS = 3, 600 * KILLS


@pytest.fixture(scope="module", params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with database(request.param, tmp_path_factory.mktemp("database")) as found:
            yield found
    except NotHere as reason:
        pytest.skip(f"no {request.param} here: {reason}")


@pytest.fixture
def connection(address: str) -> Iterator[Any]:
    """With a table for results; both tables are gone afterwards."""
    one = connect(address)
    one.cursor().execute("CREATE TABLE results (part INTEGER, place BIGINT, value VARCHAR(100))")
    one.commit()
    OffsetLedger(one, group_id="g").create_table()
    yield one
    one.close()
    one = connect(address)
    for table in ("results", "ottla_offsets"):
        one.cursor().execute(f"DROP TABLE {table}")
    one.commit()
    one.close()


def store(
    ledger: OffsetLedger,
    place: TopicAndPartition,
    next_offset: int,
    and_then: Callable[[], object] = lambda: None,
) -> None:
    with ledger.transaction() as cursor:
        cursor.execute(f"INSERT INTO results VALUES ({place.partition}, {next_offset}, 'x')")
        ledger.record(cursor, place, next_offset)
        and_then()


def results(connection: Any) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.execute("SELECT part, place, value FROM results ORDER BY part, place")
    found = [tuple(row) for row in cursor.fetchall()]
    connection.commit()
    return found


def test_a_worker_goes_on_where_the_last_one_stored(connection: Any) -> None:
    ledger = OffsetLedger(connection, group_id="g")
    assert ledger.start([T0, T1]) == {T0: "earliest", T1: "earliest"}
    assert ledger.positions == {T0: -1, T1: -1}
    store(ledger, T0, 10)
    store(ledger, T0, 25)
    assert ledger.positions == {T0: 25, T1: -1}
    assert OffsetLedger(connection, group_id="g").start([T0, T1], "latest") == {T0: 25, T1: "latest"}
    assert OffsetLedger(connection, group_id="another group").start([T0]) == {T0: "earliest"}


def test_results_and_positions_are_rolled_back_together(connection: Any) -> None:
    ledger = OffsetLedger(connection, group_id="g")
    ledger.start([T0])
    store(ledger, T0, 10)
    with pytest.raises(ZeroDivisionError):
        store(ledger, T0, 99, and_then=lambda: 1 / 0)
    assert ledger.positions == {T0: 10}
    assert results(connection) == [(0, 10, "x")]
    store(ledger, T0, 11)
    assert OffsetLedger(connection, group_id="g").start([T0]) == {T0: 11}


def test_of_two_workers_of_a_partition_only_the_later_one_stores(connection: Any) -> None:
    old, new = OffsetLedger(connection, group_id="g"), OffsetLedger(connection, group_id="g")
    old.start([T0, T1])
    store(old, T0, 10)
    assert new.start([T0]) == {T0: 10}
    with pytest.raises(OwnershipLost, match=r"group 'g', t-0: the ledger is at offset 10, epoch 2.*epoch 1"):
        store(old, T0, 20)
    store(new, T0, 30)
    with pytest.raises(OwnershipLost, match="the ledger is at offset 30, epoch 2"):
        store(old, T0, 40)
    assert results(connection) == [(0, 10, "x"), (0, 30, "x")]
    store(old, T1, 1)  # this one was not taken


def test_a_position_that_was_changed_by_hand_is_not_written_over(connection: Any) -> None:
    ledger = OffsetLedger(connection, group_id="g")
    ledger.start([T0])
    store(ledger, T0, 10)
    connection.cursor().execute("UPDATE ottla_offsets SET next_offset = 5")
    connection.commit()
    with pytest.raises(OwnershipLost, match="at offset 5, epoch 1, and this worker left it at offset 10"):
        store(ledger, T0, 20)
    connection.cursor().execute("DELETE FROM ottla_offsets")
    connection.commit()
    with pytest.raises(OwnershipLost, match="the ledger is at gone"):
        store(ledger, T0, 20)


def test_rows_that_are_stored_already_are_trimmed(connection: Any) -> None:
    ledger = OffsetLedger(connection, group_id="g")
    ledger.start([T0])
    batch = pa.record_batch({"offset": pa.array([3, 5, 8, 9])})
    assert ledger.unseen(T0, batch).equals(batch)
    with ledger.transaction() as cursor:
        ledger.record(cursor, T0, 6)
        assert ledger.unseen(T0, batch)["offset"].to_pylist() == [8, 9]
    assert ledger.unseen(T0, batch)["offset"].to_pylist() == [8, 9]
    store(ledger, T0, 10)
    assert ledger.unseen(T0, batch).num_rows == 0


def test_the_table_can_be_read_and_written_from_outside(connection: Any) -> None:
    outside = LedgerOffsets(connection)
    assert outside.fetch_all("g") == {}
    outside.commit("g", {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)})
    ledger = OffsetLedger(connection, group_id="g")
    assert ledger.start([T0]) == {T0: 3}
    outside.commit("g", {T0: OffsetAndMetadata(2)})
    with pytest.raises(OwnershipLost), ledger.transaction() as cursor:
        ledger.record(cursor, T0, 5)
    assert outside.fetch_all("g") == {T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(4)}


def test_mistakes_are_named(connection: Any) -> None:
    ledger = OffsetLedger(connection, group_id="g")
    with pytest.raises(ConfigError, match=r"t-0 was not started in the ledger of group 'g': start\(\) it"):
        store(ledger, T0, 1)
    ledger.start([T0])
    store(ledger, T0, 10)
    with pytest.raises(ConfigError, match="t-0: 9 is before the stored position 10"):
        store(ledger, T0, 9)
    with pytest.raises(ConfigError, match="record positions inside"):
        ledger.record(connection.cursor(), T0, 11)
    with ledger.transaction(), pytest.raises(ConfigError, match="transaction open already"):
        ledger.start([T1])
    with pytest.raises(ConfigError, match="give a plain name"):
        OffsetLedger(connection, group_id="g", table="t; drop table results")


class LosesAnswers(sqlite3.Connection):
    """A server whose last words do not arrive, when `loses` is set."""

    loses = False

    def commit(self) -> None:
        super().commit()
        if self.loses:
            raise sqlite3.OperationalError("the server is gone")


def test_after_an_end_without_an_answer_start_tells_the_truth(tmp_path: Path) -> None:
    one = sqlite3.connect(tmp_path / "db", factory=LosesAnswers)
    one.execute("CREATE TABLE results (part, place, value)")
    ledger = OffsetLedger(one, group_id="g")
    ledger.create_table()
    ledger.start([T0])
    one.loses = True
    with pytest.raises(sqlite3.OperationalError):
        store(ledger, T0, 10)
    one.loses = False
    with pytest.raises(ConfigError, match="was not started"):
        store(ledger, T0, 20)
    assert ledger.start([T0]) == {T0: 10}
    one.close()


@pytest.mark.parametrize("isolation", ["", None, "EXCLUSIVE"])
def test_every_way_of_sqlite_to_begin_is_fine(tmp_path: Path, isolation: Any) -> None:
    one = sqlite3.connect(tmp_path / "db", isolation_level=isolation)
    one.execute("CREATE TABLE results (part, place, value)")
    ledger = OffsetLedger(one, group_id="g", table="main.positions")
    ledger.create_table()
    ledger.start([T0])
    store(ledger, T0, 3)
    assert not one.in_transaction
    assert one.execute("SELECT next_offset, epoch FROM positions").fetchall() == [(3, 1)]
    one.close()


class Noting:
    """A connection of some module, and its cursor."""

    autocommit = False

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def cursor(self) -> Noting:
        return self

    def execute(self, *call: object) -> None:
        self.calls.append(call)

    def fetchall(self) -> list[tuple[int, ...]]:
        return [(4, 1)]

    def commit(self) -> None:
        self.calls.append(("commit",))

    def rollback(self) -> None:
        self.calls.append(("rollback",))

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("style", "text", "values"),
    [
        ("qmark", "a ? b ?", (7, "x")),
        ("format", "a %s b %s", (7, "x")),
        ("pyformat", "a %s b %s", (7, "x")),
        ("numeric", "a :1 b :2", (7, "x")),
        ("named", "a :p1 b :p2", {"p1": 7, "p2": "x"}),
    ],
)
def test_placeholders_are_the_modules(style: str, text: str, values: object) -> None:
    connection = Noting()
    database_of(connection, style).rows(connection, "a ? b ?", (7, "x"))
    assert connection.calls == [(text, values)]


def test_modules_that_do_not_tell_need_a_paramstyle_and_no_autocommit() -> None:
    with pytest.raises(ConfigError, match=r"paramstyle='' of .*give one of qmark"):
        OffsetLedger(Noting(), group_id="g")
    connection = Noting()
    connection.autocommit = True
    with pytest.raises(ConfigError, match="autocommit=True"):
        OffsetLedger(connection, group_id="g", paramstyle="qmark").start([T0])
    assert connection.calls == []


# --- killed


class Workers:
    """The process that forks workers; `run` starts one and kills it, or lets it end."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.offsets.ledger_worker", *map(str, arguments)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        output: IO[str] | None = self._process.stdout
        assert output is not None
        return output.readline().strip()

    def run(self, *, kill_after: int | None = None, delay_s: float = 0.0) -> str:
        """How the worker ended: killed so long after so many transactions, or by itself."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        pid, stored = int(self._line()), 0
        while True:
            if stored == kill_after:
                kill_after = None
                time.sleep(delay_s)
                os.kill(pid, signal.SIGKILL)
            line = self._line()
            if line != "stored":
                return line
            stored += 1

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def read_and_kill(address: str, chance: random.Random, reader: str) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", PARTITIONS)
        with Writer(broker.bootstrap) as writer:
            for number in range(PARTITIONS):
                writer.write(TopicAndPartition("t", number), RECORDS, at_once=60)
        workers = Workers(address, broker.bootstrap, PARTITIONS, RECORDS, reader)
        try:
            ends = [
                workers.run(kill_after=chance.randrange(12), delay_s=chance.uniform(0, 0.02))
                for _ in range(KILLS)
            ]
            assert ends == ["ended -9"] * KILLS
            assert workers.run() == "ended 0"
        finally:
            workers.close()


@pytest.mark.parametrize("reader", ["engine", "group"])
def test_every_record_is_in_the_results_once_however_often_workers_are_killed(
    address: str, connection: Any, reader: str
) -> None:
    if reader == "group" and not address.startswith("sqlite"):
        pytest.skip("one database will do: how partitions come to a worker is none of its business")
    if address.startswith("duckdb"):
        connection.close()  # a file belongs to one process at a time
    try:
        read_and_kill(address, seeded(address), reader)
        again = connect(address)
        found = results(again)
        again.close()
        expected = [(part, place) for part in range(PARTITIONS) for place in range(RECORDS)]
        assert [row[:2] for row in found] == expected
        assert all(value.startswith(f"v{place}-") for _, place, value in found)
    except Exception as error:
        error.add_note(f"replay with {REPLAY}")
        raise
