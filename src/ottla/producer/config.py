"""What users set about producing, parsed once. Names and defaults are Kafka 4's, but for `batch.size`.

That is 1,000,000 as in librdkafka: nothing is allocated ahead here, so large batches cost nothing.
Partitioners are functions, therefore no texts of a file, and arguments of the producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ottla.client.config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.client.properties import BOOLEAN, INT, LONG_MAX, TEXT, Property, parse_properties
from ottla.client.retry import Backoff
from ottla.model.errors import ConfigError
from ottla.producer.partition_queue import Limits
from ottla.records.compression import Codec, compress

ACKS_ALL = -1
IN_FLIGHT_MAX_IDEMPOTENT = 5  # so many batches of a producer a broker knows again
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
        "Who must have a batch before it counts: all in-sync replicas, the leader (1), or nobody (0).",
        synonyms=("request.required.acks",),
        choices=tuple(_ACKS),
        check=_ACKS.__getitem__,
    ),
    Property(
        "enable.idempotence",
        BOOLEAN,
        None,
        "Nothing is stored twice, and order is kept with several batches in flight. On where the other"
        " settings and the brokers allow it; true makes it an error where they do not.",
    ),
    Property(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "Requests on their way to one broker.",
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
        "How long a record may take from being handed in until it is acknowledged; 120000 if unset.",
        synonyms=("message.timeout.ms",),
        minimum=1,
    ),
    Property(
        "linger.ms", INT, 5, "How long to wait for more records before a small batch is sent.", minimum=0
    ),
    Property("batch.size", INT, 1_000_000, "Bytes of a batch, before it is compressed.", minimum=1),
    Property(
        "buffer.memory",
        INT,
        32 * 1024 * 1024,
        "Bytes of records that were handed in and are not acknowledged; then send() waits.",
        minimum=1,
        maximum=LONG_MAX,
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
        "partitioner.ignore.keys",
        BOOLEAN,
        default=False,
        doc="Place records with a key as those without one.",
    ),
)

_BYTES = "records are bytes here: encode values before they are sent"
FOREIGN: Mapping[str, str] = {
    **FOREIGN_PROPERTIES,
    "transactional.id": "there are no transactions here; a producer is idempotent without it",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "partitioner.class": "give a function: partitioner= or column_partitioner=; or partitioner='round_robin'",
    "max.batch.size": "it is batch.size",
    "queue.buffering.max.kbytes": "it is buffer.memory, in bytes",
    "queue.buffering.max.messages": "records are not counted here; buffer.memory limits their bytes",
    "queue.buffering.max.ms": "it is linger.ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Checked settings. `demands_idempotence`: the user asked for it, so it is not quietly left out."""

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

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Of Kafka's names, dotted or snake_case. Raises ConfigError."""
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
        )

    @property
    def limits(self) -> Limits:
        """What the core knows of them."""
        return Limits(
            batch_size=min(self.batch_size, self.max_request_size),
            linger_ms=self.linger_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            retries=self.retries,
            backoff=Backoff(self.client.retry_backoff_ms, self.client.retry_backoff_max_ms),
            max_request_size=self.max_request_size,
            acks=self.acks,
        )


def _idempotence(values: Mapping[str, Any]) -> bool:
    """Whether it is on; raises ConfigError where it is asked for and another setting forbids it."""
    wanted = values["enable_idempotence"]
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
        raise ConfigError(f"enable.idempotence=true needs {' and '.join(missing)}")
    return not missing


def _level(values: Mapping[str, Any]) -> int | None:
    """The level of the codec. Raises ConfigError for one that it does not have."""
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
    asked = values["delivery_timeout_ms"]
    if asked is None:
        return max(DELIVERY_TIMEOUT_MS, least)
    if asked < least:
        raise ConfigError(
            f"delivery.timeout.ms={asked} is less than linger.ms + request.timeout.ms = {least}: no batch"
            " could be tried once; raise it, or lower request.timeout.ms"
        )
    return int(asked)
