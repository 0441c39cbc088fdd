"""A connection under TLS, to a server of the standard library: large answers, pipelines, cuts, ends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.model.errors import AuthenticationFailed, BrokerUnreachable, ConnectionLost
from ottla.wire.api.metadata import MetadataBroker, MetadataRequest, MetadataResponse
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.client.certificates import Certificates, make_certificates
from tests.client.raw_server import Handler, RawServer, exactly, framed, next_request

BIG = MetadataResponse(brokers=[MetadataBroker(node_id=1, host="h" * 30_000, port=1)] * 100)
ASK = MetadataRequest(topics=[])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def encrypted(certificates: Certificates, handler: Callable[[ssl.SSLSocket], None]) -> Handler:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            handler(secure)

    return handle


def config(server: RawServer, certificates: Certificates, **properties: object) -> ClientConfig:
    return server.config(security_protocol="SSL", ssl_ca_location=str(certificates.authority), **properties)


def test_large_answers_in_a_pipeline(certificates: Certificates) -> None:
    def answer(connection: ssl.SSLSocket) -> None:
        for _ in range(5):
            _, correlation_id = next_request(connection)
            connection.sendall(framed(correlation_id, BIG, 0))

    with (
        RawServer(encrypted(certificates, answer)) as server,
        Connection.open(server.address, config(server, certificates)) as connection,
    ):
        for _ in range(5):
            connection.send(ASK)
        for _ in range(5):
            assert connection.receive().message == BIG


def test_a_peer_that_must_be_rid_of_its_answers_before_it_reads_on(certificates: Certificates) -> None:
    def stubborn(connection: ssl.SSLSocket) -> None:
        for _ in range(4):
            _, correlation_id = next_request(connection)
            connection.sendall(framed(correlation_id, BIG, 0))
        exactly(connection, int.from_bytes(exactly(connection, 4)))

    records = ProducePartition(index=0, records=bytes(16 << 20))
    produce = ProduceRequest(
        acks=0, timeout_ms=1, topic_data=[ProduceTopic(name="t", partition_data=[records])]
    )
    with (
        RawServer(encrypted(certificates, stubborn)) as server,
        Connection.open(server.address, config(server, certificates)) as connection,
    ):
        for _ in range(4):
            connection.send(ASK)
        assert not connection.send(produce).expects_response
        for _ in range(4):
            assert connection.receive().message == BIG


def test_a_cut_is_a_cut(certificates: Certificates) -> None:
    def cut(connection: ssl.SSLSocket) -> None:
        _, correlation_id = next_request(connection)
        connection.sendall(framed(correlation_id, BIG, 0)[:100_000])

    with (
        RawServer(encrypted(certificates, cut)) as server,
        Connection.open(server.address, config(server, certificates)) as connection,
    ):
        with pytest.raises(ConnectionLost):
            connection.call(ASK)
        assert not connection.is_open


def test_a_server_that_speaks_something_else(certificates: Certificates) -> None:
    def greet(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(b"SSH-2.0-what\r\n")

    with RawServer(greet) as server, pytest.raises(AuthenticationFailed, match="no TLS came about"):
        Connection.open(server.address, config(server, certificates))


def test_a_server_that_hangs_up_in_the_handshake(certificates: Certificates) -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(10_000)

    with RawServer(hang_up) as server, pytest.raises(BrokerUnreachable, match="in the TLS handshake"):
        Connection.open(server.address, config(server, certificates))


def test_a_handshake_that_does_not_end(certificates: Certificates) -> None:
    server = RawServer.silent()
    with server:
        impatient = config(server, certificates, socket_connection_setup_timeout_ms=50)
        with pytest.raises(BrokerUnreachable, match="in the TLS handshake"):
            Connection.open(server.address, impatient)
        with Interruption() as interruption:
            timer = threading.Timer(0.05, interruption.interrupt)
            timer.start()
            with pytest.raises(ConnectionLost, match="interrupted"):
                Connection.open(server.address, config(server, certificates), interruption=interruption)
            timer.join()
