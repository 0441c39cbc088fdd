"""Clients of ours with the settings that users of Java paste: JAAS texts, stores, tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ottla.admin import Admin
from ottla.broker.embedded import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.model.errors import AuthenticationFailed, ConfigError
from tests.broker.security.secured import PASSWORD, USER, oauth_token
from tests.client.certificates import Certificates

MODULES = "org.apache.kafka.common.security"
LOGIN = f'required username="{USER}" password="{PASSWORD}";'


def topics(broker: EmbeddedBroker, listener: str, settings: Mapping[str, object]) -> tuple[str, ...]:
    where = {"bootstrap.servers": broker.bootstrap_at(listener), "security.protocol": listener}
    with Admin({**where, **settings}) as admin:
        return admin.list_topics()


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_jaas_text_logs_in(mechanism: str, module: str, secured: EmbeddedBroker) -> None:
    jaas = {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{MODULES}.{module} {LOGIN}"}
    assert topics(secured, "SASL_PLAINTEXT", jaas) is not None


def test_stores_as_pem_text(secured: EmbeddedBroker, certificates: Certificates) -> None:
    stores = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.authority.read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.client),
    }
    assert topics(secured, "SSL", stores) is not None
    stores["ssl.truststore.certificates"] = certificates.stranger.read_text()
    with pytest.raises(AuthenticationFailed):
        topics(secured, "SSL", stores)


def test_a_function_gives_tokens(secured: EmbeddedBroker) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauth.token.provider": oauth_token}
    assert topics(secured, "SASL_PLAINTEXT", login) is not None
    for provider in (lambda: "e30.e30.", lambda: "", lambda: 1 / 0):
        with pytest.raises(AuthenticationFailed):
            topics(secured, "SASL_PLAINTEXT", {**login, "sasl.oauth.token.provider": provider})


@pytest.fixture
def token_endpoint() -> Iterator[str]:
    """An endpoint of OIDC that knows one client."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.headers["Authorization"] == "Basic bWU6c2VjcmV0" and b"client_credentials" in form
            self.send_response(200 if is_known else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": oauth_token()} if is_known else {}).encode())

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def test_tokens_of_an_endpoint(secured: EmbeddedBroker, token_endpoint: str) -> None:
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
    login: dict[str, object] = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": token_endpoint,
        "sasl.jaas.config": f'{module} required clientId="me" clientSecret="secret" scope="kafka";',
    }
    assert topics(secured, "SASL_PLAINTEXT", login) is not None
    login["sasl.jaas.config"] = f'{module} required clientId="me" clientSecret="wr0ng";'
    with pytest.raises(AuthenticationFailed, match="no token for me: 401") as refused:
        topics(secured, "SASL_PLAINTEXT", login)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"sasl.mechanism": "OAUTHBEARER"}, "needs sasl.oauth.token.provider"),
        ({"sasl.mechanism": "PLAIN"}, "needs sasl.username and sasl.password, or sasl.jaas.config"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule {LOGIN}"},
            "ScramLoginModule is not for sasl.mechanism=PLAIN",
        ),
        (
            {"sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule {LOGIN}"},
            "Krb5LoginModule is not for sasl.mechanism=PLAIN",
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://x"},
            "needs the client's id and secret",
        ),
        ({"sasl.login.callback.handler.class": "com.example.Tokens"}, "Java classes cannot run here"),
        ({"sasl.mechanism": "GSSAPI"}, "needs sasl.kerberos.service.name"),
        ({"client.dns.lookup": "resolve"}, "client.dns.lookup=resolve: it must be use_all_dns_ips"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        ClientConfig.from_properties(
            {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", **settings}
        )
    assert PASSWORD not in str(refused.value)


def test_secrets_are_in_no_repr() -> None:
    made = ClientConfig.from_properties(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule {LOGIN}",
            "ssl.truststore.location": "t.jks",
            "ssl.truststore.password": "hidden-1",
        }
    )
    assert made.security.username == USER
    assert PASSWORD not in repr(made)
    assert "hidden-1" not in repr(made)
