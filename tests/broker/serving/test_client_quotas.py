"""Client quotas: the core with a clock of its own, then our broker and Apache Kafka under the same load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from ottla import Admin, EmbeddedBroker, PartitionConsumer, Producer
from ottla.admin import NewTopic, QuotaEntity
from ottla.broker.serving.client_quotas import (
    CONNECTIONS,
    FETCH,
    MUTATIONS,
    PRODUCE,
    REQUEST,
    ClientQuotas,
    QuotaLimits,
    SampledRate,
)
from ottla.broker.settings.quotas import entity_key
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.broker.scraping import fetched, free_port
from tests.broker.traffic import answers, fetch_request, place, produce_request
from tests.broker.wire_client import Client
from tests.log.record_sets import batch
from tools.peers import KAFKA_4, RealKafka

# --- the core


def limits_of(*rules: tuple[dict[str, str | None], str, float]) -> QuotaLimits:
    kept: dict[str, dict[str, float]] = {}
    for entity, name, limit in rules:
        kept.setdefault(entity_key(entity), {})[name] = limit
    return QuotaLimits({"QUOTA": kept})


def test_a_rate_is_measured_over_ten_windows_at_least() -> None:
    rate = SampledRate()
    rate.record(15_000, 0)
    assert rate.measured(0) == (1500.0, 10_000)
    assert rate.wait_ms(1000, 0) == 5000
    assert rate.wait_ms(1500, 0) == 0
    assert rate.wait_ms(1000, 5000) == 5000, "within ten windows the rate does not fall"
    assert rate.measured(10_500)[0] == pytest.approx(15_000 / 10.5)
    assert rate.measured(11_000) == (0.0, 10_000), "what is older than all windows does not count"


def test_old_samples_make_room_for_new_ones() -> None:
    rate = SampledRate()
    for second in range(60):
        rate.record(1000, second * 1000)
    per_second, window_ms = rate.measured(59_000)
    assert (per_second, window_ms) == (pytest.approx(1100), 10_000)


LEVELS: list[dict[str, str | None]] = [
    {"user": "ann", "client-id": "tool"},
    {"user": "ann", "client-id": None},
    {"user": "ann"},
    {"user": None, "client-id": "tool"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "tool"},
    {"client-id": None},
]


def test_the_most_specific_quota_holds() -> None:
    for first in range(len(LEVELS)):
        limits = limits_of(*((LEVELS[n], PRODUCE, n + 1.0) for n in range(first, len(LEVELS))))
        applied = limits.of_client(PRODUCE, "ann", "tool")
        assert applied is not None
        assert applied.limit == first + 1
        assert limits.of_client(FETCH, "ann", "tool") is None, "each kind of quota has its own entities"


def test_who_shares_a_quota() -> None:
    of_user = limits_of(({"user": None}, PRODUCE, 1.0))
    owners = [of_user.of_client(PRODUCE, "ann", name) for name in ("a", "b")]
    assert owners[0] == owners[1], "clients of a user share it"
    assert of_user.of_client(PRODUCE, "bob", "a") != owners[0], "each user has its own"
    of_client = limits_of(({"client-id": None}, PRODUCE, 1.0))
    assert of_client.of_client(PRODUCE, "ann", "a") == of_client.of_client(PRODUCE, "bob", "a")
    assert of_client.of_client(PRODUCE, "ann", "") is None, "a client without an id has none"


def test_times_of_requests_and_connections_are_bounded() -> None:
    addresses: list[tuple[dict[str, str | None], str, float]] = [
        ({"ip": "10.0.0.1"}, CONNECTIONS, 1.0),
        ({"ip": None}, CONNECTIONS, 2.0),
    ]
    quotas = ClientQuotas(limits_of(({"user": "ann"}, REQUEST, 1.0), *addresses))
    quota = quotas.applied(REQUEST, "ann", "")
    assert quota is not None
    assert quotas.record(REQUEST, quota, 5000.0, 0) == 1000
    assert [quotas.connected("10.0.0.1", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert [quotas.connected("10.0.0.2", 0) > 0 for _ in range(22)] == [False] * 20 + [True] * 2
    assert quotas.throttled[CONNECTIONS] == 3


# --- brokers


@pytest.fixture(params=["embedded", "kafka"])
def bootstrap(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[str]:
    if request.param == "kafka":
        yield real_kafka(KAFKA_4).bootstrap
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def limited(admin: Admin, client_id: str, **quotas: float) -> str:
    admin.alter_client_quotas({QuotaEntity(client_id=client_id): dict(quotas)})
    return client_id


def test_produced_bytes_above_a_quota_cost_time(bootstrap: str) -> None:
    """One request of 15 kB where 1 kB a second is allowed: 5 seconds, from both brokers."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("quota-produce", partitions=1))
        name = limited(admin, "quota-writer", producer_byte_rate=1000)
    records = batch((b"k", b"v" * 14_900))
    with Client.of(bootstrap, name) as client, Client.of(bootstrap, "free") as free:
        waited_for_rule(lambda: bool(answer(client, records).throttle_time_ms))
        assert answer(free, records).throttle_time_ms == 0
    with Client.of(bootstrap, "quota-writer") as again:
        throttle_ms = answer(again, batch((b"k", b"v"))).throttle_time_ms
    assert 4000 <= throttle_ms <= 6500, "the quota is the client's, not the connection's"


def answer(client: Client, records: bytes | bytearray):  # type: ignore[no-untyped-def]
    request = produce_request(client, {("quota-produce", 0): records}, 9)
    return client.call(request, 9)


def waited_for_rule(has_effect: Callable[[], bool]) -> None:
    """Kafka's brokers learn of a quota a moment after it was set."""
    deadline = time.monotonic() + 30
    while not has_effect():
        assert time.monotonic() < deadline


def test_a_fetch_above_a_quota_is_answered_without_records(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("quota-fetch", partitions=1))
        name = limited(admin, "quota-reader", consumer_byte_rate=1000)
    with Client.of(bootstrap, "free") as free:
        for _ in range(10):
            sent = produce_request(free, {("quota-fetch", 0): batch((b"k", b"v" * 4000))}, 9)
            assert not free.call(sent, 9).responses[0].partition_responses[0].error_code
    with Client.of(bootstrap, name) as client:
        request = fetch_request(client, {("quota-fetch", 0): place(0, 5000)}, 12, session_epoch=-1)
        sizes = []
        while not (response := client.call(request, 12)).throttle_time_ms:
            sizes.append(sum(len(part.records or b"") for part in answers(response)))
    assert response.responses == []
    assert 1 <= len(sizes) <= 2
    assert all(4000 < size <= 5000 for size in sizes)
    assert 0 < response.throttle_time_ms <= 5000


def test_a_fetch_is_never_larger_than_its_quota_allows_in_ten_seconds() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("quota-produce", partitions=1))
        name = limited(admin, "small", consumer_byte_rate=1000)
        with Client.of(broker.bootstrap, "free") as free:
            for _ in range(5):
                answer(free, batch((b"k", b"v" * 4000)))
        with Client.of(broker.bootstrap, name) as client:
            request = fetch_request(client, {("quota-produce", 0): 0}, 12, session_epoch=-1)
            (part,) = answers(client.call(request, 12))
            assert 4000 < len(part.records or b"") <= 10_000


def test_a_muted_connection_is_read_later() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("quota-produce", partitions=1))
        name = limited(admin, "slow", producer_byte_rate=10_000)
        with Client.of(broker.bootstrap, name) as client:
            client.call(MetadataRequest(topics=[]), 9)
            told_ms = answer(client, batch((b"k", b"v" * 104_900))).throttle_time_ms
            began = time.monotonic()
            client.call(MetadataRequest(topics=[]), 9)
            assert (time.monotonic() - began) * 1000 >= told_ms - 20 > 300


def test_clients_of_ottla_wait_and_lose_nothing() -> None:
    """Records above the quotas of producer and consumer come slower, all of them, once each."""
    port = free_port()
    with EmbeddedBroker(properties={"ottla.metrics.port": str(port)}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic("orders", partitions=1))
            limited(admin, "slow", producer_byte_rate=100_000, consumer_byte_rate=100_000)
        values = [b"%05d" % number + b"." * 10_000 for number in range(108)]
        with Producer(bootstrap_servers=broker.bootstrap, client_id="slow", batch_size=20_000) as producer:
            for value in values:
                producer.send("orders", value)
        with PartitionConsumer(bootstrap_servers=broker.bootstrap, client_id="slow") as consumer:
            consumer.consume_partition("orders", 0, "earliest")
            rows = islice(consumer.messages(timeout=30), len(values))
            assert [row.value for row in rows] == values
        _, text = fetched(port)
        for name in ("producer_byte_rate", "consumer_byte_rate"):
            assert f'ottla_throttled_total{{broker="0",quota="{name}"}}' in text


def test_connections_of_an_address_are_limited() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({QuotaEntity(ip="127.0.0.1"): {"connection_creation_rate": 1}})
        closed = 0
        for _ in range(12):
            with Client.of(broker.bootstrap) as client:
                try:
                    client.call(MetadataRequest(topics=[]), 9)
                except OSError:
                    closed += 1
        assert closed == 2
        admin.alter_client_quotas({QuotaEntity(ip="127.0.0.1"): {"connection_creation_rate": None}})
        with Client.of(broker.bootstrap) as client:
            client.call(MetadataRequest(topics=[]), 9)


def test_time_of_requests_is_limited() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        name = limited(admin, "busy", request_percentage=0.001)
        with Client.of(broker.bootstrap, name) as client:
            for _ in range(1000):
                response = client.call(MetadataRequest(topics=None), 9)
                if response.throttle_time_ms:
                    break
        assert 0 < response.throttle_time_ms <= 1000


def test_a_bucket_of_changes_is_full_at_first_and_fills_again() -> None:
    now_ms = 1_000_000.0
    quotas = ClientQuotas(limits_of(({"user": "ann"}, MUTATIONS, 2.0)))
    strict = quotas.mutations("ann", "c", lambda: now_ms, is_strict=True)
    strict.spend(20)
    strict.spend(6)  # 22 at once; the last request may take more than is left
    with pytest.raises(KafkaError, match="THROTTLING_QUOTA_EXCEEDED"):
        strict.spend(1)
    assert strict.wait_ms == 2000
    now_ms += 2000
    strict.spend(1)
    lenient = quotas.mutations("ann", "c", lambda: now_ms, is_strict=False)
    lenient.spend(3)
    assert lenient.wait_ms == 2000
    quotas.mutations("bob", "c", lambda: now_ms, is_strict=True).spend(1_000_000)


def test_changes_of_topics_are_limited(bootstrap: str) -> None:
    """As Apache Kafka does it: the quota is used up, the next request is refused, and told how long."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        name = limited(admin, "changes", controller_mutation_rate=1)
    accepted = 0
    with Client.of(bootstrap, name) as client:
        while accepted < 20:  # Kafka may know the quota a moment later
            topic = CreateTopic(name=f"{name}-{accepted}", num_partitions=6, replication_factor=1)
            answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 6)
            if answer.topics[0].error_code:
                break
            assert not answer.throttle_time_ms
            accepted += 1
    assert accepted >= 2, "eleven partitions at once, and what the last request takes above them"
    assert answer.topics[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert 0 < answer.throttle_time_ms <= 60_000
