"""A login on brokers before 1.0: the handshake has no version 1, and tokens travel bare."""

from __future__ import annotations

import socket
import struct

import pytest

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.model.errors import AuthenticationFailed
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.metadata import MetadataBroker, MetadataRequest, MetadataResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.client.raw_server import RawServer, exactly, framed, next_request

APIS = (ApiVersionsRequest.API, MetadataRequest.API, SaslHandshakeRequest.API)
BROKERS = [MetadataBroker(node_id=1, host="h", port=1)]


def old_broker(connection: socket.socket) -> None:
    """0.10: asks for the user ann with the password pass, and tells of one broker."""
    keys = [ApiVersion(api_key=api.key, min_version=0, max_version=0) for api in APIS]
    key, correlation_id = next_request(connection)
    assert key == ApiVersionsRequest.API.key
    connection.sendall(
        framed(correlation_id, ApiVersionsResponse(api_keys=keys), ApiVersionsRequest.API.version_newest)
    )
    key, correlation_id = next_request(connection)
    assert key == SaslHandshakeRequest.API.key
    connection.sendall(framed(correlation_id, SaslHandshakeResponse(mechanisms=["PLAIN"]), 0))
    token = exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])
    if token != b"\0ann\0pass":
        return
    connection.sendall(struct.pack(">i", 0))
    _, correlation_id = next_request(connection)
    connection.sendall(framed(correlation_id, MetadataResponse(brokers=BROKERS), 0))


def config(server: RawServer, password: str) -> ClientConfig:
    return ClientConfig.from_properties(
        {
            "bootstrap.servers": str(server.address),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.username": "ann",
            "sasl.password": password,
        }
    )


def test_tokens_travel_bare() -> None:
    with RawServer(old_broker) as server:
        settings = config(server, "pass")
        with Connection.open(server.address, settings) as connection:
            assert connection.call(MetadataRequest(topics=[])).brokers == BROKERS


def test_a_broker_that_hangs_up_has_refused() -> None:
    with (
        RawServer(old_broker) as server,
        pytest.raises(
            AuthenticationFailed,
            match=r"brokers before 1.0 do that when they refuse a login. Check sasl.username",
        ),
    ):
        Connection.open(server.address, config(server, "wrong"))


def test_a_broker_of_0_9_has_no_such_login() -> None:
    with RawServer.silent() as server:
        properties = config(server, "pass")
        pinned = ClientConfig(
            bootstrap=properties.bootstrap, broker_version="0.9", security=properties.security
        )
        with pytest.raises(AuthenticationFailed, match=r"has no SaslHandshake .*SASL needs 0.10 or later"):
            Connection.open(server.address, pinned)
