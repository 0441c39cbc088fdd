"""Tokens of OAUTHBEARER: signatures of every algorithm, and each claim that can be wrong."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from ottla.model.errors import ConfigError
from ottla.security.json_web_token import (
    Expected,
    TokenRefused,
    check_signature,
    check_unsigned,
    identity,
    parse_jwks,
    parse_token,
)
from tests.security.tokens import unsigned_token

NOW_S = 1_000_000.0
CLAIMS = {"sub": "ann", "exp": NOW_S + 60, "iat": NOW_S - 1, "iss": "me", "aud": ["kafka", "other"]}
RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _number(number: int, size: int) -> str:
    return _text(number.to_bytes(size, "big"))


def _keys() -> list[dict[str, Any]]:
    public, point = RSA.public_key().public_numbers(), CURVE.public_key().public_numbers()
    return [
        {"kty": "RSA", "kid": "r", "n": _number(public.n, 256), "e": _number(public.e, 3)},
        {"kty": "EC", "kid": "e", "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)},
    ]


def _signed(algorithm: str, kid: str, claims: dict[str, Any] = CLAIMS) -> str:
    head = _text(json.dumps({"alg": algorithm, "kid": kid}).encode())
    body = f"{head}.{_text(json.dumps(claims).encode())}"
    digest = getattr(hashes, f"SHA{algorithm[2:]}")()
    if algorithm.startswith("ES"):
        halves = utils.decode_dss_signature(CURVE.sign(body.encode(), ec.ECDSA(digest)))
        return f"{body}.{_text(b''.join(half.to_bytes(32, 'big') for half in halves))}"
    pad: Any = padding.PKCS1v15()
    if algorithm.startswith("PS"):
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size)
    return f"{body}.{_text(RSA.sign(body.encode(), pad, digest))}"


@pytest.mark.parametrize(
    ("algorithm", "kid"), [("RS256", "r"), ("RS512", "r"), ("PS256", "r"), ("ES256", "e")]
)
def test_a_sound_signature_is_accepted_and_a_changed_token_is_not(algorithm: str, kid: str) -> None:
    text = _signed(algorithm, kid)
    check_signature(parse_token(text), _keys())
    head, _, signature = text.split(".")
    forged = f"{head}.{_text(json.dumps({**CLAIMS, 'sub': 'root'}).encode())}.{signature}"
    for bad in (forged, text[:-8] + "AAAAAAAA", unsigned_token(CLAIMS), _signed(algorithm, "another")):
        with pytest.raises(TokenRefused):
            check_signature(parse_token(bad), _keys())


def test_a_key_of_another_kind_signs_nothing() -> None:
    with pytest.raises(TokenRefused):
        check_signature(parse_token(_signed("ES256", "r")), _keys())
    with pytest.raises(TokenRefused):
        check_signature(parse_token(_signed("RS256", "r")), [])


def test_the_claims_say_who_it_is() -> None:
    token = parse_token(unsigned_token(CLAIMS))
    check_unsigned(token)
    assert identity(token, Expected(issuer="me", audiences=("kafka",)), NOW_S) == ("ann", NOW_S + 60)
    assert identity(token, Expected(name_claim="iss"), NOW_S).name == "me"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sub": None}, Expected()),
        ({"sub": 5}, Expected()),
        ({"exp": None}, Expected()),
        ({"exp": "soon"}, Expected()),
        ({"exp": NOW_S - 31}, Expected()),
        ({"iat": NOW_S + 31}, Expected()),
        ({"nbf": NOW_S + 31}, Expected()),
        ({"nbf": True}, Expected()),
        ({}, Expected(issuer="you")),
        ({}, Expected(audiences=("elsewhere",))),
        ({"aud": None}, Expected(audiences=("kafka",))),
    ],
)
def test_wrong_claims_are_refused(changes: dict[str, Any], expected: Expected) -> None:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    with pytest.raises(TokenRefused):
        identity(parse_token(unsigned_token(claims)), expected, NOW_S)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "!.!.!", "e30.W10.", "." * 5, "x" * 200_000])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        parse_token(text)


@pytest.mark.parametrize("text", ["", "{}", '{"keys": 1}', '{"keys": [1]}', "[]"])
def test_what_is_no_list_of_keys_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="here: it is no JWKS"):
        parse_jwks(text, "here")
