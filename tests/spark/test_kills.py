"""Drivers and workers are killed at random moments of random batches: every record is there once.

`make soak` kills many more, OTTLA_KILLS=n as many as it says; OTTLA_SEED decides which and when.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from tests.proof.checker import History, Table, anomalies
from tests.scale import kills, nightly, seeded
from tests.spark import killed_driver
from tests.spark.conftest import Filled
from tests.spark.killing import newest_batch, reaches, running
from tests.spark.pipeline_runs import table_of

KILLS = kills(100, 100)
KINDS = ("landing", "files", "tables")
DEADLINE_S = 480 + 30 * KILLS


@nightly("three drivers; test_exactly_once_kills kills some in every run")
@pytest.mark.timeout(DEADLINE_S + 60)
def test_every_record_is_there_once_whoever_is_killed(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    chance = seeded()
    victims = ["driver"] * max(1, KILLS // 3) + ["worker"] * (KILLS - max(1, KILLS // 3))
    chance.shuffle(victims)
    command = [sys.executable, killed_driver.__file__, broker.bootstrap, topic, str(tmp_path), *KINDS]
    result, said, records = tmp_path / "result.json", tmp_path / "said.txt", 0
    deadline = time.monotonic() + DEADLINE_S
    while victims or not result.exists():
        assert time.monotonic() < deadline, said.read_text(errors="replace")[-3000:]
        if result.exists() or not records:  # all is done, and not all are killed
            result.unlink(missing_ok=True)
            more = (2 * len(victims) + 4) * killed_driver.RECORDS_PER_BATCH
            fill(topic, range(records, records + more))
            records += more
        with running(command, chance, said) as driver:
            while victims and driver.process.poll() is None:
                checkpoint = tmp_path / chance.choice(KINDS)
                batch = newest_batch(checkpoint) + chance.choice([1, 2])
                if not reaches(driver, checkpoint, batch, deadline):
                    break
                time.sleep(chance.random() / 4)
                if victims[-1] == "driver":
                    victims.pop()
                    driver.kill()
                elif driver.kill_worker():
                    victims.pop()
            driver.process.wait(deadline - time.monotonic())
    wanted = Counter(range(records))
    kinds = {"landed": "parquet"} | (
        {kind: kind for kind in killed_driver.TABLES} if "tables" in KINDS else {}
    )
    values = {name: table_of(tmp_path / name, kind).column("value") for name, kind in kinds.items()}
    tables = [Table(name, wanted, Counter(map(int, column.to_pylist()))) for name, column in values.items()]
    tables.append(Table("result", wanted, Counter(json.loads(result.read_text()))))
    assert anomalies(History(tables=tables)) == []
