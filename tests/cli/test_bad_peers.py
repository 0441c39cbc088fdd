"""Every tool against every bad peer: one line that names the address and the cause, and an exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from tests.cli.kafka.conftest import ours
from tests.client.bad_peers import BAD_PEERS, BadPeer

SET = ("--set", "api.version.request.timeout.ms={time}")
TO_SET = ("--to-set", "api.version.request.timeout.ms={time}")

TOOLS = {
    "topics": ("topics", "-b", "{peer}", *SET),
    "groups": ("groups", "-b", "{peer}", *SET),
    "lag": ("lag", "billing", "-b", "{peer}", *SET),
    "offsets": ("offsets", "export", "-", "-g", "billing", "-b", "{peer}", *SET),
    "reset": ("reset", "billing", "orders", "--to", "earliest", "-b", "{peer}", *SET),
    "consume": ("consume", "orders", "-b", "{peer}", *SET),
    "produce": ("produce", "orders", "-b", "{peer}", *SET),
    "mirror from": ("mirror", "--topics", "orders", "--to", "127.0.0.1:1", "-b", "{peer}", *SET),
    "mirror to": (
        *(
            "mirror",
            "--topics",
            "orders",
            "--to",
            "{peer}",
            *(word.replace("--set", "--to-set") for word in SET),
        ),
        *("-b", "{broker}"),
    ),
    "console consumer": (
        *("kafka-console-consumer", "--topic", "orders", "--bootstrap-server", "{peer}"),
        *("--command-config", "{settings}"),
    ),
    "console consumer of a partition": (
        *("kafka-console-consumer", "--topic", "orders", "--partition", "0", "--bootstrap-server", "{peer}"),
        *("--command-config", "{settings}"),
    ),
    "console producer": (
        *("kafka-console-producer", "--topic", "orders", "--bootstrap-server", "{peer}"),
        *("--command-config", "{settings}"),
    ),
    "consumer groups": (
        *("kafka-consumer-groups", "--list", "--bootstrap-server", "{peer}"),
        *("--command-config", "{settings}"),
    ),
    "kafka topics": (
        *("kafka-topics", "--list", "--bootstrap-server", "{peer}", "--command-config", "{settings}"),
    ),
    "get offsets": (
        *("kafka-get-offsets", "--topic", "orders", "--bootstrap-server", "{peer}"),
        *("--command-config", "{settings}"),
    ),
}


NEVER_FAIL = {"consumer groups"}
"""Kafka's tool prints the error too, and its exit code is 0."""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for settings of clients, and nobody's own profiles."""
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "client.properties"


@pytest.fixture(scope="module", params=BAD_PEERS)
def peer(request: pytest.FixtureRequest) -> Iterator[tuple[str, BadPeer]]:
    """A bad peer, and its address."""
    bad = BAD_PEERS[request.param]
    with bad.serve() as address:
        yield address, bad


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """The address of a good peer."""
    with EmbeddedBroker() as cluster:
        yield cluster.bootstrap


@pytest.mark.parametrize("tool", TOOLS)
def test_a_bad_peer_is_named_in_one_line(
    tool: str, peer: tuple[str, BadPeer], broker: str, settings: Path
) -> None:
    address, (_, cause, time) = peer
    settings.write_text(f"api.version.request.timeout.ms={time}")
    words = {"peer": address, "broker": broker, "settings": settings, "time": time}
    run = ours(*(word.format(**words) for word in TOOLS[tool]), text="a line\n")
    assert run.code == (0 if tool in NEVER_FAIL else 1)
    (said,) = [line for line in (run.printed + run.complaints).splitlines() if address in line]
    assert re.search(cause, said), said


SHORT = ("--set", "request.timeout.ms=100")
ADMIN = (*SHORT, "--set", "default.api.timeout.ms=100")
LATER = {
    "groups": ("groups", "-b", "{peer}", *ADMIN),
    "groups describe": ("groups", "describe", "billing", "-b", "{peer}", *ADMIN),
    "lag": ("lag", "billing", "-b", "{peer}", *ADMIN),
    "offsets": ("offsets", "export", "-", "-g", "billing", "-b", "{peer}", *ADMIN),
    "reset": ("reset", "billing", "orders", "--to", "earliest", "-b", "{peer}", *ADMIN),
    "consume": ("consume", "orders", "--from", "earliest", "-t", "{time}", "-b", "{peer}", *SHORT),
    "consume in a group": ("consume", "orders", "-g", "billing", "-t", "{time}", "-b", "{peer}", *SHORT),
    "produce": ("produce", "orders", "-b", "{peer}", *SHORT, "--set", "delivery.timeout.ms={time}"),
}
BEHIND_METADATA = (
    *("Produce", "Fetch", "ListOffsets", "FindCoordinator", "OffsetFetch", "ListGroups", "InitProducerId"),
)


@pytest.fixture(scope="module", params=["silent", "closing"])
def liar(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a broker that describes its cluster, and answers nothing else."""
    with EmbeddedBroker() as cluster:
        cluster.create_topic("orders")
        for api in BEHIND_METADATA:
            if request.param == "silent":
                cluster.delay(api, 3_600, times=-1)
            else:
                cluster.drop(api, times=-1)
        yield cluster.bootstrap


@pytest.mark.parametrize("tool", LATER)
def test_a_broker_that_only_describes_the_cluster_is_named(tool: str, liar: str) -> None:
    for time_ms in (
        300,
        1_000,
        10_000,
    ):  # busy machines need more
        run = ours(*(word.format(peer=liar, time=time_ms) for word in LATER[tool]), text="a line\n")
        said = run.complaints.splitlines()[-1:]
        if said and liar in said[0]:
            break
    assert run.code == 1
    assert re.search(rf"{liar}.*(no answer to \w+|has not answered for|closed the connection)", said[0]), said
