"""Peers that are slow, silent, half there, or no Kafka at all: each ends in an error that says so."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.model.errors import (
    BrokerUnreachable,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.wire.api.metadata import MetadataBroker, MetadataRequest, MetadataResponse
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.client.raw_server import RawServer, exactly, framed, next_request

ANSWER = MetadataResponse(brokers=[MetadataBroker(node_id=1, host="h" * 200, port=1)])
ASK = MetadataRequest(topics=[])


def unpinned(server: RawServer, **properties: object) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": str(server.address), **properties})


def test_an_answer_byte_by_byte() -> None:
    def dribble(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, correlation_id = next_request(connection)
        for byte in framed(correlation_id, ANSWER, 0):
            connection.sendall(bytes([byte]))

    with RawServer(dribble) as server, Connection.open(server.address, server.config()) as connection:
        assert connection.call(ASK) == ANSWER


def test_a_connection_that_is_cut_inside_an_answer() -> None:
    def cut(connection: socket.socket) -> None:
        _, correlation_id = next_request(connection)
        connection.sendall(framed(correlation_id, ANSWER, 0)[:50])

    with RawServer(cut) as server, Connection.open(server.address, server.config()) as connection:
        with pytest.raises(ConnectionLost, match=r"inside a frame: 50 of \d+ bytes came; without an answer"):
            connection.call(ASK)
        assert not connection.is_open


def test_a_connection_that_is_reset() -> None:
    def reset(connection: socket.socket) -> None:
        next_request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with (
        RawServer(reset) as server,
        Connection.open(server.address, server.config()) as connection,
        pytest.raises(ConnectionLost, match="the connection broke: Connection reset by peer"),
    ):
        connection.call(ASK)


def hang_up(connection: socket.socket) -> None:
    next_request(connection)


def test_a_listener_that_hangs_up_on_everything_may_want_a_login() -> None:
    with (
        RawServer(hang_up) as server,
        Connection.open(server.address, server.config()) as connection,
        pytest.raises(ConnectionLost, match=r"may want a login \(security.protocol is PLAINTEXT here"),
    ):
        connection.call(ASK)


def test_a_peer_that_takes_requests_and_says_nothing() -> None:
    server = RawServer.silent()
    with server, Connection.open(server.address, server.config()) as connection:
        connection.send(ASK)
        with pytest.raises(RequestTimedOut, match="no answer to Metadata v0 #0 in 30 ms"):
            connection.receive(timeout_ms=30)


def test_a_peer_that_is_silent_twice_is_given_up() -> None:
    server = RawServer.silent()
    config = unpinned(server, api_version_request_timeout_ms=30)
    with server, pytest.raises(BrokerUnreachable, match=r"answers nothing \(2 requests, 30 ms each\)"):
        Connection.open(server.address, config)
    assert server.accepted == 2


def test_a_web_server() -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with RawServer(refuse) as server, pytest.raises(RemoteProtocolError, match="port of a web server"):
        Connection.open(server.address, unpinned(server))


def test_a_port_that_wants_tls() -> None:
    def alert(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(bytes.fromhex("15030300020246"))

    with RawServer(alert) as server, pytest.raises(RemoteProtocolError, match=r"check security.protocol"):
        Connection.open(server.address, unpinned(server))


def test_answers_to_nobodys_question() -> None:
    def lie(connection: socket.socket) -> None:
        _, correlation_id = next_request(connection)
        connection.sendall(framed(correlation_id + 7, ANSWER, 0))
        connection.recv(1)

    with RawServer(lie) as server, Connection.open(server.address, server.config()) as connection:
        with pytest.raises(RemoteProtocolError, match="answers out of order"):
            connection.call(ASK)
        assert not connection.is_open


def test_garbage_in_an_answer_names_the_peer() -> None:
    def garble(connection: socket.socket) -> None:
        _, correlation_id = next_request(connection)
        connection.sendall(struct.pack(">iii", 8, correlation_id, 2_000_000))
        connection.recv(1)

    with (
        RawServer(garble) as server,
        Connection.open(server.address, server.config()) as connection,
        pytest.raises(RemoteProtocolError, match=f"^{server.address}: "),
    ):
        connection.call(ASK)


def test_a_peer_that_reads_nothing_ends_a_send_in_time() -> None:
    server = RawServer.silent()
    with (
        server,
        Connection.open(server.address, server.config(request_timeout_ms=50)) as connection,
    ):
        with pytest.raises(RequestTimedOut, match=r"did not take Produce v1 #0 in 50 ms"):
            connection.send(produce(64 << 20))
        assert not connection.is_open


def produce(size: int) -> ProduceRequest:
    records = ProducePartition(index=0, records=bytes(size))
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[ProduceTopic(name="t", partition_data=[records])])


def test_a_peer_that_must_be_rid_of_its_answers_before_it_reads_on() -> None:
    """Both sides would wait for ever if a client that sends did not read."""
    big = MetadataResponse(brokers=[MetadataBroker(node_id=1, host="h" * 30_000, port=1)] * 400)

    def stubborn(connection: socket.socket) -> None:
        for _ in range(2):
            _, correlation_id = next_request(connection)
            connection.sendall(framed(correlation_id, big, 0))
        size = struct.unpack(">i", exactly(connection, 4))[0]
        exactly(connection, size)
        connection.recv(1)

    with RawServer(stubborn) as server, Connection.open(server.address, server.config()) as connection:
        connection.send(ASK)
        connection.send(ASK)
        connection.send(produce(16 << 20))
        for _ in range(2):
            assert len(connection.receive().message.brokers) == 400  # type: ignore[attr-defined]


def test_a_connect_that_gets_no_answer() -> None:
    """A full backlog drops what comes: as a firewall does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        fillers = [_connecting(full.getsockname()) for _ in range(4)]
        address = f"127.0.0.1:{full.getsockname()[1]}"
        config = ClientConfig.from_properties(
            {"bootstrap.servers": address, "socket.connection.setup.timeout.ms": 100}
        )
        try:
            with pytest.raises(BrokerUnreachable, match=r"cannot be reached: no answer in \d+ ms"):
                Connection.open(config.bootstrap[0], config)
            with Interruption() as interruption:
                patient = ClientConfig.from_properties({"bootstrap.servers": address})
                timer = threading.Timer(0.05, interruption.interrupt)
                timer.start()
                with pytest.raises(ConnectionLost, match="interrupted"):
                    Connection.open(config.bootstrap[0], patient, interruption=interruption)
                timer.join()
        finally:
            for filler in fillers:
                filler.close()


def _connecting(place: tuple[str, int]) -> socket.socket:
    filler = socket.socket()
    filler.setblocking(False)
    filler.connect_ex(place)
    return filler
