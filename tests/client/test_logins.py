"""Logins by GSSAPI and AWS_MSK_IAM: the tokens of both sides, and what is missing is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ottla.client.authentication import new_exchange
from ottla.client.client_config import ClientConfig
from ottla.client.kerberos import KerberosExchange
from ottla.client.security_config import SecurityConfig
from ottla.model.errors import AuthenticationFailed, ConfigError

SASL = {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"


def security(**settings: object) -> SecurityConfig:
    return ClientConfig.from_properties({**SASL, **settings}).security


class Context:
    """Stands for a context of gssapi: two tokens of ours, then signatures, which are a letter in front."""

    def __init__(self) -> None:
        self.complete = False
        self.taken: list[bytes | None] = []

    def step(self, token: bytes | None = None) -> bytes | None:
        self.taken.append(token)
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def wrap(self, message: bytes, *, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=b"S" + message)

    def unwrap(self, message: bytes) -> SimpleNamespace:
        if not message.startswith(b"S"):
            raise ValueError("bad signature")
        return SimpleNamespace(message=message[1:])


def test_kerberos_tokens_in_the_order_of_rfc_4752() -> None:
    context = Context()
    exchange = KerberosExchange(context)
    assert exchange.first() == b"ticket"
    assert exchange.next(b"theirs") == b"", "the broker goes on after an empty token"
    assert context.taken == [None, b"theirs"]
    assert exchange.next(b"S\x07\x00\xff\xff") == b"S\x01\x00\x00\x00", "of three layers: none"
    assert exchange.next(b"") is None


@pytest.mark.parametrize(
    ("offer", "why"),
    [(b"S\x06\x00\xff\xff", "a layer of its own"), (b"S\x01", "layer"), (b"x", "bad signature")],
)
def test_what_a_broker_may_not_offer(offer: bytes, why: str) -> None:
    exchange = KerberosExchange(Context())
    exchange.first()
    exchange.next(b"theirs")
    with pytest.raises(AuthenticationFailed, match=why):
        exchange.next(offer)


def test_kerberos_settings_of_java_are_understood() -> None:
    jaas = f'{KRB5} keyTab="/k" principal="me@REALM" serviceName="kafka";'
    login = security(**{"sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}).kerberos
    assert login is not None
    assert (login.service, login.principal, login.keytab) == ("kafka", "me@REALM", "/k")
    with pytest.raises(ConfigError, match=r"needs sasl\.kerberos\.service\.name"):
        security(**{"sasl.mechanism": "GSSAPI"})


def test_a_missing_package_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    config = security(**{"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"})
    with pytest.raises(ConfigError, match=r"pip install 'ottla\[kerberos\]'"):
        new_exchange(config, "broker-1")


def signed(host: str) -> dict[str, str]:
    """A signer, as a user writes it."""
    return {"version": "2020_10_22", "host": host}


@pytest.mark.parametrize("signer", [signed, f"{__name__}:signed", lambda host: json.dumps(signed(host))])
def test_a_signed_request_is_shown_to_the_broker(signer: Callable[[str], object] | str) -> None:
    config = security(
        **{
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "sasl.aws.msk.iam.signer": signer,
        }
    )
    exchange = new_exchange(config, "b-1.msk")
    assert json.loads(exchange.first()) == signed("b-1.msk")
    assert exchange.next(b'{"version":"2020_10_22","request-id":"1"}') is None
    with pytest.raises(AuthenticationFailed, match="did not confirm"):
        exchange.next(b"")


def test_a_signer_that_fails_or_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"needs sasl\.aws\.msk\.iam\.signer"):
        security(**{"sasl.mechanism": "AWS_MSK_IAM"})
    config = security(**{"sasl.mechanism": "AWS_MSK_IAM", "sasl.aws.msk.iam.signer": f"{__name__}:nothing"})
    with pytest.raises(AuthenticationFailed, match="has no function nothing"):
        new_exchange(config, "h")
