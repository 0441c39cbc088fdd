"""kafka-verifiable-producer: sends numbers to a topic and prints an event for each of them."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence

from ottla.cli.kafka.answers import broker_message, java_class
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import file_properties, profile_properties
from ottla.cli.kafka.tool import run_tool, tool_of
from ottla.cli.kafka.usage.verifiable_producer import USAGE
from ottla.cli.kafka.verifiable_events import Events
from ottla.model.errors import OttlaError
from ottla.producer import Delivery, Producer

_LONGEST_SLEEP_S = 1.0


def run(arguments: Sequence[str]) -> int:
    """Send numbers until --max-messages is reached or the process is ended."""
    return run_tool(TOOL, arguments)


class _Sending:
    """Counts sent and stored records. Deliveries come from the producer's threads, one per broker."""

    def __init__(self, events: Events, topic: str) -> None:
        self._events = events
        self._topic = topic
        self.sent = 0
        self.acked = 0
        self._lock = threading.Lock()

    def send(self, producer: Producer, key: str | None, value: str, created_ms: int | None) -> None:
        """Send one record."""

        def note(delivery: Delivery) -> None:
            error = delivery.exception(0)
            if error is None:
                with self._lock:
                    self.acked += 1
                stored = delivery.result(0)
                self._events.emit(
                    "producer_send_success",
                    key=key,
                    value=value,
                    topic=self._topic,
                    partition=stored.partition,
                    offset=stored.offset,
                )
            else:
                self._failed(key, value, error)

        self.sent += 1
        try:
            raw_key = None if key is None else key.encode()
            producer.send(self._topic, value.encode(), raw_key, timestamp_ms=created_ms, on_delivery=note)
        except OttlaError as error:
            self._failed(key, value, error)

    def _failed(self, key: str | None, value: str, error: Exception) -> None:
        text = broker_message(error) if isinstance(error, OttlaError) else str(error)
        self._events.emit(
            "producer_send_error",
            topic=self._topic,
            key=key,
            value=value,
            exception=f"class {java_class(error)}",
            message=text,
        )


def _act(options: Options) -> int:
    properties = _properties(options)
    events = Events("VerifiableProducer", is_old=not options.has("bootstrap-server"))
    sending = _Sending(events, options.text("topic"))
    most, rate = options.whole("max-messages"), options.whole("throughput")
    begun = time.monotonic()
    try:
        with Producer(properties) as producer:
            if not events.is_old:
                events.emit("startup_complete")
            for (key, value), created_ms in zip(_records(options, most), _times(options), strict=False):
                _throttle(sending.sent, rate, begun)
                sending.send(producer, key, value, created_ms)
    finally:
        if not events.is_old:
            events.emit("shutdown_complete")
        average = sending.acked / max(time.monotonic() - begun, 1e-3)
        events.emit(
            "tool_data",
            sent=sending.sent,
            acked=sending.acked,
            target_throughput=rate,
            avg_throughput=average,
        )
    return 0


def _throttle(sent: int, rate: int, begun: float) -> None:
    """Limit the rate. A rate of 0 lets one record through, as in Kafka."""
    while sent and rate >= 0:
        due_s = sent / rate if rate else math.inf
        ahead_s = due_s - (time.monotonic() - begun)
        if ahead_s <= 0:
            return
        time.sleep(min(ahead_s, _LONGEST_SLEEP_S))


def _records(options: Options, most: int) -> Iterator[tuple[str | None, str]]:
    prefix = f"{options.whole('value-prefix')}." if options.has("value-prefix") else ""
    keys = options.whole("repeating-keys") if options.has("repeating-keys") else 0
    for index in range(most) if most >= 0 else itertools.count():
        yield (str(index % keys) if keys > 0 else None), f"{prefix}{index}"


def _times(options: Options) -> Iterator[int | None]:
    """Timestamps that advance with the time that sending takes, as in Kafka."""
    created_ms = options.whole("message-create-time")
    begun = time.monotonic()
    while True:
        yield None if created_ms < 0 else created_ms
        if created_ms >= 0:
            created_ms += int((time.monotonic() - begun) * 1000)


def _properties(options: Options) -> dict[str, object]:
    if not options.has("topic"):
        raise WrongFlags("argument --topic is required")
    servers = options.value("bootstrap-server") or options.value("broker-list")
    if servers is None:
        raise WrongFlags("one of the arguments --bootstrap-server is required")
    acks = options.whole("acks")
    if acks not in (0, 1, -1):
        raise WrongFlags(f"argument --acks: invalid choice: '{acks}' (choose from {{0,1,-1}})")
    return {
        **profile_properties(),
        "acks": str(acks),
        "retries": "0",
        "bootstrap.servers": servers,
        **file_properties(options.value("producer.config")),
        **file_properties(options.value("command-config")),
    }


TOOL = tool_of(USAGE, _act)
