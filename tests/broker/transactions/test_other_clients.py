"""Transactions of clients in other languages: franz-go, sarama, kafkajs. Each is fenced at the end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Admin, EmbeddedBroker, TopicAndPartition
from tests.broker.real_clients import send
from tests.broker.transactions.committed import read_committed
from tests.waiting import PATIENCE_S
from tools.peer_cache import KAFKAJS, Unavailable, go_programs, npm_package, program

GOLANG = Path(__file__).parents[2] / "compatibility" / "clients" / "golang"
VALUES = [b"%d" % number for number in range(10)]


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_programs(GOLANG) / name)]


def _kafkajs() -> list[str]:
    script = Path(__file__).with_name("kafkajs_transactions.js")
    modules = npm_package(KAFKAJS) / "node_modules"
    return ["/usr/bin/env", f"NODE_PATH={modules}", program("node"), str(script)]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(_go("franztransactions"), id="franz-go"),
        pytest.param(_go("saramatransactions"), id="sarama"),
        pytest.param(_kafkajs, id="kafkajs"),
    ],
)
def test_records_and_positions_are_committed_together(command: Callable[[], list[str]]) -> None:
    try:
        arguments = command()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic)
        send(broker.bootstrap, "in", VALUES)
        done = subprocess.run(
            [*arguments, broker.bootstrap, str(len(VALUES))],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout.split()) == (0, ["fenced"]), done.stdout + done.stderr
        assert read_committed(broker.bootstrap, "out") == VALUES
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            committed = admin.group_offsets("other")
        assert {place: one.offset for place, one in committed.items()} == {TopicAndPartition("in", 0): 10}
