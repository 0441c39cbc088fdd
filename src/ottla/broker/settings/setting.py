"""A row of the broker's tables: a `Property` that also says where its value goes and when it may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.model.property_table import Property


class UpdateMode(Enum):
    """Whether a running broker takes a new value."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Property):
    """A setting of a broker or a topic.

    target        the field that gets the value: "flush_ms" is one of BrokerConfig, "log.segment_bytes" one of
                  its LogConfig. Of rows with the same target the first one in the table wins.
    factor        turns a value in hours or minutes into the milliseconds of its target
    broker_names  of a topic's setting: the broker's settings that give its default, the strongest first
    """

    update: UpdateMode = UpdateMode.READ_ONLY
    target: str = ""
    factor: int = 1
    broker_names: tuple[str, ...] = ()

    def scaled(self, value: object) -> Any:
        """Return a value in the unit of its target; a negative number of hours or minutes means no limit."""
        read = self.read(value)
        if self.factor == 1:
            return read
        return read * self.factor if read >= 0 else -1

    def parse(self, value: object) -> Any:
        """Return the value that the program uses. Raises ConfigError."""
        return self.checked(self.scaled(value))


SettingTable = Mapping[str, Setting]


def table(rows: Iterable[Setting]) -> dict[str, Setting]:
    """Return rows by name, in their order."""
    return {row.name: row for row in rows}
