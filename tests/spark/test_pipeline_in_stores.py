"""Pipelines whose tables are in an object store or in HDFS, by Spark, without a jar."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.spark import Pipeline
from ottla.spark.iceberg import IcebergTable
from ottla.spark.locations import location
from ottla.spark.object_store import delta_settings
from ottla.spark.pipeline.table_files import read_file
from tests.scale import sized
from tests.spark.conftest import Filled
from tools.store_servers import BUCKET, AzureServer, GcsServer, HdfsServer, S3Server


def values(kind: str, url: str) -> Counter[int]:
    """What foreign readers see."""
    if kind == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(url, storage_options=delta_settings(url)).to_pyarrow_table()["value"].to_pylist()
    elif kind == "iceberg":
        table: Any = IcebergTable(url)._named.load()
        rows = table.scan().to_arrow()["value"].to_pylist()
    else:
        where = location(url)
        files = [entry.path for entry in where.list() if entry.path.startswith("kind=")]
        rows = [value for file in files for value in read_file(where, file)["value"].to_pylist()]
    return Counter(map(int, rows))


@pytest.fixture(params=sized(["s3"], ["s3", "gcs", "azure", "hdfs"]))
def root(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the tables are; tasks have the server in their environment, on a cluster by spark.executorEnv."""
    if request.param == "hdfs":
        server: HdfsServer = request.getfixturevalue("hdfs")
        return server.url
    store: S3Server | GcsServer | AzureServer = request.getfixturevalue(request.param)
    for name, value in store.environment.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return {"s3": f"s3://{BUCKET}", "gcs": f"gs://{BUCKET}", "azure": f"abfs://{BUCKET}"}[request.param]


@pytest.mark.timeout(280)
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_new_checkpoint_goes_on_where_the_table_is(
    kind: str, root: str, spark: Any, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    url = f"{root}/{tmp_path.name}/{kind}"
    given = {
        "source": {"bootstrap": broker.bootstrap, "topics": [topic], "start": "earliest"},
        "decode": {"format": "text"},
        "transform": {"sql": "select value, if(value % 2 = 0, 'even', 'odd') as kind from records"},
        "sink": {"format": kind, "path": url, "partition_by": ["kind"], "compact_after": 2},
    }
    for run in range(2):
        fill(topic, range(60 * run, 60 * run + 60))
        Pipeline.of(given).online(
            spark, tmp_path / f"state-{run}", trigger={"availableNow": True}
        ).awaitTermination()
        assert values(kind, url) == Counter(range(60 * run + 60))
