"""Logging in over the socket: every mechanism, both handshakes, again, too late, and wrong."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.security import unauthenticated
from ottla.broker.security.mechanisms import invalid
from ottla.broker.serving import login_gate
from ottla.model.address import parse_addresses
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.secured import (
    MECHANISMS,
    PASSWORD,
    USER,
    add_scram_user,
    exchange,
    log_in,
    properties,
    sasl_client,
)
from tests.broker.wire_client import Client
from tests.client.certificates import Certificates
from tests.waiting import wait_for


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_has_logged_in_is_served(mechanism: str, secured: EmbeddedBroker) -> None:
    with sasl_client(secured) as client:
        assert client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).api_keys
        assert not log_in(client, mechanism).error_code
        assert client.call(MetadataRequest(topics=[])).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_bare_tokens_after_the_old_handshake(mechanism: str, secured: EmbeddedBroker) -> None:
    with sasl_client(secured) as client:
        client.call(SaslHandshakeRequest(mechanism=mechanism), 0)
        tokens = exchange(mechanism)
        token: bytes | None = tokens.first()
        while token is not None:
            token = tokens.next(client.bare(token))
        assert client.call(MetadataRequest(topics=[])).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", "wrong"), ("", "")])
def test_a_wrong_login_says_nothing_of_the_user(
    mechanism: str, user: str, password: str, secured: EmbeddedBroker
) -> None:
    with sasl_client(secured) as client:
        answer = log_in(client, mechanism, user, password)
        assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
        assert answer.error_message in {
            "Authentication failed: Invalid username or password",
            str(invalid(mechanism)),
            '{"status":"invalid_token"}',
        }
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.call(MetadataRequest(topics=[]))


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are(secured: EmbeddedBroker) -> None:
    with sasl_client(secured) as client:
        answer = client.call(SaslHandshakeRequest(mechanism="GSSAPI"))
        assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == list(MECHANISMS)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.call(SaslHandshakeRequest(mechanism="PLAIN"))


def test_a_listener_without_login_says_so(secured: EmbeddedBroker) -> None:
    with Client.of(secured.bootstrap) as client:
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == Code.ILLEGAL_SASL_STATE
        answer = client.call(SaslAuthenticateRequest(auth_bytes=b"x"))
        assert answer.error_code == Code.ILLEGAL_SASL_STATE
        assert client.call(MetadataRequest(topics=[])).brokers


def test_a_session_ends_and_is_renewed(certificates: Certificates, tmp_path: Path) -> None:
    limits = {"connections.max.reauth.ms": "3600000"}
    with EmbeddedBroker(tmp_path, properties={**properties(certificates), **limits}) as broker:
        add_scram_user(broker.bootstrap)
        with sasl_client(broker) as client:
            assert log_in(client, "SCRAM-SHA-256").session_lifetime_ms == 3_600_000
            # Again at once, because a token may end soon. Then once a second, as in Kafka: sooner it is
            # refused, and the session stays.
            assert log_in(client, "SCRAM-SHA-256").session_lifetime_ms == 3_600_000
            too_soon = client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256")).error_code
            assert too_soon == Code.ILLEGAL_SASL_STATE
            assert client.call(MetadataRequest(topics=[])).brokers
        with sasl_client(broker) as client:  # the token's life counts too; it ends within the skew of clocks
            lifetime_ms = log_in(client, "OAUTHBEARER").session_lifetime_ms
            assert 0 < lifetime_ms <= 3_600_000


def test_an_ended_session_is_closed(certificates: Certificates, tmp_path: Path) -> None:
    limits = {"listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "1"}
    with (
        EmbeddedBroker(tmp_path, properties={**properties(certificates), **limits}) as broker,
        sasl_client(broker) as client,
    ):
        assert log_in(client, "PLAIN").session_lifetime_ms == 1

        def is_closed() -> bool:
            try:
                client.call(MetadataRequest(topics=[]))
            except (ConnectionResetError, BrokenPipeError):
                return True
            return False

        wait_for(is_closed, "the end of the session")


def test_who_does_not_log_in_in_time_is_cut_off(
    secured: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_gate, "LOGIN_S", 0.05)
    with socket.create_connection(parse_addresses(secured.bootstrap_at("SASL_PLAINTEXT"))[0], 60) as silent:
        assert silent.recv(1) == b""


def test_a_large_request_before_the_login_is_cut_off(secured: EmbeddedBroker) -> None:
    address = parse_addresses(secured.bootstrap_at("SASL_PLAINTEXT"))[0]
    with socket.create_connection(address, 60) as greedy:
        greedy.sendall((524_289).to_bytes(4, "big"))
        assert greedy.recv(1) == b""


def test_secrets_are_in_no_log_and_no_repr(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with EmbeddedBroker(tmp_path, properties=properties(certificates)) as broker:
        add_scram_user(broker.bootstrap)
        for mechanism in MECHANISMS:
            for password in (PASSWORD, "a wrong secret"):
                with sasl_client(broker) as client:
                    log_in(client, mechanism, password=password)
        shown = f"{broker!r} {broker._config!r}"
    assert PASSWORD not in shown + caplog.text
    assert "a wrong secret" not in caplog.text
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("ottla.*"))
    assert PASSWORD.encode() not in kept
    assert b"stored_key" in kept


def test_who_holds_most_before_its_login_goes_first(
    secured: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a request of each of many strangers must not fill the memory, nor keep others from logging in."""
    monkeypatch.setattr(unauthenticated, "UNAUTHENTICATED_BYTES_MAX", 300_000)
    address = parse_addresses(secured.bootstrap_at("SASL_PLAINTEXT"))[0]
    with ExitStack() as stack:
        greedy = [stack.enter_context(socket.create_connection(address, 60)) for _ in range(8)]
        for each in greedy:
            each.sendall((500_000).to_bytes(4, "big") + bytes([0, 17]) + bytes(60_000))
        gone = [each for each in greedy if _is_gone(each)]
        assert len(gone) >= 4
        with sasl_client(secured) as client:
            assert not log_in(client, "PLAIN").error_code
            assert client.call(MetadataRequest(topics=[])).brokers


def _is_gone(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
