"""The settings of ShareConsumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, TEXT, Property, parse_properties

IMPLICIT, EXPLICIT = "implicit", "explicit"

SHARE_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    Property("group.id", TEXT, "", "The share group; its members share the records of their topics."),
    Property(
        "share.acknowledgement.mode",
        TEXT,
        IMPLICIT,
        "implicit: a poll accepts what the last one gave. explicit: the application answers for each record.",
        choices=(IMPLICIT, EXPLICIT),
    ),
    Property(
        "share.acquire.mode",
        TEXT,
        "batch_optimized",
        "Whether a fetch may get a few records more than max.poll.records, to the end of a batch.",
        choices=("batch_optimized", "record_limit"),
    ),
    Property("max.poll.records", INT, 500, "How many records a fetch asks for.", minimum=1),
    Property(
        "fetch.max.wait.ms", INT, 500, "How long a broker waits for records before it answers.", minimum=0
    ),
    Property("fetch.max.bytes", INT, 50 << 20, "The most bytes of an answer.", minimum=1),
    Property("include.headers", BOOLEAN, default=False, doc="Whether records have their headers."),
    Property("check.crcs", BOOLEAN, default=True, doc="Whether checksums of batches are verified."),
    Property("client.rack", TEXT, "", "The rack of this client, for assignors that use it."),
)


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """Checked settings."""

    client: ClientConfig
    group_id: str
    is_explicit: bool
    is_strict: bool
    max_poll_records: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    include_headers: bool
    check_crcs: bool
    rack: str | None

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse settings with Kafka's names, dotted or snake_case. Raises ConfigError."""
        values: dict[str, Any] = parse_properties(SHARE_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES)
        if not values["group_id"]:
            raise ConfigError("group.id is missing: name the share group, as in group_id='billing'")
        return cls(
            ClientConfig.from_values(values),
            values["group_id"],
            values["share_acknowledgement_mode"] == EXPLICIT,
            values["share_acquire_mode"] == "record_limit",
            values["max_poll_records"],
            values["fetch_max_wait_ms"],
            values["fetch_max_bytes"],
            values["include_headers"],
            values["check_crcs"],
            values["client_rack"] or None,
        )
