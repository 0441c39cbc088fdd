"""One Spark session for all tests, one broker for a module, and a topic of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import ottla.spark
from ottla import EmbeddedBroker, Producer
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.range_reader import close_engine
from ottla.spark.writer import close_producer
from tests.naming import name_after_test
from tools.guarded_server import GuardedServer
from tools.peer_cache import Unavailable, spark_kafka_jars
from tools.store_servers import AzureServer, GcsServer, HdfsServer, IcebergCatalogServer, S3Server

Server = TypeVar("Server", bound=GuardedServer)
Filled = Callable[..., None]
Reads = Callable[..., list[list[dict[str, Any]]]]


def connector_jars() -> str:
    """The jars of Spark's own Kafka connector; empty where Maven cannot be reached."""
    try:
        return ",".join(str(path) for path in sorted(spark_kafka_jars().glob("*.jar")))
    except Unavailable:
        return ""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = ottla.spark.session(
        "ottla tests",
        "local[2]",
        spark_jars=connector_jars(),
        spark_ui_enabled="false",
        spark_sql_session_timeZone="UTC",
        spark_sql_streaming_checkpoint_fileChecksum_enabled="false",
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def started(server: Callable[[Path], Server], directory: Path) -> Server:
    """A server; where it cannot be had, the test is skipped by its name."""
    try:
        return server(directory)
    except Unavailable as error:
        pytest.skip(f"{server} cannot be run here: {error}")


def server_fixture(name: str, server: Callable[[Path], GuardedServer]) -> Any:
    """A fixture: a real server, which all tests of this process share."""

    @pytest.fixture(scope="session", name=name)
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
        with started(server, tmp_path_factory.mktemp(name)) as ours:
            yield ours

    return running


s3_server = server_fixture("s3_server", S3Server)
azure_server = server_fixture("azure_server", AzureServer)
gcs_server = server_fixture("gcs_server", GcsServer)
hdfs = server_fixture("hdfs", HdfsServer)  # a name node and a data node of Hadoop
rest_catalog = server_fixture("rest_catalog", IcebergCatalogServer)


def environment_fixture(name: str) -> Any:
    """A fixture: the same server, which the environment names to this process and to those that it starts."""

    @pytest.fixture(name=name)
    def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
        server = request.getfixturevalue(f"{name}_server")
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        return server

    return named


s3, azure, gcs = map(environment_fixture, ("s3", "azure", "gcs"))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one
        close_engine()  # of tests that do a task's work in this process
        close_producer()


@pytest.fixture
def read(broker: EmbeddedBroker) -> Reads:
    """Reads as Spark does, in this process: rows as dictionaries, by task."""

    def load(**options: str) -> list[list[dict[str, Any]]]:
        source = OttlaDataSource({"kafka.bootstrap.servers": broker.bootstrap, **options})
        reader = source.reader(source.schema())
        tasks: list[Any] = [list(reader.read(partition)) for partition in reader.partitions()]
        return [[row for batch in batches for row in batch.to_pylist()] for batches in tasks]

    return load


def values(tasks: list[list[dict[str, Any]]]) -> list[int]:
    return sorted(int(row["value"]) for task in tasks for row in task)


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with three partitions, named after the test. It keeps records of 1970."""
    name = name_after_test(request)
    broker.create_topic(name, 3, config={"retention.ms": "-1"})
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
