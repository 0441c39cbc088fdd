"""What a write with exactlyOnce is called, and how long it may take. Checked on the driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.model.errors import ConfigError
from ottla.spark.options import Given

TIMEOUT_MS = 900_000
"""The default of transaction.timeout.ms here: the largest value that brokers allow by default."""
USABLE = 0.75
"""The part of the timeout that a batch may take; the rest is for a driver that is restarted."""
TIMEOUT = "transaction.timeout.ms"


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """`name` is "" for a write that will not be repeated; `batch` is None where Spark counts batches."""

    prefix: str
    name: str
    batch: int | None
    topic: str
    timeout_ms: int

    @property
    def usable_s(self) -> float:
        """How many seconds a batch may take."""
        return self.timeout_ms * USABLE / 1000.0


def exactly_once(given: Given, properties: dict[str, object], *, is_stream: bool) -> ExactlyOnce | None:
    """Return the settings, None without exactlyOnce; sets the default of the timeout. Raises ConfigError."""
    values = given.values
    if not values["exactlyOnce"]:
        for name in ("writeId", "batchId"):
            if given.is_given(name) and not values["rowIdentity"]:
                raise ConfigError(
                    f"{name} is for exactlyOnce and rowIdentity: set one of them, or leave it out"
                )
        return None
    if "transactional.id" in properties:
        raise ConfigError(
            "kafka.transactional.id cannot be set with exactlyOnce: every task has its own; set"
            " transactionalIdPrefix"
        )
    if is_stream and given.is_given("batchId"):
        raise ConfigError("batchId is for foreachBatch: Spark counts the batches of a stream; leave it out")
    properties.setdefault(TIMEOUT, str(TIMEOUT_MS))
    return ExactlyOnce(
        values["transactionalIdPrefix"],
        write_name(values) if is_stream else values["writeId"],
        None if is_stream else values["batchId"],
        values["decisionTopic"],
        int(str(properties[TIMEOUT])),
    )


def write_name(values: Mapping[str, str]) -> str:
    """Return the name of a streaming query's writes, which is the same after each restart.

    Raises ConfigError.
    """
    if values["writeId"]:
        return values["writeId"]
    checkpoint = values["checkpointLocation"]
    if not checkpoint:
        raise ConfigError(
            "exactlyOnce needs a name that stays when the query is started again: set the option"
            " checkpointLocation of the writer, or writeId"
        )
    try:
        metadata = Path(checkpoint.removeprefix("file:"), "metadata").read_text()
        return str(json.loads(metadata)["id"])
    except (OSError, ValueError, KeyError, TypeError):  # it is not in a file system of this machine
        return hashlib.sha256(checkpoint.rstrip("/").encode()).hexdigest()[:32]
