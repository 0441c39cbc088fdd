"""`ottla produce` and `ottla consume` with schemas: JSON goes in and comes out, Avro is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from tests.cli.kafka.conftest import ours

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
LINE, PRINTED = '{"item":"tea"}', '{"item": "tea"}'


@pytest.fixture
def at() -> Iterator[tuple[str, str]]:
    with EmbeddedBroker() as broker:
        yield "-b", broker.bootstrap


@pytest.fixture
def registry(tmp_path: Path) -> str:
    """A directory of schemas: number 7, which is also that of the topic."""
    for name in ("7", "orders-value"):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(SCHEMA))
    return str(tmp_path)


def consumed(*more: str) -> str:
    return ours("consume", "orders", "--from", "earliest", "-n", "1", *more).printed.strip()


def test_framed_avro_is_written_read_and_named(at: tuple[str, str], registry: str) -> None:
    sent = ours("produce", "orders", "--value-format", "avro", "--schemas", registry, *at, text=f"{LINE}\n")
    assert sent.code == 0, sent
    assert consumed("--schemas", registry, *at) == f"0:0\t{PRINTED}"
    assert "schema 7: --schemas WHERE decodes it" in consumed(*at)
    assert json.loads(consumed("--schemas", registry, *at, "--format", "json"))["value"] == PRINTED


def test_a_schema_in_a_file_needs_no_registry(at: tuple[str, str], registry: str) -> None:
    typed = ("--value-format", "avro", "--schema", f"{registry}/7.avsc", *at)
    assert ours("produce", "orders", *typed, text=f"{LINE}\n").code == 0
    assert consumed(*typed) == f"0:0\t{LINE}"
    refused = ours("produce", "orders", *typed, text="tea\n")
    assert refused.code != 0
    assert "is no JSON" in refused.complaints


def test_what_cannot_be_decoded_says_why(at: tuple[str, str], registry: str) -> None:
    with Producer(bootstrap_servers=at[1]) as producer:
        producer.send("orders", b"\0\0\0\0\x09x")
    assert consumed("--schemas", registry, *at).startswith("0:0\t(not decoded: ")
