"""What pages show for Spark runs in the session of these tests."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ottla import EmbeddedBroker, Producer
from tests.page_blocks import ROOT, SPARK_PAGES, PageShell, page_blocks
from tests.spark.conftest import connector_jars


@pytest.fixture
def shell(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageShell:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # all tests share one session
    return PageShell(tmp_path, monkeypatch, broker.bootstrap)


@pytest.mark.usefixtures("spark")
def test_who_uses_spark_follows_the_start_page(
    shell: PageShell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.follow("start.md", "I use Spark")
    assert '{"item": "tea", "price": 2}' in capsys.readouterr().out
    (row,) = pq.read_table(tmp_path / "teas").to_pylist()
    assert row["value"] == {"item": "tea", "price": 2}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", SPARK_PAGES)
def test_code_blocks_run(shell: PageShell, page: str) -> None:
    for block in page_blocks(page):
        if block.language == "python":
            shell.run_python(block)


@pytest.mark.usefixtures("spark", "shell")
def test_the_example_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "spark_read.py"))
    example["main"]()
    (promised,) = example["__doc__"].partition("Prints:")[2].split("\n\n")[1:]
    assert capsys.readouterr().out.strip() == promised.strip()


def test_the_readme_reads_a_topic(spark: Any, producer: Producer, shell: PageShell) -> None:
    producer.send("ads", "one coffee", key="table 4").result(60)
    (block,) = [one for one in page_blocks("../README.md") if one.language == "py"]
    own = replace(block, text=block.text.replace('"orders"', '"ads"'))
    orders: Any = shell.run_python(own, {"spark": spark})["orders"]
    assert orders.count() == 1


def test_both_sides_of_the_migration_guide_read_the_same(
    spark: Any, broker: EmbeddedBroker, producer: Producer, shell: PageShell
) -> None:
    """migration.md: the connector's block where its jars are here, and ours."""
    producer.send("orders", "before", partition=0).result(60)
    names = {"spark": spark, "servers": broker.bootstrap}
    blocks = page_blocks("migration.md", "From Spark's Kafka connector")
    assert [block.caption for block in blocks] == ["Spark's connector", "ottla"]
    queries: list[Any] = []
    for block in blocks[0 if connector_jars() else 1 :]:
        stream: Any = shell.run_python(block, names)["orders"]
        table = f"orders_{len(queries)}"
        queries.append(stream.writeStream.format("memory").queryName(table).start())
        queries[-1].processAllAvailable()  # both begin at the end that the topic has now
    producer.send("orders", "one coffee", key="table 4", partition=0).result(60)
    rows = []
    for query in queries:
        query.processAllAvailable()
        rows.append(spark.table(query.name).drop("timestampType").collect())
        query.stop()
    assert [row.value for row in rows[0]] == [b"one coffee"]
    assert all(found == rows[0] for found in rows)
