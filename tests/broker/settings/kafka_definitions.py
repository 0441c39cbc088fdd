"""What Kafka 3.9.1 itself says of its settings: a few lines of Java print its tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.kafka_programs import run_program
from tools.peer_cache import KAFKA_3

PROGRAM = Path(__file__).with_name("KafkaTables.java")


class Definition(NamedTuple):
    """One setting of Kafka's. `more` are a topic setting's synonyms, or a broker setting's update mode."""

    type: str
    default: str | None
    valid: str
    more: str


@cache
def definitions(table: str) -> dict[str, Definition]:
    """The settings of "topic" or "broker" by name; skips the test if Kafka cannot be had."""
    return {
        name: Definition(kind, None if default == "null" else default, valid, more)
        for of_table, name, kind, default, valid, more in _rows()
        if of_table == table
    }


@cache
def _rows() -> list[list[str]]:
    printed = run_program(PROGRAM, version=KAFKA_3)
    return [line.split("\t") for line in printed.splitlines()]
