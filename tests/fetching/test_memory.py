"""Memory of a consumer at full speed: the queue's bytes and 100 MB, whatever the reader does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from tests.fetching.traffic import Writer

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
QUEUED_MB = 64
ALLOWED_MB = 100
pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux' /proc")


@pytest.fixture(scope="module")
def filled(broker: EmbeddedBroker) -> dict[TopicAndPartition, int]:
    """About 400 MB of records, half of them compressed to a tenth."""
    broker.create_topic("t", PARTITIONS)
    with Writer(broker.bootstrap) as writer:
        for number in range(PARTITIONS):
            codec = Codec.ZSTD if number % 2 else Codec.NONE
            writer.write(TopicAndPartition("t", number), 100_000, size=1000, at_once=500, codec=codec)
        return writer.ends


@pytest.mark.parametrize("reader", ["fast", "slow"])
def test_memory_is_bounded_by_what_is_configured(
    broker: EmbeddedBroker, filled: dict[TopicAndPartition, int], reader: str
) -> None:
    records = sum(filled.values()) if reader == "fast" else sum(filled.values()) // 2
    arguments = [broker.bootstrap, str(PARTITIONS), str(records), str(QUEUED_MB * 1_000_000), reader]
    run = subprocess.run(
        [sys.executable, "-m", "tests.fetching.consuming_process", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    grown_mb = float(run.stdout)
    assert grown_mb <= QUEUED_MB + ALLOWED_MB
