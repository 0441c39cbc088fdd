"""The asyncio clients at secured listeners: TLS, SASL, both; and what they say to who may not come in."""

from __future__ import annotations

import gc
import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import AuthenticationFailed, BrokerSecurity, BrokerUnreachable, EmbeddedBroker, aio
from tests.aio.conftest import run
from tests.client.certificates import make_certificates
from tests.client.raw_server import RawServer

LOGINS = [("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512"), ("SSL", "PLAIN")]
LOGINS += [("SASL_PLAINTEXT", "SCRAM-SHA-256")]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    security = BrokerSecurity(
        users={"app": "app-secret"},
        protocols=("SASL_SSL", "SSL", "SASL_PLAINTEXT"),
        acls=("app ALL topic *", "app ALL group *", "app ALL cluster"),
    )
    with EmbeddedBroker(security=security) as one:
        yield one


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_records_go_there_and_back(broker: EmbeddedBroker, listener: str, mechanism: str) -> None:
    settings = broker.client_settings("app", listener=listener, mechanism=mechanism)
    topic = f"{listener}-{mechanism}"

    async def work() -> bytes | None:
        async with aio.Producer(settings) as producer:
            await (await producer.send(topic, b"x" * 100_000))
        async with aio.GroupConsumer(
            topic, {**settings, "auto.offset.reset": "earliest"}, group_id=topic
        ) as consumer:
            async for message in consumer:
                await consumer.commit(message)
                return message.value
        return None

    assert run(work) == b"x" * 100_000


def test_a_wrong_password_is_told(broker: EmbeddedBroker) -> None:
    settings = broker.client_settings("app", listener="SASL_SSL", mechanism="PLAIN")

    async def work() -> None:
        async with aio.Producer({**settings, "sasl.password": "other"}) as producer:
            with pytest.raises(AuthenticationFailed):
                await producer.check_brokers(30)

    run(work)


def test_a_broker_that_is_not_trusted_is_told(broker: EmbeddedBroker) -> None:
    mine = broker.client_settings("app", listener="SSL")
    with EmbeddedBroker(security=True) as other:
        theirs = other.client_settings("client", listener="SSL")

        async def work() -> None:
            wrong = {**mine, "ssl.ca.location": theirs["ssl.ca.location"]}
            async with aio.Producer(wrong) as producer:
                with pytest.raises((AuthenticationFailed, BrokerUnreachable), match="certificate"):
                    await producer.check_brokers(30)

        run(work)


def test_a_broker_that_goes_silent_behind_tls_leaves_no_socket(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)

    async def work(server: RawServer) -> None:
        settings = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.authority)}
        async with aio.Producer(settings, bootstrap_servers=str(server.address)) as producer:
            with pytest.raises(BrokerUnreachable):
                await producer.check_brokers(0.5)

    with RawServer.silent(context) as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run(lambda: work(server))
        gc.collect()
    assert server.accepted
    assert not [str(warning.message) for warning in told]
