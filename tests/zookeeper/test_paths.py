"""Paths as Kafka lays them out, and names that would become other paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.model.errors import ConfigError
from ottla.zookeeper import paths


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (paths.broker(0), "/brokers/ids/0"),
        (paths.topic("my.topic_1-a"), "/brokers/topics/my.topic_1-a"),
        (paths.partitions("t"), "/brokers/topics/t/partitions"),
        (paths.partition("t", 3), "/brokers/topics/t/partitions/3"),
        (paths.partition_state("t", 3), "/brokers/topics/t/partitions/3/state"),
        (paths.topic_config("t"), "/config/topics/t"),
        (paths.entity_config("clients", "c"), "/config/clients/c"),
        (paths.entity_config("brokers", "<default>"), "/config/brokers/<default>"),
        (paths.config_change(), "/config/changes/config_change_"),
        (paths.delete_topic("t"), "/admin/delete_topics/t"),
        (paths.group("g"), "/consumers/g"),
        (paths.consumer_ids("g"), "/consumers/g/ids"),
        (paths.consumer("g", "g_vm-1-ab"), "/consumers/g/ids/g_vm-1-ab"),
        (paths.owners("g"), "/consumers/g/owners"),
        (paths.topic_owners("g", "t"), "/consumers/g/owners/t"),
        (paths.owner("g", "t", 0), "/consumers/g/owners/t/0"),
        (paths.offsets("g"), "/consumers/g/offsets"),
        (paths.topic_offsets("g", "t"), "/consumers/g/offsets/t"),
        (paths.offset("g", "t", 2147483647), "/consumers/g/offsets/t/2147483647"),
        (paths.CONTROLLER, "/controller"),
        (paths.CONTROLLER_EPOCH, "/controller_epoch"),
        (paths.BROKER_SEQUENCE, "/brokers/seqid"),
        (paths.CLUSTER_ID, "/cluster/id"),
    ],
)
def test_path_is_where_kafka_looks(made: str, expected: str) -> None:
    assert made == expected
    assert paths.checked_path(made) == made


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "t" * 256])
def test_topic_that_kafka_refuses(name: str) -> None:
    for make in (paths.topic, paths.topic_config, paths.delete_topic, paths.partitions):
        with pytest.raises(ConfigError, match="a topic has 1 to 255 characters"):
            make(name)


def test_long_topics_of_old_brokers_are_read() -> None:
    assert paths.checked_topic("t" * 255)


@pytest.mark.parametrize("group_id", ["", ".", "..", "a/b", "g h", "é", "g\n"])
def test_group_that_the_classic_consumer_refuses(group_id: str) -> None:
    for make in (paths.group, paths.consumer_ids, paths.owners, paths.offsets):
        with pytest.raises(ConfigError, match=re.escape("group.id")):
            make(group_id)


@pytest.mark.parametrize("consumer_id", ["", "..", "a/b", "a\0"])
def test_consumer_id_that_is_no_component(consumer_id: str) -> None:
    with pytest.raises(ConfigError, match="consumer id"):
        paths.consumer("g", consumer_id)


@pytest.mark.parametrize("number", [-1, 2**31])
def test_number_out_of_range(number: int) -> None:
    for make in (paths.broker, lambda n: paths.partition("t", n), lambda n: paths.offset("g", "t", n)):
        with pytest.raises(ConfigError, match="is outside 0"):
            make(number)


def test_unknown_entity_type() -> None:
    with pytest.raises(ConfigError, match="entity type 'ips'"):
        paths.entity_config("ips", "x")


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("h", ("h:2181",), ""),
        ("a:1,b:2", ("a:1", "b:2"), ""),
        (" a:1 , b:2/kafka/x ", ("a:1", "b:2"), "/kafka/x"),
        ("a:1/", ("a:1",), ""),
        ("a:1/k/", ("a:1",), "/k"),
        ("[::1]:2182,[fe80::1%eth0]", ("[::1]:2182", "[fe80::1%eth0]:2181"), ""),
    ],
)
def test_connect_string(text: str, hosts: tuple[str, ...], chroot: str) -> None:
    assert paths.parse_connect(text) == paths.ConnectString(hosts, chroot)


def test_connect_string_is_written_as_it_is_read() -> None:
    assert str(paths.parse_connect("a:1,b/k")) == "a:1,b:2181/k"


@pytest.mark.parametrize(
    "text", ["", ",", "a:1,", "a:0", "a:65536", "a:x", "::1", "a b:1", "a:1//k", "a:1/../k"]
)
def test_connect_string_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError):
        paths.parse_connect(text)


def test_chroot_is_put_on_and_taken_off() -> None:
    assert paths.with_chroot("/k", "/a") == "/k/a"
    assert paths.with_chroot("/k", "/") == "/k"
    assert paths.with_chroot("", "/") == "/"
    assert paths.without_chroot("/k", "/k/a") == "/a"
    assert paths.without_chroot("/k", "/k") == "/"
    assert paths.without_chroot("", "/a") == "/a"


def test_family_of_a_path() -> None:
    assert paths.parent("/a/b") == "/a"
    assert paths.parent("/a") == "/"
    assert paths.child("/", "a") == "/a"
    assert paths.child("/a", "b") == "/a/b"
    assert paths.leaf("/a/b") == "b"
    assert paths.lineage("/a/b/c") == ("/a", "/a/b", "/a/b/c")
    assert paths.lineage("/") == ()
    with pytest.raises(ConfigError):
        paths.child("/a", "b/c")


def test_only_this_module_spells_kafkas_nodes() -> None:
    root = Path(paths.__file__).parents[1]
    spelled = re.compile(
        r"""["']/(brokers|consumers|controller|config|admin|isr_change_notification|cluster)\b"""
    )
    pages = root / "console"  # its addresses are those of a web server
    sources = [path for path in root.rglob("*.py") if not path.is_relative_to(pages)]
    users = [path for path in sources if spelled.search(path.read_text())]
    assert users == [Path(paths.__file__)]
