"""JSON web tokens (RFC 7519) as OAUTHBEARER carries them: taken apart, signatures and claims checked.

Signatures need the package `cryptography`. A key is one of a JWKS (RFC 7517), kept as it was read. Tokens
without a signature are accepted only by callers that say so: for tests.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.model.errors import ConfigError, OttlaError

TOKEN_BYTES_MAX = 1 << 17
_HASHES = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
_CURVES = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}
_RSA_BITS_MIN = 2048


class TokenRefused(OttlaError):
    """A token does not prove who has it. The text has no part of the token."""


class Token(NamedTuple):
    """A token in its parts. Nothing is checked yet."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Expected:
    """What the claims of a token must be."""

    name_claim: str = "sub"
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    skew_s: int = 30


class TokenIdentity(NamedTuple):
    """Who a token names, and until when."""

    name: str
    ends_s: float


def parse_token(text: str) -> Token:
    """Take a token apart. Raises TokenRefused."""
    parts = text.split(".")
    if len(text) > TOKEN_BYTES_MAX or len(parts) != 3:
        raise TokenRefused("a token must have three parts")
    try:
        header, claims = (json.loads(_decoded(part)) for part in parts[:2])
        signature = _decoded(parts[2])
    except (ValueError, RecursionError):
        raise TokenRefused("a token must be of JSON in base64url") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenRefused("a token must be of JSON objects")
    return Token(header, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def check_unsigned(token: Token) -> None:
    """Raise TokenRefused if a token has an algorithm or a signature."""
    if token.header.get("alg") != "none" or token.signature:
        raise TokenRefused("only tokens without a signature are accepted here")


def check_signature(token: Token, keys: Iterable[Mapping[str, Any]]) -> None:
    """Raise TokenRefused if none of the keys has signed a token."""
    algorithm, key_id = token.header.get("alg"), token.header.get("kid")
    if (
        not isinstance(algorithm, str)
        or algorithm[:2] not in ("RS", "PS", "ES")
        or algorithm[2:] not in _HASHES
    ):
        raise TokenRefused("a token must be signed by RS, PS or ES with 256, 384 or 512 bits")
    for key in keys:
        if key_id is not None and key.get("kid", key_id) != key_id:
            continue
        is_for_this = key.get("alg", algorithm) == algorithm and key.get("use", "sig") == "sig"
        if is_for_this and _has_signed(token, algorithm, key):
            return
    raise TokenRefused("no known key has signed this token")


def identity(token: Token, expected: Expected, now_s: float) -> TokenIdentity:
    """Return who a token names. Raises TokenRefused for claims that are wrong, missing or out of date."""
    claims = token.claims
    name: Any = claims.get(expected.name_claim)
    ends_s: Any = claims.get("exp")
    if not isinstance(name, str) or not name:
        raise TokenRefused(f"a token must have the claim {expected.name_claim}")
    if not _is_time(ends_s):
        raise TokenRefused("a token must have an end (exp)")
    if now_s > ends_s + expected.skew_s:
        raise TokenRefused("the token has expired")
    for claim in ("iat", "nbf"):
        if claim in claims and not (_is_time(claims[claim]) and claims[claim] - expected.skew_s <= now_s):
            raise TokenRefused(f"the token is not valid yet ({claim})")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise TokenRefused("the token has another issuer")
    audience = claims.get("aud", ())
    audiences = {audience} if isinstance(audience, str) else set(map(str, audience or ()))
    if expected.audiences and not audiences & set(expected.audiences):
        raise TokenRefused("the token is for another audience")
    return TokenIdentity(name, float(ends_s))


def parse_jwks(text: str | bytes, where: str) -> list[dict[str, Any]]:
    """Return the keys of a JWKS. Raises ConfigError."""
    try:
        keys = json.loads(text)["keys"]
        if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{where}: it is no JWKS: an object with a list of keys") from None
    return keys


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _number(key: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(_decoded(str(key[name])), "big")


def _has_signed(token: Token, algorithm: str, key: Mapping[str, Any]) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
    except ImportError:
        raise ConfigError(
            "signed tokens need the package cryptography: pip install 'ottla[security]'"
        ) from None
    digest = getattr(hashes, _HASHES[algorithm[2:]])()
    try:
        if algorithm.startswith("ES"):
            _verify_curve(token, algorithm, key, digest)
        else:
            _verify_rsa(token, algorithm, key, digest)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, KeyError):
        return False
    return True


def _verify_curve(token: Token, algorithm: str, key: Mapping[str, Any], digest: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    curve, size = _CURVES[algorithm]
    if key.get("kty") != "EC" or key.get("crv") != curve or len(token.signature) != 2 * size:
        raise ValueError(curve)
    kind = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}[curve]
    public = ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), kind).public_key()
    halves = (token.signature[:size], token.signature[size:])
    signature = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
    public.verify(signature, token.signed, ec.ECDSA(digest))


def _verify_rsa(token: Token, algorithm: str, key: Mapping[str, Any], digest: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    if key.get("kty") != "RSA":
        raise ValueError(str(key.get("kty")))
    public = rsa.RSAPublicNumbers(_number(key, "e"), _number(key, "n")).public_key()
    if public.key_size < _RSA_BITS_MIN:
        raise ValueError(str(public.key_size))
    pad: Any = padding.PKCS1v15()
    if algorithm.startswith("PS"):
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size)
    public.verify(token.signature, token.signed, pad, digest)
