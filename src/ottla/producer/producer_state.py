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
    """`scout_wanted` and `upkeep_wanted` wake the scout and the upkeep. `left_flight`: an answer
    has arrived.
    """

    config: ProducerConfig
    clock: Clock
    chance: random.Random
    memory: BufferMemory
    intake: Intake
    topics: TopicDirectory
    settlement: Settlement
    errors: NetworkErrors
    scout_wanted: Flag
    upkeep_wanted: Flag
    left_flight: Flag

    @classmethod
    def new(
        cls,
        config: ProducerConfig,
        clock: Clock,
        errors: NetworkErrors,
        *,
        scout_wanted: Flag | None = None,
        upkeep_wanted: Flag | None = None,
        left_flight: Flag | None = None,
        memory: BufferMemory | None = None,
        changed: Condition | None = None,
    ) -> Self:
        """Return the state of a new producer. `changed` is notified when topics become known.

        By default threads wait for the flags.
        """
        memory = memory or BufferMemory(config.buffer_memory, config.max_block_ms, clock, errors)
        scout_wanted = scout_wanted or threading.Event()
        return cls(
            config,
            clock,
            random.Random(),
            memory,
            Intake(),
            TopicDirectory(clock, config.topic_patience_ms, errors, scout_wanted, changed),
            Settlement(memory),
            errors,
            scout_wanted,
            upkeep_wanted=upkeep_wanted or threading.Event(),
            left_flight=left_flight or threading.Event(),
        )
