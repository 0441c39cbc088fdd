"""Runs of pipelines in tests: of all that is there, and of a driver that died before its last batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.spark import Pipeline


def run_online(spark: Any, pipeline: Pipeline, state: Path) -> None:
    assert pipeline.online(spark, state, trigger={"availableNow": True}).awaitTermination(250)


def forget_last_batch(state: Path) -> None:
    """The driver dies before its last batch counts as done."""
    last = max((state / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
