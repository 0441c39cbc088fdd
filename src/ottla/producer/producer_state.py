"""The state that the parts of a producer share. Each object has a lock of its own, or needs none."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import Self

from ottla.client.clock import Clock, Condition, Flag
from ottla.client.network_errors import NetworkErrors
from ottla.producer.intake import Intake
from ottla.producer.memory import BufferMemory
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.settlement import Settlement
from ottla.producer.topic_directory import TopicDirectory


@dataclass(frozen=True, slots=True)
class ProducerParts:
    """`metadata_wanted` and `timer_wanted` wake these threads. `left_flight`: an answer has arrived."""

    config: ProducerConfig
    clock: Clock
    chance: random.Random
    memory: BufferMemory
    intake: Intake
    topics: TopicDirectory
    settlement: Settlement
    errors: NetworkErrors
    metadata_wanted: Flag
    timer_wanted: Flag
    left_flight: Flag

    @classmethod
    def new(
        cls,
        config: ProducerConfig,
        clock: Clock,
        errors: NetworkErrors,
        *,
        metadata_wanted: Flag | None = None,
        timer_wanted: Flag | None = None,
        left_flight: Flag | None = None,
        memory: BufferMemory | None = None,
        changed: Condition | None = None,
    ) -> Self:
        """Return the state of a new producer. `changed` is notified when topics become known.

        By default threads wait for the flags.
        """
        memory = memory or BufferMemory(config.buffer_memory, config.max_block_ms, clock, errors)
        metadata_wanted = metadata_wanted or threading.Event()
        return cls(
            config,
            clock,
            random.Random(),
            memory,
            Intake(),
            TopicDirectory(clock, config.topic_patience_ms, errors, metadata_wanted, changed),
            Settlement(memory),
            errors,
            metadata_wanted,
            timer_wanted=timer_wanted or threading.Event(),
            left_flight=left_flight or threading.Event(),
        )
