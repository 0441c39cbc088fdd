"""Our codecs against bytes that Kafka's own Java classes wrote (see `messages` for their origin)."""

from __future__ import annotations

import pytest

from ottla.model.errors import LocalProtocolError
from ottla.wire.schema import decode, encode
from tests.scale import nightly
from tests.wire.golden_messages import golden_lines
from tests.wire.messages import GOLDEN, KINDS, Row, rows_of
from tools.peer_cache import Unavailable

WHOLE = ["default", "null", "full", "long"]


def test_the_golden_file_covers_every_version_of_every_message() -> None:
    covered = {(row.kind, row.version) for row in rows_of("default")}
    assert covered == {(kind, v) for kind in KINDS for v in range(kind.API.version_newest + 1)}


@pytest.mark.parametrize("variant", WHOLE)
def test_kafkas_bytes_decode_to_the_values_that_were_set(variant: str) -> None:
    for row in rows_of(variant):
        assert row.data is not None
        assert decode(row.kind, row.version, row.data) == row.message, row.label


@pytest.mark.parametrize("variant", WHOLE)
def test_the_values_encode_to_kafkas_bytes(variant: str) -> None:
    for row in rows_of(variant):
        assert b"".join(encode(row.message, row.version)) == row.data, row.label


def test_fields_that_a_version_lacks_are_dropped_or_refused_as_kafka_does() -> None:
    """Covers `ignorable` of each field in each version."""
    for row in rows_of("foreign"):
        assert _encoded(row) == row.data, row.label


@nightly("the file changes with the pinned clients only")
def test_the_golden_file_is_what_kafkas_classes_write() -> None:
    try:
        lines = golden_lines()
    except Unavailable as missing:
        pytest.skip(f"Kafka's message classes are not asked: {missing}")
    assert lines == GOLDEN.read_text().splitlines()


def _encoded(row: Row) -> bytes | None:
    try:
        return b"".join(encode(row.message, row.version))
    except LocalProtocolError:
        return None
