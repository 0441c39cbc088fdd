"""The same client on Apache Kafka 0.9, 3.9 and 4.x, and on listeners with TLS and logins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.address import Address
from ottla.model.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    OttlaError,
    RemoteProtocolError,
)
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.versions import VersionsOrigin
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tests.client.certificates import Certificates, make_certificates
from tests.client.conftest import Clients
from tests.client.kerberos_realm import REALM, KerberosRealm
from tests.client.manual_clock import ManualClock
from tests.waiting import wait_for
from tools.peers import HOST, KAFKA_0_9, KAFKA_3, KAFKA_4, RealKafka, Unavailable

SERVICE = f"kafka/{HOST}"
USER, PASSWORD = "ann", "s3cret, with = and spaces"
SCRAM_PASSWORD = "s3cret-with-=-in-it"
LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ASK = MetadataRequest(topics=[])


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_3])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    return real_kafka(request.param)


def test_leaders_controllers_and_coordinators(kafka: RealKafka, clients: Clients) -> None:
    pool, metadata = clients.pool(kafka.bootstrap, api_version_request_timeout_ms=1_000)
    leader = metadata.leader("made-by-asking", 0)
    assert leader.node.address == Address(HOST, kafka.port)
    connection = pool.to(leader.node.broker_id)
    assert connection.call(ASK).brokers[0].port == kafka.port
    assert pool.to_coordinator("billing") is connection
    assert pool.to_controller() is connection
    expected = VersionsOrigin.PROBED if kafka.version == KAFKA_0_9 else VersionsOrigin.ADVERTISED
    assert connection.versions.origin is expected
    found = metadata.memory.recall(connection.address)
    assert (found is not None) == (kafka.version == KAFKA_0_9), "what is found out is found out once"


def test_a_restart_is_survived(kafka: RealKafka, clients: Clients) -> None:
    if kafka.version != KAFKA_0_9:
        pytest.skip("one version will do: a start takes seconds")
    pool, metadata = clients.pool(kafka.bootstrap, broker_version="0.9")
    leader = metadata.leader("client-restarted", 0)
    pool.to(leader.node.broker_id).call(ASK)
    kafka.restart()
    metadata.invalidate("client-restarted", 0)
    again = metadata.leader("client-restarted", 0)
    pool.to(again.node.broker_id).call(ASK)


def test_the_cluster_as_zookeeper_tells_it(kafka: RealKafka, clients: Clients) -> None:
    if not kafka.zookeeper:
        pytest.skip("without ZooKeeper")
    metadata = clients.metadata(kafka.bootstrap, broker_version="0.9")
    metadata.leader("told-twice", 0)
    told = metadata.refresh_all()
    with KazooZooKeeperSession(KazooSettings(kafka.zookeeper)) as session:
        session.connect()
        from_zookeeper = ZooKeeperMetadata(session)
        assert from_zookeeper.bootstrap() == (Address(HOST, kafka.port),)
        view = from_zookeeper.view()
    assert view.brokers == told.brokers
    assert set(view.topics) == set(told.topics)
    ours, theirs = (one.topics["told-twice"].partitions[0] for one in (view, told))
    assert (ours.leader, ours.replicas, ours.isr) == (theirs.leader, theirs.replicas, theirs.isr)
    assert ours.leader_epoch >= 0, "what Metadata version 0 does not tell"


# --- TLS and logins


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm | Unavailable]:
    try:
        made = KerberosRealm(tmp_path_factory.mktemp("realm"))
    except Unavailable as error:
        yield error
    else:
        with made:
            yield made


@pytest.fixture(scope="module")
def secured(certificates: Certificates, realm: KerberosRealm | Unavailable) -> Iterator[RealKafka]:
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in LISTENERS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAMS)),
        "listener.name.sasl_plaintext.connections.max.reauth.ms": "600000",
    }
    module = "org.apache.kafka.common.security"
    for name in ("sasl_plaintext", "sasl_ssl"):
        plain = f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = plain
        for scram in SCRAMS:
            key = f"listener.name.{name}.{scram.lower()}.sasl.jaas.config"
            properties[key] = f"{module}.scram.ScramLoginModule required;"
    java_options = []
    if isinstance(realm, KerberosRealm):
        keys = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}@{REALM}"'
        properties["sasl.enabled.mechanisms"] += ",GSSAPI"
        properties["sasl.kerberos.service.name"] = "kafka"
        for name in ("sasl_plaintext", "sasl_ssl"):
            key = f"listener.name.{name}.gssapi.sasl.jaas.config"
            properties[key] = f"com.sun.security.auth.module.Krb5LoginModule required {keys};"
        java_options = [f"-Djava.security.krb5.conf={realm.settings}"]
    storage = [
        argument
        for scram in SCRAMS
        for argument in ("--add-scram", f"{scram}=[name={USER},password={SCRAM_PASSWORD}]")
    ]
    with ExitStack() as stack:
        try:
            kafka = RealKafka(
                KAFKA_4,
                properties=properties,
                listeners=LISTENERS,
                storage=storage,
                java_options=java_options,
            )
            stack.enter_context(kafka)
        except Unavailable as error:
            pytest.skip(str(error))
        yield kafka


def config(kafka: RealKafka, listener: str, **properties: object) -> ClientConfig:
    port = kafka.listener_ports.get(listener, kafka.port)
    return ClientConfig.from_properties(
        {"bootstrap.servers": f"{HOST}:{port}", "security.protocol": listener, **properties}
    )


def call(settings: ClientConfig) -> None:
    with Connection.open(settings.bootstrap[0], settings) as connection:
        wait_for(lambda: connection.call(ASK).brokers, "a broker that has just come up knows itself")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAMS])
def test_logins(secured: RealKafka, certificates: Certificates, listener: str, mechanism: str) -> None:
    login = {
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "ssl.ca.location": str(certificates.authority),
    }
    right = PASSWORD if mechanism == "PLAIN" else SCRAM_PASSWORD
    call(config(secured, listener, **login, sasl_password=right))
    with pytest.raises(
        AuthenticationFailed, match=f"refused user 'ann' with {mechanism}: .*Check sasl"
    ) as caught:
        call(config(secured, listener, **login, sasl_password="wr0ng"))
    assert "wr0ng" not in str(caught.value)


def test_without_a_login(secured: RealKafka) -> None:
    call(config(secured, "PLAINTEXT"))


def test_the_whole_client_behind_a_login(secured: RealKafka, certificates: Certificates) -> None:
    settings = config(
        secured,
        "SASL_SSL",
        ssl_ca_location=str(certificates.authority),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password=SCRAM_PASSWORD,
    )
    with ClusterMetadata(settings) as metadata, ConnectionPool(settings, metadata) as pool:
        leader = metadata.leader("secret", 0)
        assert leader.node.port == secured.listener_ports["SASL_SSL"], "the address of the listener we use"
        pool.to(leader.node.broker_id).call(ASK)
        pool.to_coordinator("billing").call(ASK)


def test_logins_by_kerberos(
    secured: RealKafka, certificates: Certificates, realm: KerberosRealm | Unavailable
) -> None:
    """By a ticket of kinit and by a keytab; then without a ticket, and with keys that the broker has not."""
    if isinstance(realm, Unavailable):
        pytest.skip(f"needs a KDC: {realm}")
    try:
        environment = realm.client_environment()
    except Unavailable as error:
        pytest.skip(str(error))

    def logins(*many: dict[str, str]) -> list[str]:
        common = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
        common |= {"ssl.ca.location": str(certificates.authority)}
        command = [sys.executable, "-m", "tests.client.kerberos_logins"]
        for login in many:
            where = f"{HOST}:{secured.listener_ports[login['security.protocol']]}"
            command.append(json.dumps({"bootstrap.servers": where, **common, **login}))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    plain, tls = {"security.protocol": "SASL_PLAINTEXT"}, {"security.protocol": "SASL_SSL"}
    keys = {"sasl.kerberos.keytab": str(realm.keytab("batch")), "sasl.kerberos.principal": f"batch@{REALM}"}
    realm.get_ticket("ann")
    assert logins(plain, tls) == ["login 0", "login 1"]
    realm.drop_tickets()
    assert logins(keys | plain, keys | tls) == ["login 0", "login 1"]
    realm.drop_tickets()
    realm.change_keys(SERVICE)
    without_ticket, refused = logins(plain, keys | plain)
    assert re.match(
        "AuthenticationFailed: .*Get a ticket with kinit, or set sasl.kerberos.keytab", without_ticket
    )
    assert re.match(
        f"AuthenticationFailed: .* refused principal 'batch@{REALM}' with GSSAPI: .*Check that the broker's "
        "keytab has the current keys",
        refused,
    )
    assert "sasl.username" not in without_ticket + refused


def test_a_login_that_ends_soon_is_not_used_any_more(secured: RealKafka) -> None:
    clock = ManualClock()
    settings = config(secured, "SASL_PLAINTEXT", sasl_username=USER, sasl_password=PASSWORD)
    with Connection.open(settings.bootstrap[0], settings, clock=clock) as connection:
        assert connection.is_usable()
        clock.at_ms += 590_000
        assert not connection.is_usable()


def test_a_certificate_of_ours_is_asked_for(secured: RealKafka, certificates: Certificates) -> None:
    trusting = {"ssl.ca.location": str(certificates.authority)}
    call(config(secured, "SSL", **trusting, ssl_certificate_location=str(certificates.client)))
    locked = {
        "ssl.certificate.location": str(certificates.client.with_suffix(".crt")),
        "ssl.key.location": str(certificates.locked_key),
        "ssl.key.password": certificates.password,
    }
    call(config(secured, "SSL", **trusting, **locked))
    with pytest.raises(
        AuthenticationFailed, match=r"the broker refused TLS with us.*ssl.certificate.location"
    ):
        call(config(secured, "SSL", **trusting))


def test_a_broker_that_is_not_trusted(secured: RealKafka, certificates: Certificates) -> None:
    with pytest.raises(AuthenticationFailed, match=r"not to be trusted: .*Set ssl.ca.location"):
        call(config(secured, "SSL", ssl_ca_location=str(certificates.stranger)))
    with pytest.raises(AuthenticationFailed, match="not to be trusted"):
        call(config(secured, "SSL"))


def test_a_host_that_the_certificate_does_not_name(secured: RealKafka, certificates: Certificates) -> None:
    port = secured.listener_ports["SSL"]
    settings = {
        "bootstrap.servers": f"localhost:{port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
    }
    with pytest.raises(AuthenticationFailed, match=r"Hostname mismatch.*identification.algorithm=none"):
        call(ClientConfig.from_properties(settings))
    call(ClientConfig.from_properties({**settings, "ssl.endpoint.identification.algorithm": "none"}))


def test_the_wrong_protocol_is_told(secured: RealKafka, certificates: Certificates) -> None:
    def error(listener: str, protocol: str) -> OttlaError:
        port = secured.listener_ports.get(listener, secured.port)
        settings = {
            "bootstrap.servers": f"{HOST}:{port}",
            "security.protocol": protocol,
            "ssl.ca.location": str(certificates.authority),
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        with pytest.raises(OttlaError) as caught:
            call(ClientConfig.from_properties(settings))
        return caught.value

    plain_to_tls = error("SSL", "PLAINTEXT")
    assert isinstance(plain_to_tls, RemoteProtocolError)
    assert "security.protocol" in str(plain_to_tls) or "wants TLS" in str(plain_to_tls)
    tls_to_plain = error("PLAINTEXT", "SSL")
    assert isinstance(tls_to_plain, AuthenticationFailed | BrokerUnreachable)
    assert "security.protocol" in str(tls_to_plain)
    no_login = error("SASL_PLAINTEXT", "PLAINTEXT")
    assert isinstance(no_login, ConnectionLost)
    assert "may want a login" in str(no_login)
    needless_login = error("PLAINTEXT", "SASL_PLAINTEXT")
    assert isinstance(needless_login, AuthenticationFailed)
    assert "asks for no login" in str(needless_login)


def test_files_that_are_not_there(secured: RealKafka, certificates: Certificates, tmp_path: Path) -> None:
    with pytest.raises(OttlaError, match=r"ssl.ca.location=.*PEM file"):
        call(config(secured, "SSL", ssl_ca_location=str(tmp_path / "none.pem")))
    wrong = {
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.locked_key),
    }
    with pytest.raises(OttlaError, match=r"ssl.key.password that of the key"):
        call(config(secured, "SSL", **wrong))
