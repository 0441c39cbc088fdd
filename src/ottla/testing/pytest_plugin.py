"""The pytest plugin: Kafka for tests, as fixtures.

    def test_orders(kafka_broker, kafka_topic): ...       a broker for the run, a fresh topic for the test

    def test_login(kafka_secure_broker): ...              a broker with TLS and users: `client_settings()`

    async def test_handlers(kafka_aio_broker): ...        a broker on the loop of the test

    @pytest.mark.kafka_topic(partitions=3, config={"cleanup.policy": "compact"})
    def test_latest(kafka_topic): ...

    pytest --kafka-bootstrap HOST:PORT                    the same tests on a real cluster

pytest loads this module in every run where ottla is installed. So it imports nothing but pytest until a
test uses a fixture.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.broker.loop_broker import LoopBroker
    from ottla.testing.real_cluster import RealCluster

    Broker = EmbeddedBroker | RealCluster
    AnyBroker = TypeVar("AnyBroker", EmbeddedBroker, Broker)

LOOP_SCOPES = ("function", "class", "module", "package", "session")
LOOP_BROKER_BY_SCOPE = "_kafka_aio_broker_of_{}"
"""The name of a fixture that pytest-asyncio runs on the loop of a scope."""

_BROKERS = pytest.StashKey["list[Broker]"]()
_NAME_LENGTH_MAX = 100  # characters of the test's name in its topic's name; Kafka allows 249 in all


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("kafka", "Kafka, by ottla")
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT[,...]",
        help="run tests with kafka_broker on this cluster instead of an embedded broker",
    )
    parser.addini("kafka_brokers", "the number of embedded brokers in the cluster", default="1")
    parser.addini("kafka_properties", "NAME=VALUE lines: properties of the embedded broker", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and the fixtures that pytest-asyncio runs."""
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=1, replication_factor=..., config={...}): the topic of kafka_topic",
    )
    if _has_pytest_asyncio(config):
        config.pluginmanager.import_plugin("ottla.testing.asyncio_fixtures")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End all faults and start stopped brokers: the broker serves the whole run."""
    for broker in item.config.stash.get(_BROKERS, []):
        if broker.is_running:
            broker.heal()


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Kafka for the whole run: an EmbeddedBroker, or the cluster of --kafka-bootstrap."""
    yield from _kept(pytestconfig, _started(pytestconfig))


@pytest.fixture(scope="session")
def kafka_secure_broker(pytestconfig: pytest.Config) -> Iterator[EmbeddedBroker]:
    """An EmbeddedBroker for the whole run with TLS and the users `admin` and `client`; all listeners need a
    login.
    """
    from ottla.broker.embedded import EmbeddedBroker

    if pytestconfig.getoption("kafka_bootstrap"):
        pytest.skip("needs the embedded broker")
    count, properties = _broker_count(pytestconfig), _properties(pytestconfig)
    broker = EmbeddedBroker(brokers=count, properties=properties, security=True)
    yield from _kept(pytestconfig, broker.start())


@pytest.fixture
def kafka_aio_broker(request: pytest.FixtureRequest) -> LoopBroker:
    """A broker for the test, on its event loop: that of pytest-asyncio, or of anyio with asyncio."""
    if "anyio_backend" in request.fixturenames:
        backend = request.getfixturevalue("anyio_backend")
        if "trio" in (backend if isinstance(backend, tuple) else [backend]):
            pytest.skip("ottla.aio and its broker run on asyncio, not on trio")
        name = "_kafka_aio_broker_of_anyio"
    elif _has_pytest_asyncio(request.config):
        marker = request.node.get_closest_marker("asyncio")
        scope = marker.kwargs.get("loop_scope") if marker is not None else None
        name = LOOP_BROKER_BY_SCOPE.format(scope or request.config.getini("asyncio_default_test_loop_scope"))
    else:
        pytest.fail("kafka_aio_broker needs pytest-asyncio, or anyio and its marker: neither runs this test")
    broker: LoopBroker = request.getfixturevalue(name)
    return broker


@pytest.fixture
async def _kafka_aio_broker_of_anyio(pytestconfig: pytest.Config) -> AsyncIterator[LoopBroker]:
    async with loop_broker(pytestconfig) as broker:
        yield broker


def _has_pytest_asyncio(config: pytest.Config) -> bool:
    """Whether pytest-asyncio is loaded, by its entry point or by `-p`."""
    names = ("asyncio", "pytest_asyncio", "pytest_asyncio.plugin")
    return any(config.pluginmanager.hasplugin(name) for name in names)


def loop_broker(config: pytest.Config) -> LoopBroker:
    """Return a broker for `async with`, with the settings of the run."""
    from ottla.broker.embedded import EmbeddedBroker

    if config.getoption("kafka_bootstrap"):
        pytest.skip("needs the embedded broker")
    return EmbeddedBroker.aio(brokers=_broker_count(config), properties=_properties(config))


@pytest.fixture
def kafka_topic_factory(kafka_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Creates topics, `kafka_topic_factory(partitions=3)`, and deletes them after the test."""
    created: list[str] = []

    def create(
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> str:
        factor = {} if replication_factor is None else {"replication_factor": replication_factor}
        name = _topic_name(request.node.name)
        kafka_broker.create_topic(name, partitions, config=config, **factor)
        created.append(name)
        return name

    yield create
    if kafka_broker.is_running:
        for name in created:
            _delete(kafka_broker, name)


@pytest.fixture
def kafka_topic(kafka_topic_factory: Callable[..., str], request: pytest.FixtureRequest) -> str:
    """The name of a new topic, created as the marker kafka_topic says."""
    marker = request.node.get_closest_marker("kafka_topic")
    return kafka_topic_factory(*marker.args, **marker.kwargs) if marker else kafka_topic_factory()


def _kept(config: pytest.Config, broker: AnyBroker) -> Iterator[AnyBroker]:
    """Yield a broker that is healed after each test, and closed at the end."""
    running = config.stash.setdefault(_BROKERS, [])
    running.append(broker)
    try:
        yield broker
    finally:
        running.remove(broker)
        broker.close()


def _started(config: pytest.Config) -> Broker:
    bootstrap = config.getoption("kafka_bootstrap")
    if bootstrap:
        from ottla.testing.real_cluster import RealCluster

        return RealCluster(bootstrap)
    from ottla.broker.embedded import EmbeddedBroker

    return EmbeddedBroker(brokers=_broker_count(config), properties=_properties(config)).start()


def _broker_count(config: pytest.Config) -> int:
    text = config.getini("kafka_brokers")
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"kafka_brokers = {text}: give a number from 1 on")
    return int(text)


def _properties(config: pytest.Config) -> dict[str, str]:
    properties = {}
    for line in config.getini("kafka_properties"):
        name, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"kafka_properties, {line!r}: give NAME=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def _topic_name(test: str) -> str:
    """Make a readable, legal name that is new even on a shared cluster."""
    legible = re.sub(r"[^A-Za-z0-9-]+", "-", test)[:_NAME_LENGTH_MAX].strip("-")
    return f"{legible}-{os.urandom(4).hex()}"


def _delete(broker: Broker, name: str) -> None:
    from ottla.model.error_codes import Code
    from ottla.model.errors import KafkaError

    try:
        broker.delete_topic(name)
    except KafkaError as error:
        if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION:  # the test has deleted the topic
            raise
