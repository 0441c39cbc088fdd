"""A cluster with something to see, its console, and a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition
from ottla.admin import NewTopic
from ottla.console.server import ConsoleServer
from tests.waiting import wait_for

FAR_MS = 10**15
"""In the year 33,658: Python's own times end in 9999."""
ATTACK = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
RECORDS = 300


@dataclass(frozen=True)
class Shown:
    """A broker and its console."""

    broker: EmbeddedBroker
    console: ConsoleServer

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return self.console.url.rstrip("/")


@pytest.fixture(scope="package")
def shown() -> Iterator[Shown]:
    """300 orders in three partitions, a topic with hostile text, a group that has read a part."""
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic("orders", 3, configs={"retention.ms": 86_400_000}),
                    NewTopic("hostile", 1),
                    NewTopic("live", 1),
                    NewTopic("resets", 2),
                ]
            )
            admin.alter_group_offsets(
                "kitchen", {TopicAndPartition("orders", 0): 10, TopicAndPartition("orders", 1): 40}
            )
            admin.alter_group_offsets(
                "nightly", {TopicAndPartition("resets", 0): 5, TopicAndPartition("resets", 1): 5}
            )
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                order = {
                    "user": f"user-{number % 5}",
                    "amount": number,
                    "item": "coffee",
                    "paid": number % 3 == 0,
                }
                producer.send("orders", json.dumps(order), key=f"table {number % 7}", partition=number % 3)
                producer.send("resets", f"night {number}", partition=number % 2)
            producer.send("hostile", ATTACK, key=ATTACK, headers=[(ATTACK, ATTACK.encode())], partition=0)
            producer.send("hostile", bytes(range(256)), key=b"\xff\x00", partition=0)
            producer.send("hostile", None, key=b"", partition=0, timestamp_ms=FAR_MS)
        with ConsoleServer({"bootstrap.servers": broker.bootstrap}, every_s=0.5) as console:
            console.start()
            wait_for(lambda: console.snapshot.lags.get("kitchen"), "the console has looked at the cluster")
            yield Shown(broker, console)


@pytest.fixture(scope="package")
def pictures() -> Path | None:
    """Where pictures for the documentation go: `make pictures` sets it; else none are kept."""
    import os

    place = os.environ.get("OTTLA_PICTURES")
    return Path(place) if place else None


def require_chromium() -> tuple[str, str]:
    """The browser and its driver; the test is skipped if there is none."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("Chromium and its driver are not here: sh tools/browser.sh installs them")
    return browser, driver
