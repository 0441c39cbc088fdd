"""Makes tests/golden/messages.jsonl anew: `python -m tests.wire.golden_messages`.

The bytes come from Kafka's Java message classes (GoldenMessages.java): of the newest clients, and of 3.9 for
the versions that 4.0 dropped. The values depend only on the names in the message, so that a change of the
file is a change of Kafka's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.wire.messages import GOLDEN, KINDS
from tools.java_process import java_command
from tools.peer_cache import KAFKA_3, KAFKA_CLIENTS, java_classes, kafka_libs

PROGRAM = Path(__file__).with_name("GoldenMessages.java")
RUN_S = 120


def golden_lines() -> list[str]:
    """Return the lines of the golden file; raises Unavailable where Kafka's classes cannot be had."""
    newest, older = _written_by(KAFKA_CLIENTS), _written_by(KAFKA_3)
    return [
        line
        for kind in KINDS
        for version in range(kind.API.version_newest + 1)
        for line in newest.get((kind.__name__, version)) or older[kind.__name__, version]
    ]


def _written_by(version: str) -> dict[tuple[str, int], list[str]]:
    command = java_command(kafka_libs(version), java_classes(PROGRAM, version), heap_mb=256)
    command += ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", PROGRAM.stem]
    command += [kind.__name__ for kind in KINDS]
    output = subprocess.run(command, check=True, capture_output=True, timeout=RUN_S).stdout.decode()
    lines: dict[tuple[str, int], list[str]] = {}
    for key, line in _lines(output, version):
        lines.setdefault(key, []).append(line)
    return lines


def _lines(output: str, version: str) -> Iterator[tuple[tuple[str, int], str]]:
    for text in output.splitlines():
        row = json.loads(text)
        name = row.pop("name")
        direction = "request" if name.endswith("Request") else "response"
        head = {"api": name.removesuffix(direction.capitalize()), "direction": direction}
        head |= {"version": row.pop("version"), "variant": row.pop("variant")}
        line = json.dumps({**head, "origin": f"kafka-clients {version}", **row}, separators=(",", ":"))
        yield (name, head["version"]), line


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line}\n" for line in golden_lines()))
