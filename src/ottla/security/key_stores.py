"""Key stores and trust stores of Kafka's settings → PEM, which Python's ssl reads.

    PEM       a file with a key and its chain, or the texts themselves (ssl.keystore.key and others)
    PKCS12    Java's kind since 9; read by the package `cryptography` (pip install 'ottla[security]')
    JKS       Java's old kind

A file that begins like a JKS store is read as one even if it is called PKCS12, and the reverse, as in Java.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from ottla.model.errors import ConfigError
from ottla.security.java_key_store import StoreEntries, is_jks, read_jks

STORE_BYTES_MAX = 16 << 20
TYPES = ("PEM", "PKCS12", "JKS")
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of one store; `prefix` is that of their names. The repr has no secrets."""

    prefix: str
    type: str = "JKS"
    location: str = ""
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    key: str = field(default="", repr=False)  # PEM texts, instead of a location
    certificates: str = field(default="", repr=False)

    @property
    def is_set(self) -> bool:
        """Whether there is a store."""
        return bool(self.location or self.key or self.certificates)


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """PEM texts: a private key, its chain, and certificates to trust."""

    key: str = field(default="", repr=False)
    chain: str = ""
    trusted: str = ""
    key_password: str = field(default="", repr=False)


def read_store(store: StoreSettings) -> KeyMaterial:
    """Return what a store has. Raises ConfigError that names the setting and the file."""
    if store.type.upper() not in TYPES:
        raise ConfigError(f"{store.prefix}.type={store.type}: it must be {', '.join(TYPES)}")
    where = f"{store.prefix}.location={store.location}"
    if store.type.upper() == "PEM":
        return _pem(store, where)
    data = _file(store.location, where)
    entries = _jks(data, store, where) if is_jks(data) else _pkcs12(data, store, where)
    key = _armored(entries.key, "PRIVATE KEY") if entries.key else ""
    chain = "".join(_armored(der, "CERTIFICATE") for der in entries.chain)
    trusted = "".join(_armored(der, "CERTIFICATE") for der in entries.trusted)
    return KeyMaterial(key, chain, trusted)


def load_own(context: ssl.SSLContext, material: KeyMaterial, where: str) -> None:
    """Give a context its own key and chain. Raises ConfigError.

    Python's ssl takes files only, so they are in one for a moment, which nobody else may read.
    """
    if not material.key or not material.chain:
        raise ConfigError(f"{where}: it has no private key with a certificate")
    import tempfile  # here: a start does not need it

    handle, path = tempfile.mkstemp(prefix="ottla-", suffix=".pem")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{material.key}\n{material.chain}")
        context.load_cert_chain(path, password=lambda: material.key_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise ConfigError(
            f"{where}: the key and the certificate cannot be used ({reason}): they must belong together, and "
            "ssl.key.password must be that of the key"
        ) from None
    finally:
        Path(path).unlink(missing_ok=True)


def trust(context: ssl.SSLContext, material: KeyMaterial, where: str) -> None:
    """Make a context trust the certificates of a store. Raises ConfigError."""
    certificates = material.trusted or material.chain
    if not certificates:
        raise ConfigError(f"{where}: it has no certificate")
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where}: its certificates cannot be used: {error}") from None


def _pem(store: StoreSettings, where: str) -> KeyMaterial:
    if store.location:
        text = _file(store.location, where).decode("utf-8", "replace")
        key_text = certificate_text = text
    else:
        key_text, certificate_text = store.key, store.certificates
    key = _KEY.search(key_text)
    certificates = "\n".join(_CERTIFICATE.findall(certificate_text))
    if not certificates:
        raise ConfigError(f"{where if store.location else store.prefix}: it has no PEM certificate")
    return KeyMaterial(key[0] if key else "", certificates, certificates, store.key_password)


def _jks(data: bytes, store: StoreSettings, where: str) -> StoreEntries:
    return read_jks(data, store.password, store.key_password, where)


def _pkcs12(data: bytes, store: StoreSettings, where: str) -> StoreEntries:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            f"{where}: PKCS12 stores need the package cryptography: pip install 'ottla[security]'"
        ) from None
    try:
        content = pkcs12.load_pkcs12(data, store.password.encode() or None)
    except ValueError:
        raise ConfigError(f"{where}: no PKCS12 store, or the password is wrong") from None
    der = serialization.Encoding.DER
    others = [item.certificate.public_bytes(der) for item in content.additional_certs]
    if content.key is None:
        own = [content.cert.certificate.public_bytes(der)] if content.cert else []
        return StoreEntries(trusted=[*own, *others])
    key = content.key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    own = [content.cert.certificate.public_bytes(der)] if content.cert else []
    return StoreEntries(key, [*own, *others], others)


def _file(location: str, where: str) -> bytes:
    if not location:
        raise ConfigError(f"{where}: the file of the store is not given")
    try:
        with open(location, "rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    if len(data) > STORE_BYTES_MAX:
        raise ConfigError(f"{where}: larger than {STORE_BYTES_MAX} bytes")
    return data


def _armored(der: bytes, label: str) -> str:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n"
