"""SCRAM's formulas (RFC 5802, RFC 7677), and a user's credential as Kafka keeps it: salted, no password.

Names are those of the RFC. Names and passwords are not normalised, as Kafka does not do it either.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

ITERATIONS_MIN = 4096
"""The minimum of RFC 7677 and of Kafka."""
ITERATIONS_MAX = 16384
"""The maximum of Kafka's brokers."""
MECHANISM_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As the protocol has them."""
ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker knows of a password: enough to check it, not enough to log in."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password): the slow part, about 1 ms for 4096 iterations."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def credential(algorithm: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a broker keeps of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", algorithm), iterations)


def proof_is_sound(algorithm: str, known: ScramCredential, signed: bytes, proof: bytes) -> bool:
    """Whether a client's proof shows that it knows the password; `signed` is RFC 5802's AuthMessage."""
    mask = hmac.digest(known.stored_key, signed, algorithm)
    if len(proof) != len(mask):
        return False
    client_key = bytes(left ^ right for left, right in zip(proof, mask, strict=True))
    return hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), known.stored_key)


def server_signature(algorithm: str, known: ScramCredential, signed: bytes) -> bytes:
    """Return what proves to the client that the broker knows the credential."""
    return hmac.digest(known.server_key, signed, algorithm)


def name_of(saslname: str) -> str | None:
    """Return the user's name of an escaped one; None if the escapes are wrong."""
    rest = saslname.replace("=2C", "").replace("=3D", "")
    return None if "=" in rest or "," in rest else saslname.replace("=2C", ",").replace("=3D", "=")
