"""The pytest plugin as somebody else's tests see it: each test here is a pytest run of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError
from ottla.testing.real_cluster import RealCluster
from ottla.wire.api.metadata import MetadataRequest
from tests.blocking_client import BlockingClient
from tools.peers import KAFKA_4, RealKafka

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PLUGIN = "ottla.testing.pytest_plugin"

ROUND_TRIP = """
    from confluent_kafka import Consumer, Producer, TopicPartition

    def round_trip(bootstrap, topic, value):
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        consumer.close()
        return message.value()
"""


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest with the plugin and without any other, as warnings-are-errors users do."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "-p", PLUGIN, "-W", "error", "--strict-markers", "-rs", *arguments
        )

    return run


@pytest.fixture
def cluster() -> Iterator[EmbeddedBroker]:
    """A cluster that a run of pytest did not start itself."""
    with EmbeddedBroker(brokers=2) as broker:
        yield broker


def topics_of(bootstrap: str) -> set[str]:
    """Of the last broker of a list, but for Kafka's own."""
    host, _, port = bootstrap.split(",")[-1].rpartition(":")
    with BlockingClient(host, int(port)) as client:
        found = client.call(MetadataRequest(topics=None)).topics
    return {topic.name for topic in found if topic.name and not topic.is_internal}


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    """It is loaded in every pytest run of everybody who has ottla installed."""
    code = (
        f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert PLUGIN in loaded
    assert {name for name in loaded if not name.startswith("ottla")} == set()
    assert {name for name in loaded if name.startswith("ottla")} == {
        "ottla",
        "ottla.model",
        "ottla.model.committed_positions",
        "ottla.model.errors",
        "ottla.model.error_codes",
        "ottla.model.offset_spec",
        "ottla.model.topic_partition",
        "ottla.model.version",
        "ottla.testing",
        PLUGIN,
    }


def test_a_run_that_asks_for_no_broker_gets_none(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import sys, threading

        def test_nothing():
            assert "ottla.broker" not in sys.modules
            assert threading.active_count() == 1
        """
    )
    run().assert_outcomes(passed=1)


def test_the_plugin_is_registered() -> None:
    assert f'ottla = "{PLUGIN}"' in (ROOT / "pyproject.toml").read_text()
    if "ottla" not in entry_points(group="pytest11").names:
        pytest.skip("ottla was installed here before it had a plugin: `make venv` installs it anew")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--markers"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "@pytest.mark.kafka_topic(partitions=1" in run.stdout


def test_a_secured_broker_for_the_run(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        from ottla import Admin, AuthenticationFailed

        @pytest.mark.parametrize("listener", ["SASL_SSL", "SSL"])
        def test_login(kafka_secure_broker, listener):
            with Admin(kafka_secure_broker.client_settings(listener=listener)) as admin:
                admin.list_topics()

        def test_wrong_password(kafka_secure_broker):
            wrong = kafka_secure_broker.client_settings() | {"sasl.password": "wrong"}
            with pytest.raises(AuthenticationFailed), Admin(wrong) as admin:
                admin.list_topics()
        """
    )
    run().assert_outcomes(passed=3)
    run("--kafka-bootstrap", "127.0.0.1:1").assert_outcomes(skipped=3)


ON_THE_LOOP = """
    import pytest
    from ottla import aio

    async def round_trip(broker):
        await broker.create_topic("orders", 2)
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            assert (await (await producer.send("orders", b"tea", partition=1))).offset == 0
        async with aio.PartitionConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            reader = await consumer.consume_partition("orders", 1, "earliest")
            async for message in reader:
                return message.value
"""


def test_a_broker_on_the_loop_of_pytest_asyncio(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        ON_THE_LOOP
        + """
    @pytest.mark.asyncio
    async def test_on_a_loop_of_its_own(kafka_aio_broker):
        assert await round_trip(kafka_aio_broker) == b"tea"

    @pytest.mark.asyncio(loop_scope="module")
    async def test_on_a_loop_for_all(kafka_aio_broker):
        assert await round_trip(kafka_aio_broker) == b"tea"
    """
    )
    setting = "asyncio_default_fixture_loop_scope=function"
    run("-p", "pytest_asyncio.plugin", "-o", setting).assert_outcomes(passed=2)


def test_a_broker_on_the_loop_of_anyio(pytester: pytest.Pytester, run: Run) -> None:
    """Beside pytest-asyncio, as with many users: anyio comes with Starlette and httpx."""
    pytester.makepyfile(
        ON_THE_LOOP
        + """
    @pytest.mark.anyio
    async def test_on_both(kafka_aio_broker):
        assert await round_trip(kafka_aio_broker) == b"tea"
    """
    )
    plugins = ("-p", "anyio.pytest_plugin", "-p", "pytest_asyncio.plugin")
    result = run(*plugins, "-o", "asyncio_default_fixture_loop_scope=function")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*run on asyncio, not on trio*"])


def test_a_broker_on_a_loop_that_nobody_runs(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_nothing(kafka_aio_broker): pass")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs pytest-asyncio, or anyio and its marker*"])


def test_one_broker_for_the_run_and_a_topic_for_each_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(ROUND_TRIP)
    pytester.makepyfile(
        """
        import pytest
        from conftest import round_trip

        seen = []

        @pytest.mark.parametrize("value", [b"a", b"b"])
        def test_records(kafka_broker, kafka_topic, value):
            seen.append((kafka_broker, kafka_topic))
            assert round_trip(kafka_broker.bootstrap, kafka_topic, value) == value

        def test_was_one_broker():
            (first, one), (second, other) = seen
            assert first is second and one != other
            assert one.startswith("test-records-a-")

        def test_can_be_used_without_a_topic(kafka_broker):
            kafka_broker.create_topic("mine", 2)
            kafka_broker.delete_topic("mine")
        """
    )
    run().assert_outcomes(passed=4)


def test_topics_as_the_marker_or_the_test_wants_them(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

        def described(bootstrap):
            return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics

        @pytest.mark.kafka_topic(partitions=3, config={"cleanup.policy": "compact"})
        def test_marker(kafka_broker, kafka_topic):
            assert len(described(kafka_broker.bootstrap)[kafka_topic].partitions) == 3
            admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
            resource = ConfigResource(ResourceType.TOPIC, kafka_topic)
            configs = admin.describe_configs([resource])[resource].result(30)
            assert configs["cleanup.policy"].value == "compact"

        def test_factory(kafka_broker, kafka_topic_factory):
            names = [kafka_topic_factory(), kafka_topic_factory(5, replication_factor=2)]
            found = described(kafka_broker.bootstrap)
            assert [len(found[name].partitions) for name in names] == [1, 5]
            assert len(found[names[1]].partitions[0].replicas) == 2
            kafka_broker.delete_topic(names[0])

        def test_nothing_is_left(kafka_broker):
            assert not described(kafka_broker.bootstrap)

        @pytest.mark.kafka_topic(shards=3)
        def test_unknown_argument(kafka_topic):
            pass
        """
    )
    result = run("-o", "kafka_brokers=2")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*unexpected keyword argument 'shards'*"])


def test_settings_of_the_embedded_broker(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini(
        """
        [pytest]
        kafka_brokers = 3
        kafka_properties =
            auto.create.topics.enable=false
            num.partitions = 7
        """
    )
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

        def test_settings(kafka_broker):
            admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
            assert sorted(admin.list_topics(timeout=30).brokers) == [0, 1, 2]
            resource = ConfigResource(ResourceType.BROKER, "0")
            configs = admin.describe_configs([resource])[resource].result(30)
            assert configs["auto.create.topics.enable"].value == "false"
            assert configs["num.partitions"].value == "7"
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("kafka_brokers=none", "*kafka_brokers = none: give a number from 1 on*"),
        ("kafka_brokers=0", "*kafka_brokers = 0: give a number from 1 on*"),
        ("kafka_properties=num.partitions", "*kafka_properties, 'num.partitions': give NAME=VALUE*"),
        ("kafka_properties=num.partition=2", "*num.partition is not a property of a broker*num.partitions*"),
    ],
)
def test_wrong_settings_are_named(pytester: pytest.Pytester, run: Run, setting: str, complaint: str) -> None:
    pytester.makepyfile("def test_it(kafka_broker): pass")
    result = run("-o", setting)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([complaint])


def test_faults_and_dead_brokers_end_with_their_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient
        from ottla.model.error_codes import Code

        def test_breaks_things(kafka_broker):
            kafka_broker.fail("Metadata", Code.UNKNOWN_SERVER_ERROR, times=-1)
            kafka_broker.stop_broker(1)

        def test_finds_them_whole(kafka_broker):
            about = AdminClient({"bootstrap.servers": kafka_broker.bootstrap}).list_topics(timeout=30)
            assert sorted(about.brokers) == [0, 1]

        def test_stops_it(kafka_broker, kafka_topic):
            kafka_broker.stop()

        def test_starts_it(kafka_broker):
            kafka_broker.start()
        """
    )
    run("-o", "kafka_brokers=2").assert_outcomes(passed=4)


ANYWHERE = """
    import pytest
    from conftest import round_trip
    from ottla.model.error_codes import Code

    @pytest.mark.kafka_topic(partitions=2, config={"retention.ms": "60000"})
    def test_records(kafka_broker, kafka_topic):
        print("bootstrap", kafka_broker.bootstrap)
        assert round_trip(kafka_broker.bootstrap, kafka_topic, b"v") == b"v"

    def test_topics(kafka_broker, kafka_topic_factory):
        from ottla import KafkaError
        name = kafka_topic_factory()
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            kafka_broker.create_topic(name)
        kafka_broker.create_topic(name + "-left", config={"max.message.bytes": "1000"})
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kafka_broker.delete_topic("never-made")
        with pytest.raises(KafkaError, match="INVALID_CONFIG"):
            kafka_broker.create_topic("never-made", config={"retention.ms": "soon"})

    def test_faults(kafka_broker, kafka_topic):
        kafka_broker.clear_faults()
        kafka_broker.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER)

    def test_leaders(kafka_broker, kafka_topic):
        kafka_broker.move_leader(kafka_topic, 0, 0)

    def test_files(kafka_broker):
        assert kafka_broker.data_dir.is_dir()
"""


def test_the_same_tests_on_the_embedded_broker(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(ROUND_TRIP)
    pytester.makepyfile(ANYWHERE)
    run().assert_outcomes(passed=5)


def test_the_same_tests_on_another_cluster(
    pytester: pytest.Pytester, run: Run, cluster: EmbeddedBroker
) -> None:
    pytester.makeconftest(ROUND_TRIP)
    pytester.makepyfile(ANYWHERE)
    result = run("-s", "--kafka-bootstrap", cluster.bootstrap)
    result.assert_outcomes(passed=2, skipped=3)
    result.stdout.fnmatch_lines([f"*bootstrap {cluster.bootstrap}*", "*needs the embedded broker*"])
    assert topics_of(cluster.bootstrap) == set()


@pytest.mark.parametrize("version", [KAFKA_4])
def test_the_same_tests_on_apache_kafka(
    pytester: pytest.Pytester, run: Run, real_kafka: Callable[[str], RealKafka], version: str
) -> None:
    pytester.makeconftest(ROUND_TRIP)
    pytester.makepyfile(ANYWHERE)
    bootstrap = real_kafka(version).bootstrap
    before = topics_of(bootstrap)
    result = run("--kafka-bootstrap", bootstrap)
    result.assert_outcomes(passed=2, skipped=3)
    assert topics_of(bootstrap) == before


def test_a_cluster_that_does_not_answer_is_named(pytester: pytest.Pytester, run: Run) -> None:
    with EmbeddedBroker() as broker:
        gone = broker.bootstrap
    pytester.makepyfile("def test_it(kafka_broker): pass")
    result = run("--kafka-bootstrap", gone)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*--kafka-bootstrap {gone}: no broker answers*"])


def test_a_cluster_is_found_by_any_of_its_addresses(cluster: EmbeddedBroker) -> None:
    cluster.stop_broker(0)
    found = RealCluster(cluster.bootstrap)
    found.create_topic("found")
    assert topics_of(cluster.bootstrap) == {"found"}
    found.close()
    assert topics_of(cluster.bootstrap) == set()


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:kafka"])
def test_addresses_need_a_port(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--kafka-bootstrap: .*HOST:PORT"):
        RealCluster(text)


def test_too_many_replicas_are_refused_by_the_cluster(cluster: EmbeddedBroker) -> None:
    with (
        closing(RealCluster(cluster.bootstrap)) as real,
        pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"),
    ):
        real.create_topic("x", replication_factor=3)
