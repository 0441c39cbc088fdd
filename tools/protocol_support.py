"""Print docs/protocol-support.md, from the registry and the broker's handlers; a test compares it."""

from __future__ import annotations

import sys

from ottla.broker.handlers.registry import NEED_ZOOKEEPER, SERVED
from ottla.wire.registry import apis

HEAD = """# Protocol support

Made by `python tools/protocol_support.py` from the registry and the broker's handlers; a test compares them.
Every version in a range is encoded and decoded in both directions, compared with bytes made by Kafka's own
classes. `broker` is what the embedded broker serves and lists in ApiVersions; the file of each API under
`src/ottla/broker/handlers` says how.

| key | API | versions | flexible from | broker |
|---|---|---|---|---|
"""
FOOT = """
¹ Offsets of version 0 are in ZooKeeper: without `zookeeper.connect` this version is not served.
"""


def page() -> str:
    """The whole page."""
    rows = []
    for key, api in sorted(apis().items()):
        flexible = "never" if api.flexible_since is None else str(api.flexible_since)
        rows.append(f"| {key} | {api.name} | 0 to {api.version_newest} | {flexible} | {_range(key)} |\n")
    return HEAD + "".join(rows) + FOOT


def _range(key: int) -> str:
    if key not in SERVED:
        return "not served"
    mark = "¹" if key in NEED_ZOOKEEPER else ""
    return f"{SERVED[key].oldest}{mark} to {SERVED[key].newest}"


if __name__ == "__main__":
    sys.stdout.write(page())
