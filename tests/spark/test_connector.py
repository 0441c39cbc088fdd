"""Beside Spark's own Kafka connector, in one session: a checkpoint goes from one to the other and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla import EmbeddedBroker
from tests.spark.conftest import Filled, connector_jars

pytestmark = pytest.mark.skipif(not connector_jars(), reason="Spark's Kafka connector cannot be had here")


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_checkpoint_goes_to_sparks_connector_and_back(
    spark: Any, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path, start: str
) -> None:
    """After one batch, which is the hardest, and after more."""
    seen: list[int] = []

    def run(kind: str) -> None:
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", broker.bootstrap)
        rows = reader.option("subscribe", topic).option("startingOffsets", start).load()

        def keep(batch: Any, _: int) -> None:
            seen.extend(int(row.value) for row in batch.select("value").collect())

        writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        assert writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(200)

    fill(topic, range(30))
    run("ottla")
    for kind, numbers in (("kafka", range(30, 60)), ("ottla", range(60, 90)), ("kafka", range(90, 120))):
        fill(topic, numbers)
        run(kind)
    assert Counter(seen) == Counter(range(0 if start == "earliest" else 30, 120))
