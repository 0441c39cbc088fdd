"""The options of .option(…), parsed once: those of Spark's own Kafka connector, and a few more. Pure.

Names are case-insensitive, as Spark's are. Names that begin with `kafka.` are settings of the client. An
unknown name is an error that suggests the nearest one. Settings that only make sense in Java's client are
accepted and have no effect, so that code moves here by changing the format's name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, LONG, TEXT, TEXTS, Kind, Property

log = logging.getLogger(__name__)

KAFKA = "kafka."
UNITS_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15})\s*([a-z]*)")


def _duration(value: object) -> int:
    match = _DURATION.fullmatch(str(value).strip().lower())
    if match is None or match[2] not in {"", *UNITS_MS}:
        raise ValueError
    return int(int(match[1]) * UNITS_MS[match[2] or "ms"])


DURATION = Kind("duration", _duration, "a time such as 500ms, 30s or 15m")


def _count(name: str, doc: str, *, minimum: int = 1) -> Property:
    return Property(name, LONG, None, doc, minimum=minimum)


COLUMNS = Property("columns", TEXTS, (), "Only these columns, in this order: the others are not made.")
INCLUDE_HEADERS = Property(
    "includeHeaders", BOOLEAN, default=False, doc="Whether there is a column of headers."
)
STARTING = (
    Property("startingOffsets", TEXT, "", "earliest, latest, group, or JSON."),
    _count("startingTimestamp", "Milliseconds since 1970, for all partitions.", minimum=0),
)
ENDING = (
    Property("endingOffsets", TEXT, "", "latest, or JSON."),
    _count("endingTimestamp", "Milliseconds since 1970, for all partitions.", minimum=0),
)
TOPICS = (
    Property("subscribe", TEXTS, (), "Topics, between commas."),
    Property(
        "subscribePattern",
        TEXT,
        "",
        "A regular expression of Java that is found in a topic's name: `^orders$` for a whole name.",
    ),
)
SOURCE_OPTIONS: tuple[Property, ...] = (
    *TOPICS,
    Property("assign", TEXT, "", 'Partitions: {"orders": [0, 1]}.'),
    *STARTING,
    Property("startingOffsetsByTimestamp", TEXT, "", "The same for each partition, as JSON."),
    Property(
        "startingOffsetsByTimestampStrategy",
        TEXT,
        "error",
        "What becomes of a partition without a record from that time on.",
        choices=("error", "latest"),
    ),
    *ENDING,
    Property("endingOffsetsByTimestamp", TEXT, "", "The same for each partition, as JSON."),
    _count("maxOffsetsPerTrigger", "How many offsets a micro-batch has at most."),
    _count("minOffsetsPerTrigger", "How many offsets a micro-batch waits for."),
    Property("maxTriggerDelay", DURATION, 900_000, "How long a micro-batch waits for them."),
    _count("minPartitions", "How many tasks there are at least."),
    _count("maxRecordsPerPartition", "How many offsets a task has at most."),
    _count("maxBytesPerTask", "How many bytes of the log a task reads, about, at most."),
    Property("minRecordsPerTask", INT, 100_000, "Smaller ranges are put together into one task.", minimum=0),
    Property("failOnDataLoss", BOOLEAN, default=True, doc="Whether records that are gone are an error."),
    INCLUDE_HEADERS,
    COLUMNS,
    Property("group.id", TEXT, "", "The group that the query's offsets are committed to."),
    Property("zookeeper.connect", TEXT, "", "Where that group keeps its offsets, if it is a classic one."),
    Property(
        "kafkaConsumer.pollTimeoutMs",
        INT,
        120_000,
        "How long a task waits for the next records of its range.",
        minimum=1,
    ),
    Property(
        "partition.metadata.cache.ttl.ms",
        INT,
        1_000,
        "How long a streaming query may not notice that a topic has more partitions.",
        minimum=-1,
    ),
    Property(
        "dropRepeatedRows", BOOLEAN, default=False, doc="Whether rows that a sink repeated are left out."
    ),
    Property(
        "repeatedRowsLookback",
        INT,
        100_000,
        "How many offsets before a range are looked through for rows that it repeats.",
        minimum=0,
    ),
    Property("groupIdPrefix", TEXT, "", "Nothing here: executors read without a group."),
    Property("fetchOffset.numRetries", INT, 3, "Nothing here: request.timeout.ms bounds retries.", minimum=0),
    Property("fetchOffset.retryIntervalMs", INT, 10, "Nothing here: see retry.backoff.ms.", minimum=0),
)
SINK_OPTIONS: tuple[Property, ...] = (
    Property("topic", TEXT, "", "Where all rows go, whatever the column `topic` says."),
    INCLUDE_HEADERS,
    Property(
        "includeTimestamp", BOOLEAN, default=False, doc="Whether the column timestamp is the records' time."
    ),
    Property(
        "rowIdentity",
        BOOLEAN,
        default=False,
        doc="Whether rows carry a header that identifies repeated rows.",
    ),
    Property(
        "exactlyOnce",
        BOOLEAN,
        default=False,
        doc="Whether rows count once, or not at all, for readers of committed records.",
    ),
    Property(
        "writeId",
        TEXT,
        "",
        "The name of a write that may be repeated: with the same name and batchId its rows count once.",
    ),
    Property("batchId", LONG, 0, "The number of the batch, in foreachBatch; it never goes back.", minimum=0),
    Property(
        "transactionalIdPrefix", TEXT, "ottla-spark", "How the ids of transactions of exactlyOnce begin."
    ),
    Property("decisionTopic", TEXT, "ottla-spark-decisions", "Where the decisions of exactlyOnce are kept."),
    Property("checkpointLocation", TEXT, "", "Spark's own."),
    Property("queryName", TEXT, "", "Spark's own."),
)
LOG_OPTIONS: tuple[Property, ...] = (
    Property("path", TEXTS, (), "Directories with partition directories in them, or such themselves."),
    *TOPICS,
    *STARTING,
    *ENDING,
    INCLUDE_HEADERS,
    COLUMNS,
    Property("maxBytesPerTask", INT, 64 << 20, "How much of segment files a task reads.", minimum=1),
)

FORBIDDEN = {
    "auto.offset.reset": "write startingOffsets: it says where a query begins",
    "key.deserializer": "keys are bytes: cast the column",
    "value.deserializer": "values are bytes: cast the column",
    "key.serializer": "keys are bytes or strings: cast the column",
    "value.serializer": "values are bytes or strings: cast the column",
    "enable.auto.commit": "Spark keeps the offsets: write group.id without kafka. to have them committed too",
    "interceptor.classes": "interceptors are Java's",
    "ssl.engine.factory.class": "Java classes cannot run here: give stores or PEM files",
    "sasl.login.class": "Java classes cannot run here: give sasl.jaas.config or sasl.oauth.token.provider",
    "ssl.enabled.protocols": "TLS 1.2 and 1.3 are used, as the system's OpenSSL is set up",
    "ssl.cipher.suites": "the ciphers are those of the system's OpenSSL",
    "config.providers": "Java classes cannot run here: give the values themselves",
}
WITHOUT_EFFECT = frozenset(
    {
        "auto.include.jmx.reporter",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "security.providers",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Java's settings of group membership and of its machinery. Logins and tickets are renewed by the client."""
WITHOUT_EFFECT_IN_SINKS = WITHOUT_EFFECT | {"client.rack"}


@dataclass(frozen=True, slots=True)
class Given:
    """Parsed options by name, and the client's settings without their prefix."""

    values: Mapping[str, Any]
    names: frozenset[str]
    kafka: Mapping[str, str]

    def is_given(self, name: str) -> bool:
        """Whether the user set the option."""
        return name in self.names


def parse_options(table: Iterable[Property], options: Mapping[str, str]) -> Given:
    """Every option of the table by its name, given or default. Raises ConfigError."""
    rows = {row.name.lower(): row for row in table}
    values: dict[str, Any] = {row.name: row.default for row in rows.values()}
    names: set[str] = set()
    kafka: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        row = rows.get(lower)
        if row is not None:
            values[row.name] = row.parse(value)
            names.add(row.name)
        elif lower.startswith(KAFKA) and len(lower) > len(KAFKA):
            kafka[lower.removeprefix(KAFKA)] = value
        else:
            raise _unknown(name, rows)
    return Given(values, frozenset(names), kafka)


def client_properties(
    kafka: Mapping[str, str], without_effect: frozenset[str] = WITHOUT_EFFECT
) -> dict[str, object]:
    """The client's settings. Raises ConfigError for those that a query must not set."""
    for name, remedy in FORBIDDEN.items():
        if name in kafka:
            raise ConfigError(f"kafka.{name} cannot be set: {remedy}")
    idle = sorted(without_effect & kafka.keys() - {"group.id"})
    if idle:
        log.warning("without effect here: %s", ", ".join(KAFKA + name for name in idle))
    if "bootstrap.servers" not in kafka:
        raise ConfigError("kafka.bootstrap.servers is not set: give HOST:PORT of one or more brokers")
    return {name: value for name, value in kafka.items() if name not in without_effect}


def _unknown(name: str, rows: Mapping[str, Property]) -> ConfigError:
    lower = name.lower()
    if lower in {"bootstrap.servers", "security.protocol"} or lower.startswith(("sasl.", "ssl.")):
        return ConfigError(f"{name} is no option: settings of the client begin with kafka., so kafka.{lower}")
    known = sorted(row.name for row in rows.values())
    others = f"; known are {', '.join(known)}, and kafka.*"
    return ConfigError(f"{name} is no option of this format{hint(name, known, otherwise=others)}")
