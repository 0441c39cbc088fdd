"""Settings by Kafka's names: defaults, what goes together, what does not, and names of other clients."""

from __future__ import annotations

import pytest

from ottla.model.errors import ConfigError
from ottla.producer.producer import Producer
from ottla.producer.producer_config import ProducerConfig
from ottla.records.compression import Codec

SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}


def config(**properties: object) -> ProducerConfig:
    return ProducerConfig.from_properties({**SERVERS, **properties})


def test_defaults_are_kafkas() -> None:
    one = config()
    assert (one.acks, one.is_idempotent, one.demands_idempotence) == (-1, True, False)
    assert (one.linger_ms, one.max_in_flight, one.retries) == (5, 5, 2**31 - 1)
    assert (one.buffer_memory, one.max_block_ms, one.max_request_size) == (32 << 20, 60_000, 1 << 20)
    assert (one.delivery_timeout_ms, one.codec) == (120_000, Codec.NONE)
    assert one.client.client_id == "ottla-producer"


def test_names_are_dotted_or_not_and_values_texts_or_not() -> None:
    one = config(**{"linger.ms": "20", "batch_size": 5, "acks": 1, "compression.type": "zstd"})
    assert (one.linger_ms, one.batch_size, one.acks, one.codec) == (20, 5, 1, Codec.ZSTD)


@pytest.mark.parametrize(
    "obstacle",
    [{"acks": 1}, {"acks": "0"}, {"retries": 0}, {"max.in.flight.requests.per.connection": 6}],
    ids=str,
)
def test_idempotence_is_left_out_unless_demanded(obstacle: dict[str, object]) -> None:
    assert not config(**obstacle).is_idempotent
    with pytest.raises(ConfigError, match=r"enable\.idempotence=true needs"):
        config(**obstacle, enable_idempotence=True)


def test_a_delivery_has_time_for_one_try() -> None:
    assert config(request_timeout_ms=200_000).delivery_timeout_ms == 200_005
    with pytest.raises(ConfigError, match=r"delivery.timeout.ms=100 is less than .* = 30005"):
        config(delivery_timeout_ms=100)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"linger": 5}, r"linger is no setting of this client; did you mean linger\.ms\?"),
        ({"transactional.id": ""}, "transactional.id is empty"),
        ({"transactional.id": "x", "acks": "1"}, "transactional.id needs acks=all"),
        ({"transactional.id": "x", "enable.idempotence": "false"}, "needs enable.idempotence=true"),
        ({"transaction.two.phase.commit.enable": "true"}, "no two-phase commit"),
        ({"value.serializer": "x"}, "give a function, as the argument value_serializer="),
        ({"queue.buffering.max.ms": 5}, r"it is linger\.ms"),
        ({"acks": "most"}, "it must be all or -1 or 0 or 1"),
        ({"compression.type": "brotli"}, "unknown compression 'brotli'"),
        ({"buffer.memory": 0}, "it must be at least 1"),
        ({"compression.type": "gzip", "compression.level": 99}, "gzip level 99 is not within 1 to 9"),
        ({"compression.level": 3}, "compression none has no levels"),
    ],
)
def test_wrong_settings_are_told_with_the_remedy(properties: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**properties)


def test_a_level_is_the_codecs_own_or_for_any() -> None:
    levels = {"compression.gzip.level": 1, "compression.zstd.level": 19}
    assert config(compression_type="zstd", **levels).level == 19
    assert config(compression_type="snappy", **levels).level is None
    assert config(compression_type="lz4", compression_level=3, **levels).level == 3


def test_a_producer_needs_servers_and_one_partitioner() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is not set"):
        Producer()
    with pytest.raises(ConfigError, match="give one of partitioner"):
        Producer(SERVERS, partitioner="round_robin", column_partitioner=lambda *_: [])
    with pytest.raises(ConfigError, match="partitioner='modulo'"):
        Producer(SERVERS, partitioner="modulo")
