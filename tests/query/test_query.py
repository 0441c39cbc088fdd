"""scan, sql and `ottla search` on the embedded broker: the right rows, from files and from fetches."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla import ConfigError, EmbeddedBroker, KafkaError, Producer, RequestTimedOut
from ottla.query import statements
from ottla.query.engine import Engine
from ottla.query.topic_columns import TopicColumns
from tests.cli.kafka.conftest import ours

RECORDS = 1000
TIME_0 = 1_700_000_000_000
NOT_TEXT = b"\xff\xfe"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    """1,000 orders in two partitions, a second apart, and one record that is not text."""
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("offsets.v1", 1)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                value = json.dumps({"user": f"user-{number % 10}", "amount": number, "price": number / 2})
                producer.send(
                    "orders",
                    value,
                    key=f"table {number % 100}",
                    partition=number % 2,
                    timestamp_ms=TIME_0 + number * 1000,
                    headers=[("n", str(number).encode())],
                )
            producer.send("orders", NOT_TEXT, key=NOT_TEXT, partition=0, timestamp_ms=TIME_0 + RECORDS * 1000)
            producer.send("offsets.v1", "a", key="b")
        yield broker


def rows(cluster: EmbeddedBroker, query: str) -> list[dict[str, Any]]:
    return ottla.sql(query, bootstrap_servers=cluster.bootstrap).to_pylist()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_scan_finds_keys_texts_and_conditions(cluster: EmbeddedBroker, isolation: str) -> None:
    settings: dict[str, object] = {"bootstrap.servers": cluster.bootstrap, "isolation.level": isolation}
    with ottla.scan("orders", key="table 7", properties=settings) as found:
        table = found.to_table()
        assert table.column("value").to_pylist() == [
            json.dumps({"user": "user-7", "amount": number, "price": number / 2}).encode()
            for number in range(7, RECORDS, 100)
        ]
        assert found.progress == (10, RECORDS + 1, RECORDS + 1)
        assert found.is_local == (isolation == "read_uncommitted")
    with ottla.scan("orders", contains='"amount": 12,', properties=settings) as found:
        assert found.to_table().column("offset").to_pylist() == [6]
    with ottla.scan(
        "orders", [1], 10, until=490, where="amount > 900 and \"user\" = 'user-1'", properties=settings
    ) as found:
        assert found.to_table().column("offset").to_pylist() == [450, 455, 460, 465, 470, 475, 480, 485]


def test_a_scan_says_what_it_is(cluster: EmbeddedBroker) -> None:
    with ottla.scan("orders", key="table 7", bootstrap_servers=cluster.bootstrap) as scan:
        assert repr(scan) == "<Scan of 'orders': 0 records found>"
        count = scan.to_table().num_rows
    assert repr(scan) == f"<Scan of 'orders': closed, {count} records found>"


def test_arrow_libraries_take_a_scan(cluster: EmbeddedBroker) -> None:
    with ottla.scan("orders", headers=True, bootstrap_servers=cluster.bootstrap) as found:
        table = pa.table(found)
    assert table.schema.names[-1] == "headers"
    assert table.num_rows == RECORDS + 1
    with (
        ottla.scan("orders", key="table 7", bootstrap_servers=cluster.bootstrap) as orders,
        duckdb.connect() as connection,
    ):
        connection.register("hits", orders.to_reader())
        assert connection.execute("select count(*) from hits").fetchall() == [(10,)]


def test_sql_reads_fields_of_json(cluster: EmbeddedBroker) -> None:
    assert rows(
        cluster, "select \"user\", sum(amount)::int as s from orders where key = 'table 7' group by 1"
    ) == [{"user": "user-7", "s": sum(range(7, RECORDS, 100))}]
    assert rows(cluster, "select value, raw_value from orders where amount is null") == [
        {"value": "\\xfffe", "raw_value": NOT_TEXT}
    ]
    assert rows(cluster, "select headers from orders where amount = 3")[0]["headers"] == [
        {"key": "n", "value": b"3"}
    ]
    assert rows(cluster, "select count(*) as n from orders a join orders b using (partition, offset)") == [
        {"n": RECORDS + 1}
    ]
    assert rows(cluster, 'select key, value from "offsets.v1"') == [{"key": "b", "value": "a"}]
    (row,) = rows(cluster, "select min(timestamp) as t, max(offset) as o from orders where partition = 1")
    assert row == {"t": datetime.fromtimestamp(TIME_0 / 1000 + 1, UTC), "o": RECORDS // 2 - 1}


def test_sql_reads_the_cluster(cluster: EmbeddedBroker) -> None:
    assert rows(cluster, "select * from offsets where topic = 'orders' order by partition") == [
        {"topic": "orders", "partition": 0, "first_offset": 0, "end_offset": 501},
        {"topic": "orders", "partition": 1, "first_offset": 0, "end_offset": 500},
    ]
    assert rows(cluster, "select topic, leader from cluster.topics where topic = 'offsets.v1'") == [
        {"topic": "offsets.v1", "leader": 0}
    ]
    with ottla.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_group_offsets("kitchen", {ottla.TopicAndPartition("orders", 0): 400})
    assert rows(cluster, 'select "group", topic, lag from lag') == [
        {"group": "kitchen", "topic": "orders", "lag": 101}
    ]
    assert rows(cluster, 'select "group", kind from groups') == [{"group": "kitchen", "kind": "kafka"}]


@pytest.mark.parametrize(
    ("where", "count", "read"),
    [
        ("offset between 100 and 109", 20, 20),
        ("partition = 1 and offset >= 490", 10, 10),
        ("partition in (0, 7) and offset < 5", 5, 5),
        ("offset > 100000", 0, 0),
        (f"timestamp >= to_timestamp({TIME_0 // 1000 + 990})", 11, 11),
        ("timestamp > '2023-11-14T22:29:50Z'", 10, 11),
        ("timestamp > now() - interval 1 day", 0, 0),
        ("timestamp < '2023-11-14T22:13:21Z'", 1, RECORDS + 1),
        ("offset < 3 or offset > 498", 9, RECORDS + 1),
        ("key = 'table 7' and 490 <= offset", 0, 21),
    ],
)
def test_conditions_decide_what_is_read(
    cluster: EmbeddedBroker, where: str, count: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`read`: how many offsets were looked at. Rows are right in any case."""
    scans: list[ottla.Scan] = []
    made = ottla.Scan.__init__
    monkeypatch.setattr(
        ottla.Scan, "__init__", lambda self, *given: (made(self, *given), scans.append(self))[0]
    )
    if "to_timestamp" in where:
        read = RECORDS + 1  # a function that is not known to be constant: only DuckDB tests it
    assert rows(cluster, f"select count(*) as n from orders where {where}") == [{"n": count}]
    assert [scan.progress.offsets_total for scan in scans] == [read]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select * from order", "syntax error"),
        ("select * from ordrs", "orders"),
        ("drop table orders", "Only SELECT"),
        ("select 1; select 2", "give one SELECT"),
        ("select nothing from orders", "nothing"),
        ("select * from read_csv('/etc/hostname')", "Permission Error"),
        ("select * from cluster.nothing", "lag, offsets, topics"),
    ],
)
def test_wrong_sql_is_refused(cluster: EmbeddedBroker, query: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        rows(cluster, query)


def test_limits(cluster: EmbeddedBroker) -> None:
    forever = "select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b"
    with pytest.raises(RequestTimedOut):
        ottla.sql(forever, timeout=0.2, bootstrap_servers=cluster.bootstrap)
    with pytest.raises(ConfigError, match="Out of Memory"):
        ottla.sql(
            "select list(range) from range(100000000)",
            memory_limit="16MB",
            bootstrap_servers=cluster.bootstrap,
        )
    with pytest.raises(ConfigError, match="memory_limit='much'"):
        ottla.sql("select 1", memory_limit="much", bootstrap_servers=cluster.bootstrap)


def test_a_condition_has_a_time_limit(cluster: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.query.where.PART_LIMIT_S", 0.2)
    forever = "offset > (select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b)"
    with pytest.raises(RequestTimedOut):
        ottla.scan("orders", where=forever, bootstrap_servers=cluster.bootstrap).to_table()


def test_wrong_scans_are_refused(cluster: EmbeddedBroker) -> None:
    at = {"bootstrap.servers": cluster.bootstrap}
    with pytest.raises(KafkaError), ottla.scan("nothing", properties=at) as found:
        found.to_table()
    with pytest.raises(ConfigError, match="key=3"):
        ottla.scan("orders", key=3, properties=at)  # type: ignore[arg-type]
    for where, text in (
        ("amout > 3", "^'amout > 3': Binder Error: Referenced column \"amout\" not found"),
        ("amount >", "^'amount >': syntax error"),
        ("1) union (select 1 from range(3)", "give one"),
        ("offset in (select 1 from orders)", "give one"),
        ("", "give one"),
        ("1 = 1; select 1", "syntax error"),
    ):
        with pytest.raises(ConfigError, match=text):
            ottla.scan("orders", where=where, properties=at)


def test_partitions_without_records_are_read(cluster: EmbeddedBroker) -> None:
    """A partition gets its files with its first record."""
    cluster.create_topic("parcels", 3)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("parcels", "a book", partition=1)
    with ottla.scan("parcels", contains="book", bootstrap_servers=cluster.bootstrap) as found:
        assert found.to_table().column("partition").to_pylist() == [1]
        assert found.is_local
    assert rows(cluster, "select count(*) as n from parcels") == [{"n": 1}]


@pytest.mark.parametrize("late_ms", [10**15, 10**16])
def test_records_of_any_year_are_found(cluster: EmbeddedBroker, late_ms: int) -> None:
    """Python's own times end in the year 9999, microseconds of 64 bits in the year 294,247."""
    topic = f"late-{late_ms}"
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, "far", timestamp_ms=late_ms)
        producer.send(topic, "near", timestamp_ms=TIME_0)
    at = ("-b", cluster.bootstrap, "--format", "json")
    for wish in (["--contains", "far"], ["--where", "value = 'far'"]):
        found = json.loads(ours("search", topic, *wish, *at).printed)
        assert (found["value"], found["timestamp_ms"]) == ("far", late_ms)
    told = ours("sql", f'select value, "timestamp" as at from "{topic}" order by offset', *at)
    (far, near) = json.loads(told.printed)["rows"]
    assert far == {"value": "far", "at": f"{1000 * late_ms} us" if late_ms == 10**15 else None}
    assert near == {"value": "near", "at": datetime.fromtimestamp(TIME_0 / 1000, UTC).isoformat()}


def test_a_text_that_json_may_write_in_another_way_is_not_looked_for_as_text() -> None:
    with Engine() as engine:

        def texts(where: str) -> tuple[tuple[bytes, ...], ...]:
            (use,) = statements.table_uses(engine.tree(f"select upper(key) as k from t where {where}"))
            columns = TopicColumns({"user": "VARCHAR", "n": "BIGINT"})
            return columns.conditions(use.where, engine.value).texts

        assert texts("value->>'user' = 'ann b'") == ((b"ann b", b"\\u"),)
        assert texts("\"user\" = 'ann'") == ((b"ann", b"\\u"),)
        for other in ("'100.0'", "'1e5'", "'café'", "'a/b'", "'a\"b'"):
            assert texts(f"value->>'user' = {other}") == (), other
        assert texts("n = '3x'") == ()
        assert texts("k = 'ABC'") == (), "an alias is not a field"
        assert texts("\"user\" = 'ann' or n = 1") == ()


def test_escaped_characters_are_found(cluster: EmbeddedBroker) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("escaped", b'{"user": "\\u0061nn"}')
        producer.send("escaped", b'{"user": "bob"}')
    assert rows(cluster, "select offset from escaped where \"user\" = 'ann'") == [{"offset": 0}]


def test_the_search_command(cluster: EmbeddedBroker) -> None:
    at = ("-b", cluster.bootstrap)
    found = ours("search", "orders", "--key", "table 7", "--where", "amount < 200", "--format", "json", *at)
    assert found.code == 0
    first, _ = (json.loads(line) for line in found.printed.splitlines())
    assert first == {
        "topic": "orders",
        "partition": 1,
        "offset": 3,
        "timestamp_ms": TIME_0 + 7000,
        "key": "table 7",
        "value": '{"user": "user-7", "amount": 7, "price": 3.5}',
        "headers": [{"key": "n", "value": "7"}],
        "encoding": "utf-8",
    }
    assert found.complaints == "2 found in 1,001 of 1,001 records\n"
    few = ours("search", "orders", "--contains", "user-3", "-n", "2", "-p", "1", *at)
    assert [line.split("\t")[0] for line in few.printed.splitlines()] == ["1:1", "1:6"]
    one = ours("search", "orders", "--since", "2023-11-14T22:30:00", "--format", "tsv", *at)
    assert one.printed.splitlines()[-1].endswith("base64")
    with pytest.raises(SystemExit):
        ours("search", "orders", "-n", "0", *at)


def test_a_search_does_not_wait_for_what_is_not_there(cluster: EmbeddedBroker) -> None:
    absent = ours("search", "nothing", "-b", cluster.bootstrap)
    assert (absent.code, absent.printed, "nothing" in absent.complaints) == (1, "", True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
    unreachable = ours("search", "orders", "-b", nowhere)
    assert (unreachable.code, unreachable.printed) == (1, "")
    assert f"no broker describes the cluster: {nowhere} cannot be reached" in unreachable.complaints


def test_the_sql_command(cluster: EmbeddedBroker, tmp_path: Path) -> None:
    at = ("-b", cluster.bootstrap)
    query = "select offset, key from orders where offset = 3 order by 2"
    assert (
        ours("sql", query, *at).printed
        == "OFFSET  KEY    \n".rstrip() + "\n     3  table 6\n     3  table 7\n"
    )
    shown = ours("sql", query, "--format", "json", *at)
    assert json.loads(shown.printed)["rows"][0] == {"offset": 3, "key": "table 6"}
    file = tmp_path / "orders.parquet"
    assert ours("sql", "select * from orders", "--format", "parquet", "-o", str(file), *at).code == 0
    assert pq.read_table(file).num_rows == RECORDS + 1
    with pytest.raises(SystemExit):
        ours("sql", query, "-o", str(file), *at)


def test_ctrl_c_ends_a_search_and_first_hits_came_at_once(cluster: EmbeddedBroker) -> None:
    """The search waits in the middle: its output is not read. It had shown its first hit before."""
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(3000):
            producer.send("long", f"text {number} " + "x" * 1000, partition=0)
    command = [sys.executable, "-m", "ottla", "search", "long", "--contains", "text", "-b", cluster.bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as search:
        assert search.stdout is not None
        assert search.stdout.readline().startswith("0:0\ttext 0")
        search.send_signal(signal.SIGINT)
        search.stdout.close()
        assert search.stderr is not None
        assert "found in" in search.stderr.read()
        assert search.wait() in (130, 1)
