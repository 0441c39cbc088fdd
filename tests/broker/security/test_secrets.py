"""Secrets are nowhere but where they belong: not in logs, reprs, errors, metrics or files."""

from __future__ import annotations

import logging
import stat
import traceback
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, BrokerSecurity, EmbeddedBroker, OttlaError, Producer
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.client.client_config import ClientConfig
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.secured import MECHANISMS, log_in, oauth_token
from tests.broker.wire_client import Client

PASSWORDS = {"root": "root-hidden-1", "app": "app-hidden-2"}
WRONG = "wrong-hidden-3"
TOPIC, BROKER = 2, 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets") / "new" / "data"


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[EmbeddedBroker]:
    security = BrokerSecurity(
        PASSWORDS,
        protocols=("SASL_PLAINTEXT", "SASL_SSL"),
        acls=("app ALL topic app-*",),
        directory=place.parent,
    )
    more = {"sasl.enabled.mechanisms": ",".join(MECHANISMS), "ottla.metrics.port": 0}
    with EmbeddedBroker(place, security=security, properties=more) as broker:
        yield broker


def secrets(place: Path) -> list[str]:
    """What must not be seen: passwords, tokens, and lines of private keys."""
    keys = [(place.parent / name).read_text() for name in ("server.pem", "ca-key.pem", "app.pem")]
    return [*PASSWORDS.values(), WRONG, *(text.splitlines()[1] for text in keys)]


def spoken(broker: EmbeddedBroker, errors: list[str]) -> str:
    """Log in and fail by every mechanism, read and change settings and users; returns the last token."""
    token = oauth_token("app")
    for mechanism in MECHANISMS:
        for user, password in (*PASSWORDS.items(), ("app", WRONG), (WRONG, WRONG)):
            with Client.of(broker.bootstrap_at("SASL_PLAINTEXT")) as client:
                answer = log_in(client, mechanism, user, password)
                errors.append(str(answer.error_message))
    with Client.of(broker.bootstrap_at("SASL_PLAINTEXT")) as client:  # a secret where none belongs
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        errors.append(repr(client.call(SaslAuthenticateRequest(auth_bytes=f"{WRONG}\0{WRONG}".encode()))))
    for settings in (
        broker.client_settings("app"),
        {**broker.client_settings("app"), "sasl.password": WRONG},
    ):
        errors.append(repr(ClientConfig.from_properties(settings)))
        try:
            with Producer(settings) as producer:
                errors.append(repr(producer))
                producer.send("app-1", "x").result(30)
                producer.send("other", "x").result(30)
        except OttlaError:
            errors.append(traceback.format_exc())
    with Admin(broker.client_settings("root")) as admin:
        errors.append(repr(admin))
    return token


def described(broker: EmbeddedBroker) -> str:
    """Every setting of the broker, as an admin client sees it."""
    with Client.of(broker.bootstrap_at("SASL_PLAINTEXT")) as client:
        assert not log_in(client, "PLAIN", "root", PASSWORDS["root"]).error_code
        wanted = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
        answer = client.call(DescribeConfigsRequest(resources=[wanted], include_synonyms=True))
    assert any("jaas" in config.name for config in answer.results[0].configs)
    return repr(answer)


def test_secrets_are_seen_nowhere(
    broker: EmbeddedBroker, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts: list[str] = []
    with caplog.at_level(logging.DEBUG):
        token = spoken(broker, texts)
        described_text = described(broker)
    service: Any = broker._running()
    with urllib.request.urlopen(f"http://127.0.0.1:{service.metrics.port}/metrics") as answer:
        metrics = answer.read().decode()
    objects = [broker, broker._config, broker._security, service, service.config.listeners, service.cluster]
    seen = {
        "errors and reprs of clients": "\n".join(texts),
        "the log": "\n".join(f"{record.getMessage()} {record.exc_text}" for record in caplog.records),
        "described settings": described_text,
        "metrics": metrics,
        "reprs": "\n".join(map(repr, objects)),
        **{str(path): path.read_bytes().decode("latin-1") for path in place.rglob("*") if path.is_file()},
    }
    assert "ottla_" in metrics
    assert str(place / "ottla.journal") in seen
    found = [
        (secret, where)
        for secret in (*secrets(place), token)
        for where, text in seen.items()
        if secret in text
    ]
    assert found == []


def test_an_error_of_a_setting_has_no_secret() -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{WRONG}'
    given = {
        "log.dir": "x",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with pytest.raises(OttlaError, match="jaas") as refused:
        BrokerConfig.from_properties(given)
    assert WRONG not in "".join(traceback.format_exception(refused.value, chain=True))


def test_what_the_broker_keeps_is_for_its_owner(broker: EmbeddedBroker, place: Path) -> None:
    paths = [place.parent, place, *place.rglob("*"), *place.parent.glob("*.pem")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}
    assert modes == {(True, 0o700), (False, 0o600)}
