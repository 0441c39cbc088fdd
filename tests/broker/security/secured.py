"""Brokers with listeners of every kind, for the tests of security."""

from __future__ import annotations

import time
from typing import Any

from ottla.broker.embedded import EmbeddedBroker
from ottla.client.client_config import SaslMechanism
from ottla.client.sasl import SaslExchange, sasl_exchange
from ottla.model.error_codes import Code
from ottla.security.scram import ALGORITHMS, MECHANISM_NUMBERS, salted_password
from ottla.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from tests.broker.wire_client import Client
from tests.client.certificates import Certificates
from tests.security.tokens import unsigned_token

USER, PASSWORD = "ann", "s3cret,=x"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def properties(certificates: Certificates, **more: str) -> dict[str, str]:
    """Return the settings of a broker with four listeners, which take every mechanism."""
    users = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}" user_bob="bob-secret";'
    )
    return {
        "listeners": ",".join(f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "1",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        **{name.replace("__", "-").replace("_", ".").replace("-", "_"): text for name, text in more.items()},
    }


def add_scram_user(bootstrap: str, user: str = USER, password: str = PASSWORD) -> None:
    """Give a user credentials for both kinds of SCRAM, over a listener that lets everybody in."""
    salt, iterations = b"salt of the test", 4096
    upsertions = [
        ScramCredentialUpsertion(
            name=user,
            mechanism=number,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(ALGORITHMS[mechanism], password, salt, iterations),
        )
        for mechanism, number in MECHANISM_NUMBERS.items()
    ]
    with Client.of(bootstrap) as client:
        for upsertion in upsertions:
            answer = client.call(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
            assert [result.error_code for result in answer.results] == [0]


def client_settings(protocol: str, certificates: Certificates, mechanism: str = "PLAIN") -> dict[str, Any]:
    """Return what a client of ours needs for a listener."""
    settings: dict[str, Any] = {"security.protocol": protocol}
    if "SSL" in protocol:
        settings["ssl.ca.location"] = str(certificates.authority)
    if "SASL" in protocol:
        settings |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return settings


def oauth_token(user: str = USER, seconds: float = 3600) -> str:
    """Return a token without a signature."""
    now_s = time.time()
    return unsigned_token({"sub": user, "iat": now_s, "exp": now_s + seconds})


class TokenExchange:
    """OAUTHBEARER with a token without a signature."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def next(self, challenge: bytes) -> bytes | None:
        return b"\x01" if challenge else None


def exchange(mechanism: str, user: str = USER, password: str = PASSWORD) -> SaslExchange:
    if mechanism == "OAUTHBEARER":
        return TokenExchange(oauth_token(user) if password == PASSWORD else "e30.e30.")
    return sasl_exchange(SaslMechanism(mechanism), user, password)


def log_in(
    client: Client, mechanism: str, user: str = USER, password: str = PASSWORD
) -> SaslAuthenticateResponse:
    """Log in, and return the last answer."""
    shaken = client.call(SaslHandshakeRequest(mechanism=mechanism))
    assert (shaken.error_code, shaken.mechanisms) == (Code.NONE, list(MECHANISMS))
    tokens = exchange(mechanism, user, password)
    token: bytes | None = tokens.first()
    while token is not None:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            return answer
        token = tokens.next(answer.auth_bytes)
    return answer


def sasl_client(broker: EmbeddedBroker) -> Client:
    return Client.of(broker.bootstrap_at("SASL_PLAINTEXT"))
