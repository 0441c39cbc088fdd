"""A slice of `make fuzz-live` in the suite."""

from __future__ import annotations

from pathlib import Path

from tests.broker.faults.broker_process import BrokerProcess
from tests.fuzz import live
from tests.scale import SEED, sized


def test_a_broker_survives_hostile_frames_and_serves_an_honest_client(tmp_path: Path) -> None:
    outcome = live.run(sized(1500, 1_000_000), SEED, tmp_path)
    assert not outcome.failures, "\n".join([str(outcome), *outcome.failures])
    assert {"answered", "closed"} <= outcome.frames.keys()
    assert outcome.ack_ms


def test_a_record_that_is_missing_is_found(tmp_path: Path) -> None:
    """The harness must be able to fail."""
    outcome = live.Outcome(seed=1, ack_ms=[1.0, 1.0])
    with BrokerProcess(tmp_path / "data") as broker:
        with broker.client() as client:
            client.create(live.HONEST, 1)
        live.check_honest(f"127.0.0.1:{broker.port}", outcome)
    assert outcome.failures == ["2 records were acked, stored: []"]
