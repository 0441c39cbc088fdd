"""Several listeners: each has its protocol, its port and its addresses; TLS follows its files."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from ottla import GroupConsumer, Producer, aio
from ottla.admin import Admin
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.address import parse_addresses
from ottla.model.errors import AuthenticationFailed, ConfigError
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.broker.security.secured import client_settings, properties
from tests.broker.wire_client import Client
from tests.client.certificates import Certificates, make_certificates
from tests.waiting import wait_for


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        *(("PLAINTEXT", "PLAIN"), ("SSL", "PLAIN")),
        *product(("SASL_PLAINTEXT", "SASL_SSL"), ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    ],
)
def test_records_go_through_every_listener(
    protocol: str, mechanism: str, secured: EmbeddedBroker, certificates: Certificates
) -> None:
    topic = f"through-{protocol}-{mechanism}"
    settings = client_settings(protocol, certificates, mechanism)
    settings["bootstrap.servers"] = secured.bootstrap_at(protocol)
    with Producer(settings) as producer:
        producer.send(topic, "one coffee")
    with GroupConsumer(
        topic, properties={**settings, "group.id": topic, "auto.offset.reset": "earliest"}
    ) as consumer:
        assert next(iter(consumer)).value == b"one coffee"


def test_clients_get_the_addresses_of_the_listener_that_they_asked(tmp_path: Path) -> None:
    names = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with EmbeddedBroker(tmp_path, brokers=3, properties=names) as broker:
        assert broker.bootstrap == broker.bootstrap_at("INSIDE")
        for listener in ("INSIDE", "outside"):
            bootstrap = broker.bootstrap_at(listener)
            known = [tuple(address) for address in parse_addresses(bootstrap)]
            with Client.of(bootstrap) as client:
                metadata = client.call(MetadataRequest(topics=[]))
                assert [(node.host, node.port) for node in metadata.brokers] == known
                cluster = client.call(DescribeClusterRequest())
                assert [(node.host, node.port) for node in cluster.brokers] == known
                found = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[
                    0
                ]
                assert (found.host, found.port) == known[found.node_id]
        with pytest.raises(ConfigError, match="no listener is called THIRD; there are INSIDE, OUTSIDE"):
            broker.bootstrap_at("THIRD")
        before = broker.bootstrap_at("OUTSIDE")
        broker.stop()
        broker.start()
        assert broker.bootstrap_at("OUTSIDE") == before


def test_an_advertised_address_is_that_of_its_listener(tmp_path: Path) -> None:
    names = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "OUTSIDE://kafka.example:19092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with EmbeddedBroker(tmp_path, brokers=2, properties=names) as broker:
        assert broker.bootstrap_at("OUTSIDE") == "kafka.example:19092,kafka.example:19093"
        assert broker.bootstrap.startswith("127.0.0.1:")


def test_ports_of_several_brokers_must_not_run_into_each_other(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:19092,SSL://127.0.0.1:19093"
    names = {"listeners": listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT"}
    with pytest.raises(ConfigError, match="leave more room between them"):
        EmbeddedBroker(tmp_path, brokers=2, properties=names).start()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_versions_of_tls_are_those_of_the_settings(
    version: ssl.TLSVersion, certificates: Certificates, tmp_path: Path
) -> None:
    only = {"ssl.enabled.protocols": version.name.replace("_", ".").replace("TLSv1", "TLSv1")}
    with EmbeddedBroker(tmp_path, properties={**properties(certificates), **only}) as broker:
        for tried in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=str(certificates.authority))
            context.minimum_version = context.maximum_version = tried
            if tried == version:
                assert _handshake(broker, context).startswith(b"\x30")
            else:
                with pytest.raises(ssl.SSLError):
                    _handshake(broker, context)


def _handshake(broker: EmbeddedBroker, context: ssl.SSLContext) -> bytes:
    """The broker's certificate."""
    address = parse_addresses(broker.bootstrap_at("SSL"))[0]
    with (
        socket.create_connection(address, 60) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True) or b""


@pytest.fixture(scope="module")
def mutual(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    required = {"ssl.client.auth": "required"}
    data = tmp_path_factory.mktemp("mutual")
    with EmbeddedBroker(data, properties={**properties(certificates), **required}) as broker:
        yield broker


async def _ask_on_a_loop(settings: dict[str, str]) -> None:
    async with aio.Producer(settings) as producer:
        await producer.check_brokers()


def _ask(settings: dict[str, str]) -> None:
    with Admin(settings) as admin:
        admin.list_topics()


@pytest.mark.parametrize("face", ["threads", "aio"])
@pytest.mark.parametrize(
    ("has_certificate", "why"),
    [(False, "it requires a certificate, and we have none"), (True, "it does not know the authority")],
)
def test_a_refused_certificate_is_named(
    face: str,
    has_certificate: bool,
    why: str,
    mutual: EmbeddedBroker,
    certificates: Certificates,
) -> None:
    """TLS 1.3 says it after the handshake, and a closed connection must not hide it."""
    bootstrap = mutual.bootstrap_at("SSL")
    settings = {**client_settings("SSL", certificates), "bootstrap.servers": bootstrap}
    if has_certificate:
        settings["ssl.certificate.location"] = str(certificates.stranger)
        settings["ssl.key.location"] = str(certificates.stranger.with_suffix(".key"))
    ask = _ask if face == "threads" else lambda given: asyncio.run(_ask_on_a_loop(given))
    with pytest.raises(AuthenticationFailed, match=f"{bootstrap}: the broker refused TLS.*{why}"):
        ask(settings)
    settings |= {"ssl.certificate.location": str(certificates.client), "ssl.key.location": ""}
    ask(settings)


def test_renewed_certificates_are_used_without_a_restart(certificates: Certificates, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    renewed = make_certificates(tmp_path / "second")
    store = tmp_path / "server.pem"
    shutil.copy(certificates.server, store)
    settings = {**properties(certificates), "ssl.keystore.location": str(store)}
    with EmbeddedBroker(tmp_path / "data", properties=settings) as broker:
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        before = _handshake(broker, anyone)
        store.write_text("no certificate")  # what cannot be used changes nothing
        assert _handshake(broker, anyone) == before
        shutil.copy(renewed.server, store)
        wait_for(lambda: _handshake(broker, anyone) != before, "the renewed certificate")
        trusting = {**client_settings("SSL", renewed), "bootstrap.servers": broker.bootstrap_at("SSL")}
        with Admin(trusting) as admin:
            assert admin.list_topics() is not None


def test_a_client_that_trusts_another_authority_does_not_connect(
    secured: EmbeddedBroker, certificates: Certificates
) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.stranger)}
    with (
        pytest.raises(AuthenticationFailed),
        Admin({**settings, "bootstrap.servers": secured.bootstrap_at("SSL")}) as admin,
    ):
        admin.list_topics()
