"""The events of the verifiable producer and consumer: JSON, one per line.

In Kafka 4 an event begins with its time and name. In Kafka 0.9 it has the name of the Java class, and the
producer's fields are in the order of a hash map.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.tool import show

PACKAGE = "org.apache.kafka.tools."


class Events:
    """Prints events, from any thread."""

    def __init__(self, class_name: str, *, is_old: bool) -> None:
        self._class_name = f"{PACKAGE}{class_name}"
        self.is_old = is_old
        self._lock = threading.Lock()

    def emit(self, name: str, **fields: object) -> None:
        """Print an event."""
        with self._lock:
            show(json.dumps(self._event(name, fields), ensure_ascii=False, separators=(",", ":")))
            sys.stdout.flush()

    def _event(self, name: str, fields: dict[str, object]) -> dict[str, object]:
        if not self.is_old:
            return {"timestamp": _now_ms(), "name": name, **fields}
        if "Consumer" in self._class_name:
            return {**fields, "name": name, "class": self._class_name}
        event = {"class": f"class {self._class_name}", "name": name, **fields}
        if name != "tool_data":
            event["time_ms"] = _now_ms()
        return {field: event[field] for field in java_order(event)}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
