"""OAUTHBEARER end to end: an issuer's tokens for client credentials, its keys at the broker, ACLs."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import AuthenticationFailed, EmbeddedBroker, GroupConsumer, Producer, aio
from ottla.security.client_login import properties_text
from tests.client.certificates import Certificates
from tests.compatibility.catalog import java_program
from tests.scale import nightly
from tests.security.issuer import Issuer
from tools.peer_cache import JOSE4J, KAFKA_3, KAFKA_CLIENTS, Unavailable, maven_jar

ID, SECRET = "billing", "s3cret & more"
OPTION = "sasl.oauthbearer."


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer({ID: SECRET, "stranger": "known"}) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def broker(
    issuer: Issuer, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    properties = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "connection.failed.authentication.delay.ms": "1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ID}",
        **issuer.broker_settings,
    }
    with EmbeddedBroker(tmp_path_factory.mktemp("oidc"), properties=properties) as broker:
        yield broker


@pytest.fixture
def settings(broker: EmbeddedBroker, issuer: Issuer, certificates: Certificates) -> dict[str, Any]:
    """The settings that our clients and librdkafka share."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(certificates.authority),
        f"{OPTION}token.endpoint.url": f"{issuer.url}/token",
        f"{OPTION}client.id": ID,
        f"{OPTION}client.secret": SECRET,
        f"{OPTION}scope": "kafka.write",
    }


def test_our_clients_get_a_token_and_are_its_subject(settings: dict[str, Any], issuer: Issuer) -> None:
    with Producer(settings) as producer:
        producer.send("ours", b"by a token").result()
    reading = {**settings, "group.id": "ours", "auto.offset.reset": "earliest"}
    with GroupConsumer("ours", properties=reading) as consumer:
        assert next(iter(consumer)).value == b"by a token"
    assert issuer.scopes[-1] == "kafka.write"


def test_on_an_event_loop_too(settings: dict[str, Any]) -> None:
    async def send() -> int:
        async with aio.Producer(settings) as producer:
            delivery = await producer.send("looped", b"by a token")
            return (await delivery.result()).offset

    assert asyncio.run(send()) == 0


def test_librdkafka_gets_a_token_by_its_own_means(settings: dict[str, Any]) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    errors: list[object] = []
    own = {**settings, f"{OPTION}method": "oidc", "error_cb": errors.append}
    producer = confluent.Producer(own)
    producer.produce("librdkafka", b"by a token")
    assert producer.flush(30) == 0, errors
    consumer = confluent.Consumer({**own, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["librdkafka"])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"by a token"
    finally:
        consumer.close()


def javas(settings: dict[str, Any], certificates: Certificates, package: str) -> dict[str, str]:
    """The same settings as Java's clients take them; its class that gets tokens is in this package."""
    names = "org.apache.kafka.common.security.oauthbearer"
    own = ("bootstrap.servers", "security.protocol", "sasl.mechanism", f"{OPTION}token.endpoint.url")
    return {
        **{name: settings[name] for name in own},
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "sasl.login.callback.handler.class": f"{names}.{package}OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f'{names}.OAuthBearerLoginModule required clientId="{ID}" '
        f'clientSecret="{SECRET}" scope="kafka.write";',
    }


@pytest.mark.parametrize("package", ["", "secured."])
def test_our_clients_take_javas_settings(
    settings: dict[str, Any], certificates: Certificates, package: str
) -> None:
    with Producer(javas(settings, certificates, package)) as producer:
        producer.check_brokers()


@nightly("Java takes seconds to start")
@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_CLIENTS])
def test_java_gets_a_token_by_its_own_means(
    version: str, settings: dict[str, Any], issuer: Issuer, certificates: Certificates, tmp_path: Path
) -> None:
    try:
        java, *rest = java_program("SecuredSteps", version, maven_jar(JOSE4J))()
    except Unavailable as error:
        pytest.skip(f"Java's client {version}: {error}")
    topic = f"java-{version}"
    text = properties_text(
        {
            **javas(settings, certificates, "secured." if version == KAFKA_3 else ""),
            **{"step": "oidc", "wrong": "false", "topic": topic, "group": topic, "value": "by a token"},
        }
    )
    path = tmp_path / "java.properties"
    path.write_text(text)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/token"
    said = subprocess.run([java, allowed, *rest, str(path)], capture_output=True, text=True, timeout=120)
    assert json.loads(said.stdout.splitlines()[0])["outcome"] == "passed", said.stdout + said.stderr


@pytest.mark.parametrize(("client_id", "secret"), [(ID, "wrong"), ("nobody", SECRET)])
def test_wrong_credentials_are_the_issuers_to_refuse(
    settings: dict[str, Any], client_id: str, secret: str
) -> None:
    wrong = {**settings, f"{OPTION}client.id": client_id, f"{OPTION}client.secret": secret}
    with (
        Producer(wrong) as producer,
        pytest.raises(AuthenticationFailed, match=f"no token for {client_id}: 401") as refused,
    ):
        producer.check_brokers()
    assert secret not in str(refused.value)


def test_a_subject_without_rights_may_do_nothing(settings: dict[str, Any]) -> None:
    stranger = {**settings, f"{OPTION}client.id": "stranger", f"{OPTION}client.secret": "known"}
    with Producer(stranger) as producer, pytest.raises(Exception, match="AUTHORIZATION"):
        producer.send("ours", b"not mine").result()


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "http://another"}, {"exp": 1}])
def test_a_token_for_somebody_else_is_refused(
    settings: dict[str, Any], issuer: Issuer, claims: dict[str, Any]
) -> None:
    own = {name: value for name, value in settings.items() if not name.startswith(OPTION)}
    own["sasl.oauth.token.provider"] = lambda: issuer.token(ID, **claims)
    with Producer(own) as producer, pytest.raises(AuthenticationFailed):
        producer.check_brokers()
