"""One Spark session for all tests, one broker for a module, and a topic of its own for each test."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import EmbeddedBroker, Producer

Filled = Callable[..., None]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession  # most tests here need no Spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("ottla tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with three partitions, named after the test."""
    name = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")
    broker.create_topic(name, 3)
    return name


@pytest.fixture(scope="module")
def producer(broker: EmbeddedBroker) -> Iterator[Producer]:
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as one:
        yield one


@pytest.fixture
def fill(producer: Producer) -> Filled:
    """Writes values "0", "1", … with keys and times: value number n goes to partition n % partitions."""

    def write(topic: str, numbers: range, partitions: int = 3) -> None:
        for number in numbers:
            producer.send(
                topic,
                str(number).encode(),
                key=f"k{number}".encode(),
                partition=number % partitions,
                timestamp_ms=1_000_000 + 1000 * number,
            )
        producer.flush()

    return write
