"""`EmbeddedBroker(security=…)`: what it makes, who gets in with it, and what clients of others need."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla import (
    Admin,
    AuthenticationFailed,
    BrokerSecurity,
    BrokerUnreachable,
    ConfigError,
    EmbeddedBroker,
    KafkaError,
    Producer,
)
from ottla.client.client_config import ClientConfig

RIGHTS = ("app READ,WRITE,CREATE topic orders*", "app READ group app", "* DESCRIBE cluster")
LOGINS = [("SASL_SSL", mechanism) for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")]
LOGINS += [("SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256")]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    security = BrokerSecurity(
        users={"root": 'gr"eat\\pass', "app": "app-secret", "other": "other-secret"},
        protocols=("SASL_SSL", "SSL", "SASL_PLAINTEXT"),
        acls=RIGHTS,
    )
    with EmbeddedBroker(security=security, brokers=2) as broker:
        broker.create_topic("secret")
        yield broker


@pytest.mark.parametrize("form", ["python", "java"])
@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_each_user_is_who_it_is_at_every_listener(
    broker: EmbeddedBroker, listener: str, mechanism: str, form: str
) -> None:
    seen = {}
    for user in ("root", "app", "other"):
        settings = broker.client_settings(user, listener=listener, mechanism=mechanism, form=form)
        with Admin(settings) as admin:
            seen[user] = "secret" in admin.list_topics()
            if user == "other":
                with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                    admin.describe_topics("secret")
    assert seen == {"root": True, "app": False, "other": False}


def test_an_acl_allows_what_it_says(broker: EmbeddedBroker) -> None:
    with Producer(broker.client_settings("app")) as producer:
        producer.send("orders-1", "one").result(30)
        with pytest.raises(KafkaError):
            producer.send("secret", "one").result(30)


def test_librdkafka_takes_the_settings(broker: EmbeddedBroker) -> None:
    for listener in ("SASL_SSL", "SSL"):
        settings = broker.client_settings("root", listener=listener, form="librdkafka")
        admin = AdminClient({**settings})
        assert "secret" in admin.list_topics(timeout=30).topics


def test_settings_for_spark_are_javas_behind_a_prefix(broker: EmbeddedBroker) -> None:
    java = broker.client_settings("app", form="java")
    assert broker.client_settings("app", form="spark") == {f"kafka.{name}": java[name] for name in java}
    assert java["sasl.jaas.config"].endswith('required username="app" password="app-secret";')


def test_who_has_no_login_stays_out(broker: EmbeddedBroker) -> None:
    settings = broker.client_settings("app")
    with pytest.raises(AuthenticationFailed), Admin({**settings, "sasl.password": "other"}) as admin:
        admin.list_topics()
    with EmbeddedBroker(security=True) as other:
        stranger = other.client_settings("client", listener="SSL")
        mine = broker.client_settings("app", listener="SSL")
        # A certificate of another authority, though it names a user.
        wrong = {name: stranger[name] for name in ("ssl.certificate.location", "ssl.key.location")}
        with pytest.raises((AuthenticationFailed, BrokerUnreachable)), Admin({**mine, **wrong}) as admin:
            admin.list_topics()


def test_passwords_and_certificates_stay(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with EmbeddedBroker(data_dir, security=True) as first:
        login, certified = first.client_settings(), first.client_settings(listener="SSL")
        journal = (data_dir / "ottla.journal").read_bytes()
    more = BrokerSecurity(users=("admin", "client", "third"))
    with EmbeddedBroker(data_dir, security=more) as second:
        for settings, listener in ((login, "SASL_SSL"), (certified, "SSL")):
            where = {"bootstrap.servers": second.bootstrap_at(listener)}
            with Admin({**settings, **where}) as admin:
                admin.list_topics()
        with Admin(second.client_settings("third")) as admin:
            admin.list_topics()
        assert (data_dir / "ottla.journal").read_bytes().startswith(journal)
    assert login["sasl.password"].encode() not in journal
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (data_dir / "security").iterdir()}
    assert modes.pop("users.json") == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((data_dir / "security").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"users": ()}, "at least one name"),
        ({"users": "ann"}, "at least one name"),
        ({"users": ("a/b",)}, "user 'a/b'"),
        ({"users": {"ann": ""}}, "the password of a user is empty"),
        ({"protocols": ()}, "protocol ''"),
        ({"protocols": ("PLAINTEXT",)}, "protocol 'PLAINTEXT': it must be SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"acls": ("client READ orders",)}, "it must be USER OPERATION"),
        ({"acls": ("cliend READ topic orders",)}, "user 'cliend' is not among users.*did you mean .?client"),
        ({"acls": ("client REED topic orders",)}, "REED is no operation.*did you mean .?READ"),
        ({"acls": ("client READ table orders",)}, "a resource is one of topic, group"),
    ],
)
def test_what_cannot_be_is_refused(wanted: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerSecurity(**wanted)  # type: ignore[arg-type]


def test_unknown_users_mechanisms_and_forms(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match=r"user 'ap' is not known.*app"):
        broker.client_settings("ap")
    with pytest.raises(ConfigError, match="mechanism 'GSSAPI'"):
        broker.client_settings(mechanism="GSSAPI")
    with pytest.raises(ConfigError, match="settings for 'go'"):
        broker.client_settings(form="go")
    with pytest.raises(ConfigError, match="no listener is called INSIDE"):
        broker.client_settings(listener="INSIDE")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    for name in ("ca.pem", "ca-key.pem", "users.json"):
        place = tmp_path / name.partition(".")[0]
        with EmbeddedBroker(place, security=True):
            pass
        (place / "security" / name).write_text("{damaged")
        with pytest.raises(ConfigError, match=rf"security: .*{place.name}/security.* remove it"):
            EmbeddedBroker(place, security=True)


def test_a_broker_without_security_has_settings_too() -> None:
    with EmbeddedBroker() as broker:
        assert broker.client_settings() == {"bootstrap.servers": broker.bootstrap}
        ClientConfig.from_properties(broker.client_settings())
