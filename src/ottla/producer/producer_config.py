"""The settings of a producer, parsed once. Names and defaults are those of Kafka 4, except `batch.size`.

`batch.size` is 1,000,000 as in librdkafka: no memory is allocated in advance here, so large batches cost
nothing. Partitioners and serializers are functions, and therefore arguments of the Producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.client.retry import Backoff
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, LONG, TEXT, Property, parse_properties
from ottla.model.record_layout import BATCH_OVERHEAD
from ottla.producer.partition_queue import QueueLimits
from ottla.records.compression import Codec, compress

ACKS_ALL = -1
IN_FLIGHT_MAX_IDEMPOTENT = 5  # a broker recognizes this many batches of a producer
RETRIES_MAX = 2**31 - 1
DELIVERY_TIMEOUT_MS = 120_000

LEVEL_MIN = -131_072  # zstd's

_CODECS_WITH_LEVELS = ("gzip", "lz4", "zstd")
_ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}

PRODUCER_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    Property(
        "acks",
        TEXT,
        ACKS_ALL,
        "When a batch counts as stored: all in-sync replicas have it (all), the leader (1), or at once (0).",
        synonyms=("request.required.acks",),
        choices=tuple(_ACKS),
        check=_ACKS.__getitem__,
    ),
    Property(
        "enable.idempotence",
        BOOLEAN,
        None,
        "Nothing is stored twice, and order is kept with several batches in flight. By default on if the"
        " other settings and the brokers allow it; with true it is an error if they do not.",
    ),
    Property(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "Requests to one broker that are not answered yet.",
        synonyms=("max.in.flight",),
        minimum=1,
        maximum=64,
    ),
    Property(
        "retries",
        INT,
        RETRIES_MAX,
        "How often a batch is sent again; delivery.timeout.ms ends it in any case.",
        synonyms=("message.send.max.retries",),
        minimum=0,
    ),
    Property(
        "delivery.timeout.ms",
        INT,
        None,
        "How long a record may take from send() until it is acknowledged; 120000 if unset.",
        synonyms=("message.timeout.ms",),
        minimum=1,
    ),
    Property(
        "linger.ms", INT, 5, "How long to wait for more records before a small batch is sent.", minimum=0
    ),
    Property("batch.size", INT, 1_000_000, "Bytes of a batch, before it is compressed.", minimum=1),
    Property(
        "buffer.memory",
        LONG,
        32 * 1024 * 1024,
        "Bytes of records that are not acknowledged. When they are more, send() waits.",
        minimum=1,
    ),
    Property(
        "max.block.ms",
        INT,
        60_000,
        "How long send() waits for memory, and records for their topic to be known.",
        minimum=0,
    ),
    Property("max.request.size", INT, 1024 * 1024, "Bytes of a request, and so of a record.", minimum=1),
    Property(
        "compression.type",
        TEXT,
        Codec.NONE,
        "none, gzip, snappy, lz4 or zstd.",
        synonyms=("compression.codec",),
        check=Codec.named,
    ),
    Property(
        "compression.level",
        INT,
        None,
        "The codec's level, whatever the codec; its own default if unset.",
        minimum=LEVEL_MIN,
    ),
    *(
        Property(
            f"compression.{codec}.level",
            INT,
            None,
            f"The level of {codec}, if that is the codec.",
            minimum=LEVEL_MIN,
        )
        for codec in _CODECS_WITH_LEVELS
    ),
    Property(
        "transactional.id",
        TEXT,
        None,
        "The name of this producer for transactions: a newer producer of the same name replaces it. Unset,"
        " there are no transactions.",
    ),
    Property(
        "transaction.timeout.ms",
        INT,
        60_000,
        "After this time the brokers abort a transaction that is still open, and refuse its producer.",
        minimum=1,
    ),
    Property(
        "partitioner.ignore.keys",
        BOOLEAN,
        default=False,
        doc="Treat records with a key like those without one.",
    ),
)

FOREIGN: Mapping[str, str] = {
    **FOREIGN_PROPERTIES,
    "transaction.two.phase.commit.enable": "there is no two-phase commit here (KIP-939)",
    "key.serializer": "give a function, as the argument key_serializer=",
    "value.serializer": "give a function, as the argument value_serializer=",
    "partitioner.class": "give a function: partitioner= or column_partitioner=; or partitioner='round_robin'",
    "max.batch.size": "it is batch.size",
    "queue.buffering.max.kbytes": "it is buffer.memory, in bytes",
    "queue.buffering.max.messages": "records are not counted here; buffer.memory limits their bytes",
    "queue.buffering.max.ms": "it is linger.ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Checked settings. `demands_idempotence`: enable.idempotence=true was given."""

    client: ClientConfig
    acks: int
    is_idempotent: bool
    demands_idempotence: bool
    max_in_flight: int
    retries: int
    delivery_timeout_ms: int
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    codec: Codec
    level: int | None
    ignores_keys: bool
    transactional_id: str | None
    transaction_timeout_ms: int

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse Kafka's names, dotted or snake_case. Raises ConfigError."""
        given = {name: str(value) if name == "acks" else value for name, value in properties.items()}
        values = parse_properties(PRODUCER_PROPERTIES, given, foreign=FOREIGN)
        client = ClientConfig.from_values(values)
        if client.client_id == "ottla":
            client = replace(client, client_id="ottla-producer")
        return cls(
            client=client,
            acks=values["acks"],
            is_idempotent=_idempotence(values),
            demands_idempotence=bool(values["enable_idempotence"]),
            max_in_flight=values["max_in_flight_requests_per_connection"],
            retries=values["retries"],
            delivery_timeout_ms=_delivery_timeout(values),
            linger_ms=values["linger_ms"],
            batch_size=values["batch_size"],
            buffer_memory=values["buffer_memory"],
            max_block_ms=values["max_block_ms"],
            max_request_size=values["max_request_size"],
            codec=values["compression_type"],
            level=_level(values),
            ignores_keys=values["partitioner_ignore_keys"],
            transactional_id=values["transactional_id"],
            transaction_timeout_ms=values["transaction_timeout_ms"],
        )

    @property
    def is_transactional(self) -> bool:
        """Whether records are sent in transactions only."""
        return self.transactional_id is not None

    @property
    def record_max(self) -> int:
        """The largest size of a record, with the header of its batch."""
        return min(self.max_request_size, self.buffer_memory)

    @property
    def part_bytes(self) -> int:
        """Bytes of records that fit into a batch."""
        return max(1, min(self.batch_size, self.max_request_size) - BATCH_OVERHEAD)

    @property
    def topic_patience_ms(self) -> int:
        """How long a record waits until its topic is known."""
        return min(self.max_block_ms, self.delivery_timeout_ms)

    @property
    def limits(self) -> QueueLimits:
        """The settings that the queues use."""
        return QueueLimits(
            batch_size=min(self.batch_size, self.max_request_size),
            linger_ms=self.linger_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            retries=self.retries,
            backoff=Backoff(self.client.retry_backoff_ms, self.client.retry_backoff_max_ms),
            max_request_size=self.max_request_size,
            acks=self.acks,
            is_transactional=self.is_transactional,
        )


def _idempotence(values: Mapping[str, Any]) -> bool:
    """Return whether idempotence is on. Raises ConfigError if it is demanded and another setting
    forbids it.
    """
    wanted, demand = values["enable_idempotence"], "enable.idempotence=true"
    if values["transactional_id"] is not None:
        if not values["transactional_id"]:
            raise ConfigError("transactional.id is empty: give a name, or leave it out")
        if wanted is False:
            raise ConfigError("transactional.id needs enable.idempotence=true, which is the default")
        wanted, demand = True, "transactional.id"
    if wanted is False:
        return False
    in_flight = values["max_in_flight_requests_per_connection"]
    obstacles = {
        "acks=all": values["acks"] != ACKS_ALL,
        "retries of 1 or more": values["retries"] == 0,
        f"max.in.flight.requests.per.connection of {IN_FLIGHT_MAX_IDEMPOTENT} or less, not {in_flight}": (
            in_flight > IN_FLIGHT_MAX_IDEMPOTENT
        ),
    }
    missing = [need for need, is_missing in obstacles.items() if is_missing]
    if wanted and missing:
        raise ConfigError(f"{demand} needs {' and '.join(missing)}")
    return not missing


def _level(values: Mapping[str, Any]) -> int | None:
    """Return the level of the codec. Raises ConfigError if the codec has no such level."""
    codec = values["compression_type"]
    level = values["compression_level"]
    if level is None:
        level = values.get(f"compression_{codec.label}_level")
    try:
        compress(codec, b"", level=level)
    except ConfigError as error:
        raise ConfigError(f"compression.level={level}, compression.type={codec.label}: {error}") from None
    return None if level is None else int(level)


def _delivery_timeout(values: Mapping[str, Any]) -> int:
    least = int(values["linger_ms"] + values["request_timeout_ms"])
    timeout_ms = values["delivery_timeout_ms"]
    if timeout_ms is None:
        return max(DELIVERY_TIMEOUT_MS, least)
    if timeout_ms < least:
        raise ConfigError(
            f"delivery.timeout.ms={timeout_ms} is less than linger.ms + request.timeout.ms = {least}: no"
            " batch could be tried once; raise it, or lower request.timeout.ms"
        )
    return int(timeout_ms)
