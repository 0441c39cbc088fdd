"""The broker on the caller's loop, with clients of the same loop."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from ottla import ConfigError, EmbeddedBroker, aio
from tests.aio.conftest import run


def test_clients_and_broker_share_a_loop_and_no_thread_serves() -> None:
    async def exchange() -> list[bytes]:
        broker = EmbeddedBroker.aio(num_partitions=1)
        async with broker:
            assert "ottla-broker" not in {thread.name for thread in threading.enumerate()}
            await broker.create_topic("orders", config={"retention_ms": 3_600_000})
            async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
                broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
                broker.drop("Produce")
                for number in range(3):
                    await producer.send("orders", str(number))
            found = []
            async with aio.GroupConsumer(
                "orders", group_id="g", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
            ) as consumer:
                async for message in consumer:
                    found.append(message.value or b"")
                    if len(found) == 3:
                        break
        with pytest.raises(ConfigError, match="not running"):
            _ = broker.bootstrap
        return found

    assert run(exchange) == [b"0", b"1", b"2"]


def test_temporary_data_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def start() -> None:
        async with EmbeddedBroker.aio() as broker:
            assert "127.0.0.1" in repr(broker)
            assert [*tmp_path.iterdir()]

    run(start)
    assert not [*tmp_path.iterdir()]
