"""SASL exchanges against the published vectors, and against servers that lie."""

from __future__ import annotations

import base64
import hmac

import pytest

from ottla.client.client_config import SaslMechanism
from ottla.client.sasl import ScramExchange, sasl_exchange
from ottla.model.errors import AuthenticationFailed

# RFC 7677, section 3; for SHA-1, on which the algorithm is the same, RFC 5802, section 5.
VECTORS = [
    pytest.param(
        "sha256",
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        id="rfc7677",
    ),
    pytest.param(
        "sha1",
        "fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        id="rfc5802",
    ),
]


@pytest.mark.parametrize(("algorithm", "nonce", "server_first", "proof", "server_final"), VECTORS)
def test_scram_as_published(
    algorithm: str, nonce: str, server_first: str, proof: str, server_final: str
) -> None:
    exchange = ScramExchange(algorithm, "user", "pencil", nonce=nonce)
    assert exchange.first() == f"n,,n=user,r={nonce}".encode()
    final = exchange.next(server_first.encode())
    assert final is not None
    assert final.decode().endswith(f",{proof}")
    assert exchange.next(server_final.encode()) is None


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    exchange = ScramExchange("sha256", "user", "pencil", nonce="abc")
    exchange.next(b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(AuthenticationFailed, match="not who it claims to be"):
        exchange.next(b"v=" + base64.b64encode(hmac.digest(b"?", b"?", "sha256")))


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"e=unknown-user", "unknown-user"),
        (b"r=other,s=QSXCR+Q6sek8bf92,i=4096", "does not belong"),
        (b"r=abc,s=QSXCR+Q6sek8bf92,i=4096", "does not belong"),
        (b"r=abcdef,s=!!!,i=4096", "does not belong"),
        (b"r=abcdef,s=QSXCR+Q6sek8bf92,i=1", "asks for 1 SCRAM iterations"),
        (b"r=abcdef,s=QSXCR+Q6sek8bf92,i=2000000000", "SCRAM iterations"),
        (b"r=abcdef,s=QSXCR+Q6sek8bf92,i=many", "SCRAM iterations"),
        (b"\xff\xfe", "does not belong"),
        (b"", "does not belong"),
    ],
)
def test_what_a_false_server_may_say(challenge: bytes, message: str) -> None:
    with pytest.raises(AuthenticationFailed, match=message):
        ScramExchange("sha256", "user", "pencil", nonce="abc").next(challenge)


def test_names_are_escaped() -> None:
    first = ScramExchange("sha256", "a=b,c", "x", nonce="n").first()
    assert first == b"n,,n=a=3Db=2Cc,r=n"


def test_plain_and_the_two_scrams_are_made_by_name() -> None:
    plain = sasl_exchange(SaslMechanism.PLAIN, "ann", "sécret")
    assert plain.first() == "\0ann\0sécret".encode()
    assert plain.next(b"") is None
    one, other = (sasl_exchange(SaslMechanism.SCRAM_SHA_512, "ann", "x").first() for _ in range(2))
    assert one != other, "nonces are drawn"
