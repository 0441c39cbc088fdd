"""Logging in at a real ZooKeeper, and znodes that only their user may change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.admin import Admin
from ottla.consumer.classic.classic_config import ClassicConfig
from ottla.model.errors import ConfigError
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.login import ZooKeeperLogin
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.session import SetOperation
from ottla.zookeeper.zookeeper_errors import AccessDenied

ANN = ZooKeeperLogin("ann", "s3cret", sets_acl=True)


def session(server: ZooKeeperServer, login: ZooKeeperLogin) -> KazooZooKeeperSession:
    made = KazooZooKeeperSession(KazooSettings(server.connect, login=login))
    made.connect()
    return made


@pytest.fixture
def ann(zookeeper_server: ZooKeeperServer) -> Iterator[KazooZooKeeperSession]:
    with session(zookeeper_server, ANN) as made:
        yield made


def test_only_their_user_changes_protected_znodes(
    zookeeper_server: ZooKeeperServer, ann: KazooZooKeeperSession
) -> None:
    ann.create("/login-test", b"1")
    with session(zookeeper_server, ZooKeeperLogin()) as other:
        assert other.get("/login-test").data == b"1"
        with pytest.raises(AccessDenied):
            other.set("/login-test", b"2")
        with pytest.raises(AccessDenied):
            other.commit([SetOperation("/login-test", b"2")])
    with session(zookeeper_server, ZooKeeperLogin("ann", "s3cret")) as again:
        again.set("/login-test", b"2")
        again.delete("/login-test")


def test_settings_of_clients_reach_the_session() -> None:
    properties = {
        "zookeeper.connect": "z:2181",
        "group.id": "g",
        "zookeeper.digest.username": "ann",
        "zookeeper.digest.password": "s3cret",
        "zookeeper.set.acl": "true",
    }
    login = ClassicConfig.from_properties(properties).zookeeper.login
    assert (login, "s3cret" in repr(login)) == (ANN, False)
    with pytest.raises(ConfigError, match="give both, or none"):
        Admin(zookeeper_connect="z:2181", zookeeper_digest_username="ann")
    with pytest.raises(ConfigError, match="needs a user"):
        Admin(zookeeper_connect="z:2181", zookeeper_set_acl=True)


def test_a_login_by_sasl_and_znodes_that_only_its_user_changes(zookeeper_server: ZooKeeperServer) -> None:
    """DIGEST-MD5, as Java's clients log in by a JAAS file: Kafka's brokers protect their znodes so."""
    pytest.importorskip("puresasl")
    own = ZooKeeperLogin("ann", "s3cret", sets_acl=True, has_sasl=True)
    with session(zookeeper_server, own) as ann:
        ann.create("/sasl-test", b"1")
        with session(zookeeper_server, ZooKeeperLogin("ann", "s3cret")) as other:  # a digest, not SASL
            assert other.get("/sasl-test").data == b"1"
            with pytest.raises(AccessDenied):
                other.set("/sasl-test", b"2")
        ann.set("/sasl-test", b"2")
        ann.delete("/sasl-test")


def test_a_wrong_password_of_sasl_is_said_at_once(zookeeper_server: ZooKeeperServer) -> None:
    pytest.importorskip("puresasl")
    with pytest.raises(AccessDenied, match="refused user 'ann'"):
        session(zookeeper_server, ZooKeeperLogin("ann", "wrong", has_sasl=True))


def test_settings_of_sasl_reach_the_session() -> None:
    pytest.importorskip("puresasl")
    properties = {
        "zookeeper.connect": "z:2181",
        "group.id": "g",
        "zookeeper.sasl.username": "ann",
        "zookeeper.sasl.password": "s3cret",
    }
    login = ClassicConfig.from_properties(properties).zookeeper.login
    assert (login.username, login.has_sasl, "s3cret" in repr(login)) == ("ann", True, False)
    with pytest.raises(ConfigError, match="give one of them"):
        ClassicConfig.from_properties({**properties, "zookeeper.digest.username": "bob"})
