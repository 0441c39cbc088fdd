"""What a mirror makes of the properties that it is given."""

from __future__ import annotations

import logging

import pytest

from ottla import ConfigError, EmbeddedBroker, Mirror, Whitelist
from ottla.mirror.mirror_settings import (
    admin_properties,
    consumer_properties,
    is_classic,
    producer_properties,
)

MODERN = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
CLASSIC = {"zookeeper.connect": "127.0.0.1:1", "group_id": "g"}


@pytest.mark.parametrize("name", ["auto.commit.enable", "enable_auto_commit"])
@pytest.mark.parametrize("given", [MODERN, CLASSIC])
def test_a_mirror_commits_itself(name: str, given: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        properties = consumer_properties({**given, name: "true"}, 0, 100)
    assert properties["enable_auto_commit"] is False
    assert "auto_commit_enable" not in properties
    assert "is ignored" in caplog.text


def test_each_stream_is_a_member_of_its_own() -> None:
    given = {**CLASSIC, "consumer.id": "one"}
    found = [consumer_properties(given, stream, 100) for stream in range(2)]
    assert [one["consumer_id"] for one in found] == ["one-0", "one-1"]
    assert [one["client_id"] for one in found] == ["g-0", "g-1"]


def test_what_is_given_goes_before_defaults_by_any_of_its_names() -> None:
    given = {**MODERN, "max.partition.fetch.bytes": 1000, "auto.offset.reset": "latest"}
    properties = consumer_properties(given, 0, 100)
    assert "fetch_message_max_bytes" not in properties
    assert properties["max_partition_fetch_bytes"] == 1000
    assert properties["auto_offset_reset"] == "latest"
    assert producer_properties({"max.block.ms": 5})["max_block_ms"] == 5


def test_zookeeper_makes_a_group_classic() -> None:
    assert is_classic(CLASSIC)
    assert not is_classic(MODERN)
    assert consumer_properties(CLASSIC, 0, 100)["consumer_timeout_ms"] == 100
    assert "zookeeper_connect" not in producer_properties({"zookeeper.connect": "127.0.0.1:1"})


def test_administration_gets_addresses_and_logins() -> None:
    given = {**MODERN, "sasl.username": "ann", "fetch.min.bytes": 1}
    assert admin_properties(given) == {"bootstrap_servers": "127.0.0.1:1", "sasl_username": "ann"}


def test_a_mirror_into_its_own_cluster_is_refused() -> None:
    """It would copy each record into the topic that it reads, without end."""
    with EmbeddedBroker() as broker:
        at = {"bootstrap.servers": broker.bootstrap}
        with pytest.raises(ConfigError, match="source and target are the same cluster"):
            Mirror({**at, "group.id": "mirror"}, at, Whitelist("orders")).run()
