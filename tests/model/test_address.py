"""Addresses as people write them, and nothing that only looks like one."""

from __future__ import annotations

import pytest

from ottla.model.address import Address, parse_address, parse_addresses
from ottla.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kafka-1.example:9092", Address("kafka-1.example", 9092)),
        (" 127.0.0.1:1 ", Address("127.0.0.1", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("[fe80::1%eth0]:9092", Address("fe80::1%eth0", 9092)),
        ("[::ffff:127.0.0.1]:9092", Address("::ffff:127.0.0.1", 9092)),
        ("PLAINTEXT://kafka:9092/", Address("kafka", 9092)),
    ],
)
def test_an_address_is_read_and_written_again(text: str, wanted: Address) -> None:
    assert parse_address(text) == wanted
    assert parse_address(str(wanted)) == wanted


@pytest.mark.parametrize(
    "text",
    ["kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "::1:9092", "[kafka:9092]:9092", "[ab:1]:1"],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(text)
    assert repr(text) in str(refused.value)


def test_a_list_has_each_address_once_and_at_least_one() -> None:
    assert parse_addresses("a:1, b:2,,a:1") == (Address("a", 1), Address("b", 2))
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_addresses(" , ")
