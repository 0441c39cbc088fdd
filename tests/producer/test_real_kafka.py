"""Apache Kafka itself: 0.9 with format 0 and no idempotence, and 4.x, which takes nothing but format 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.model.errors import AuthenticationFailed, LocalProtocolError
from ottla.producer import Producer
from ottla.records.hashes import key_partition
from tests.client.certificates import Certificates, make_certificates
from tests.producer.reading import read_topic, values
from tools.peers import HOST, KAFKA_0_9, KAFKA_4, RealKafka, Unavailable

TIMEOUT_S = 60
PIN = {KAFKA_0_9: "0.9"}  # or it takes five seconds to find out that it does not answer


LISTENER, MECHANISM, USER, PASSWORD = "SASL_SSL", "SCRAM-SHA-512", "ann", "s3cret"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(
    request: pytest.FixtureRequest, certificates: Certificates, real_kafka: Callable[[str], RealKafka]
) -> Iterator[RealKafka]:
    if request.param != KAFKA_4:
        yield real_kafka(request.param)
        return
    properties = {"num.partitions": "3"}
    more: dict[str, Any] = {}
    if request.param == KAFKA_4:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties |= {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{module} required;",
        }
        login = f"{MECHANISM}=[name={USER},password={PASSWORD}]"
        more = {"listeners": [LISTENER], "storage": ["--add-scram", login]}
    try:
        with RealKafka(request.param, properties=properties, **more) as one:
            yield one
    except Unavailable as missing:
        pytest.skip(f"Kafka {request.param}: {missing}")


def settings(kafka: RealKafka) -> dict[str, Any]:
    return {"broker_version": PIN.get(kafka.version, "")}


def producer(kafka: RealKafka, **properties: Any) -> Producer:
    return Producer(bootstrap_servers=kafka.bootstrap, **settings(kafka), **properties)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_takes_and_gives_back(kafka: RealKafka, codec: str) -> None:
    topic = f"taken-{codec}"
    keys = [b"key-%d" % (n % 31) for n in range(2_000)]
    table = pa.table({"key": pa.array(keys), "value": pa.array([b"%d" % n for n in range(2_000)])})
    with producer(kafka, compression_type=codec, batch_size=10_000) as one:
        if codec == "zstd" and kafka.version == KAFKA_0_9:
            failures = one.send_batch(topic, table).failures(TIMEOUT_S)
            assert "compression.type=zstd needs Produce 7" in str(failures[0][1])
            return
        told = one.send_batch(topic, table).result(TIMEOUT_S)
        row = one.send(topic, b"row", b"key-0").result(TIMEOUT_S)
    found = values(kafka.bootstrap, topic, **settings(kafka))
    places = zip(told.column("partition").to_pylist(), told.column("offset").to_pylist(), strict=True)
    assert [found[partition][offset] for partition, offset in places] == table.column("value").to_pylist()
    assert told.column("partition").to_pylist() == [key_partition(key, 3) for key in keys]
    assert found[row.partition][row.offset] == b"row"


def test_headers_and_times_where_the_format_has_them(kafka: RealKafka) -> None:
    with producer(kafka) as one:
        sent = one.send("headed", b"v", b"k", timestamp_ms=1_700_000_000_000, headers=[("a", b"1")])
        if kafka.version == KAFKA_0_9:
            error = sent.exception(TIMEOUT_S)
            assert isinstance(error, LocalProtocolError)
            assert "headers, which need Produce 3 (Kafka 0.11); this broker has 1" in str(error)
            return
        told = sent.result(TIMEOUT_S)
    found = read_topic(kafka.bootstrap, "headed")[told.partition][told.offset]
    assert (found.headers, found.timestamp_ms) == ((("a", b"1"),), 1_700_000_000_000)


def test_idempotence_where_there_is_one(kafka: RealKafka) -> None:
    with producer(kafka, enable_idempotence=True) as one:
        sent = one.send("numbered", b"v")
        if kafka.version == KAFKA_0_9:
            error = sent.exception(TIMEOUT_S)
            assert isinstance(error, LocalProtocolError)
            assert "has no InitProducerId" in str(error)
            assert "Set enable.idempotence=false" in str(error)
        else:
            assert sent.result(TIMEOUT_S).offset == 0


def test_a_restart_under_load_loses_nothing(kafka: RealKafka) -> None:
    count = 3_000
    with producer(kafka, batch_size=2_000) as one:
        for n in range(count):
            one.send("produced-restarted", b"%d" % n, b"%d" % (n % 17))
            if n == count // 2:
                kafka.restart()
        one.flush(TIMEOUT_S)
    found = values(kafka.bootstrap, "produced-restarted", **settings(kafka))
    numbers = [[int(value or b"") for value in partition] for partition in found.values()]
    if kafka.version == KAFKA_4:
        assert all(one == sorted(one) for one in numbers)
        assert sum(map(len, numbers)) == count
    for one_partition in numbers:
        first_seen = list(dict.fromkeys(one_partition))
        assert first_seen == sorted(first_seen)
    assert {number for one in numbers for number in one} == set(range(count))


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements(kafka: RealKafka, acks: int) -> None:
    topic = f"acks-{acks}"
    with producer(kafka, acks=acks) as one:
        one.send_batch(topic, pa.table({"value": [b"1", b"2"]}), partition=0).result(TIMEOUT_S)
    with producer(kafka) as one:  # stored behind them, since a broker handles a partition's appends in turn
        told = one.send(topic, b"3", partition=0).result(TIMEOUT_S)
    if acks:
        assert told.offset == 2
        assert values(kafka.bootstrap, topic, **settings(kafka))[0] == [b"1", b"2", b"3"]


def test_another_client_reads_what_was_sent(kafka: RealKafka) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    is_old = kafka.version == KAFKA_0_9
    count = 1_000
    more: dict[str, Any] = {} if is_old else {"headers": {"a": b"1"}, "timestamp_ms": 7}
    with producer(kafka, compression_type="gzip") as one:
        for n in range(count):
            one.send("foreign", b"%d" % n, b"key", partition=1, **more)
    old = {"api.version.request": "false", "broker.version.fallback": "0.9.0.1"} if is_old else {}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "foreign", **old})
    consumer.assign([confluent_kafka.TopicPartition("foreign", 1, 0)])
    found: list[Any] = []
    while len(found) < count and (some := consumer.consume(count - len(found), TIMEOUT_S)):
        found += some
    consumer.close()
    assert [one.error() for one in found] == [None] * count
    assert [(one.offset(), one.key(), one.value()) for one in found] == [
        (n, b"key", b"%d" % n) for n in range(count)
    ]
    if not is_old:
        assert (found[7].headers(), found[7].timestamp()[1]) == ([("a", b"1")], 7)


def test_tls_and_a_login(kafka: RealKafka, certificates: Certificates) -> None:
    if LISTENER not in kafka.listener_ports:
        pytest.skip("Kafka 0.9 has no SCRAM")
    secured = {
        "bootstrap.servers": f"{HOST}:{kafka.listener_ports[LISTENER]}",
        "security.protocol": LISTENER,
        "ssl.ca.location": str(certificates.authority),
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
    }
    table = pa.table({"value": [b"%d" % n + bytes(1_000) for n in range(5_000)]})
    with Producer(secured, sasl_password=PASSWORD) as one:
        assert one.send_batch("secured", table, partition=0).result(TIMEOUT_S).num_rows == 5_000
    assert values(kafka.bootstrap, "secured")[0] == table.column("value").to_pylist()
    with Producer(secured, sasl_password="wr0ng") as one:
        error = one.send("secured", b"v").exception(TIMEOUT_S)
    assert isinstance(error, AuthenticationFailed)
    assert "refused user 'ann'" in str(error)
