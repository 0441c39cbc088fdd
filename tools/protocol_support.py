"""Print docs/protocol-support.md, made from the registry; a test compares it with the file."""

from __future__ import annotations

import sys

from ottla.wire.registry import apis

HEAD = """# Protocol support

Made by `python tools/protocol_support.py` from the registry; a test keeps it so. Every version in a range is
encoded and decoded in both directions, proven by bytes that Kafka's own classes made. What a broker serves or
a client uses is decided above this layer.

| key | API | versions | flexible from |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    rows = []
    for key, api in sorted(apis().items()):
        flexible = "never" if api.flexible_since is None else str(api.flexible_since)
        rows.append(f"| {key} | {api.name} | 0 to {api.version_newest} | {flexible} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
