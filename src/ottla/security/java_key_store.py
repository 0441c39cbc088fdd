"""JKS, Java's old kind of key store: private keys with their chains, and trusted certificates.

    magic FEEDFEED, version, number of entries | entries | SHA-1 of password, "Mighty Aphrodite"…
    entry: 1 private key | 2 certificate; alias, time, content

A private key is PKCS 8, masked by a stream of SHA-1 digests that starts from the password. Both are weak;
Java made PKCS12 the default in 2017.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from ottla.model.errors import ConfigError

MAGIC = 0xFEEDFEED
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_SALT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
ENTRIES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """The content of a store, as DER: the first private key (PKCS 8) with its chain, and what it trusts."""

    key: bytes | None = field(default=None, repr=False)
    chain: list[bytes] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)


class _StoreReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def text(self) -> str:
        return self.take(struct.unpack(">H", self.take(2))[0]).decode("utf-8", "replace")

    def take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise ValueError("it ends too early")
        self._at += size
        return part

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # its kind, X.509
        return self.take(self.number())


def is_jks(data: bytes) -> bool:
    """Whether bytes begin like a JKS store."""
    return data[:4] == MAGIC.to_bytes(4, "big")


def read_jks(data: bytes, password: str, key_password: str, where: str) -> StoreEntries:
    """Return what a store has. Raises ConfigError for damage and for a wrong password."""
    try:
        return _read(data, password, key_password or password)
    except (ValueError, struct.error) as error:
        raise ConfigError(f"{where}: this JKS store cannot be read: {error}") from None


def _read(data: bytes, password: str, key_password: str) -> StoreEntries:
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password:
        sound = hashlib.sha1(_utf16(password) + _SALT + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(sound, digest):
            raise ValueError("the password is wrong, or the file is damaged")
    reader = _StoreReader(body)
    magic, version, count = reader.number(), reader.number(), reader.number()
    if magic != MAGIC or version not in (1, 2) or count > ENTRIES_MAX:
        raise ValueError("it is no JKS store")
    key: bytes | None = None
    chain: list[bytes] = []
    trusted: list[bytes] = []
    for _ in range(count):
        kind, _alias, _time = reader.number(), reader.text(), reader.take(8)
        if kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif kind == _PRIVATE_KEY:
            masked = reader.take(reader.number())
            certificates = [reader.certificate(version) for _ in range(min(reader.number(), ENTRIES_MAX))]
            if key is None:
                key, chain = _unmasked(masked, key_password), certificates
        else:
            raise ValueError(f"an entry has the unknown kind {kind}")
    return StoreEntries(key, chain, trusted)


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unmasked(masked: bytes, password: str) -> bytes:
    """Return the PKCS 8 key of an EncryptedPrivateKeyInfo with Sun's own algorithm."""
    sealed = _octets(masked)
    seed, body, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
    secret = _utf16(password)
    stream = bytearray()
    while len(stream) < len(body):
        seed = hashlib.sha1(secret + seed, usedforsecurity=False).digest()
        stream += seed
    key = bytes(left ^ right for left, right in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("the password of its key is wrong (ssl.key.password)")
    return key


def _octets(der: bytes) -> bytes:
    """Return the OCTET STRING of SEQUENCE { SEQUENCE algorithm, OCTET STRING }."""
    _, outer = _element(der, 0, 0x30)
    after, _ = _element(outer, 0, 0x30)
    return _element(outer, after, 0x04)[1]


def _element(der: bytes, at: int, tag: int) -> tuple[int, bytes]:
    """Where an element of ASN.1 ends, and its content."""
    if der[at : at + 1] != bytes([tag]) or len(der) < at + 2:
        raise ValueError("a private key is damaged")
    size, at = der[at + 1], at + 2
    if size & 0x80:
        width = size & 0x7F
        size, at = int.from_bytes(der[at : at + width], "big"), at + width
    return at + size, der[at : at + size]
