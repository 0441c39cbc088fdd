"""Certificates for one machine: an authority in a directory, and what it signs.

Made by the package `cryptography` (pip install 'ottla[security]'). Keys are of the curve P-256, in PKCS8,
which Java, OpenSSL and Go read.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.model.errors import ConfigError
from ottla.security.private_files import write_private

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

CERTIFICATE, KEY = "ca.pem", "ca-key.pem"
DAYS = 3650
_NAME = "ottla's local authority"


class LocalAuthority:
    """Signs certificates for servers and clients. Raises ConfigError if its files cannot be used."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CERTIFICATE
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise ConfigError(
                "security: making certificates needs the package cryptography: pip install 'ottla[security]'"
            ) from None
        if not self.path.exists():
            self._make(directory)
        try:
            self._certificate = x509.load_pem_x509_certificate(self.path.read_bytes())
            key = load_pem_private_key((directory / KEY).read_bytes(), None)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"security: {directory} has no authority that can be used ({error}); remove it, "
                "and a new one is made"
            ) from None
        self._key: ec.EllipticCurvePrivateKey = key  # type: ignore[assignment]

    def _make(self, directory: Path) -> None:
        from cryptography import x509

        key = _new_key()
        limits = x509.BasicConstraints(ca=True, path_length=0)
        draft = _draft(_NAME, _NAME, key).add_extension(limits, critical=True)
        draft = draft.add_extension(_signs_certificates(), critical=True)
        made = draft.add_extension(_identifier(key), critical=False).sign(key, _sha256())
        write_private(directory / KEY, _key_text(key))
        write_private(self.path, _certificate_text(made))

    def certified(self, name: str, hosts: Iterable[str] = ()) -> str:
        """Return a new key and its certificate, as PEM: a client's, or a server's under names of hosts."""
        from cryptography import x509

        key = _new_key()
        draft = _draft(name, _NAME, key)
        draft = draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        draft = draft.add_extension(signed_by, critical=False).add_extension(_identifier(key), critical=False)
        names = [_general_name(host) for host in dict.fromkeys(hosts)]
        if names:
            draft = draft.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _key_text(key) + _certificate_text(draft.sign(self._key, _sha256()))


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _sha256() -> hashes.SHA256:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _draft(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = dt.datetime.now(dt.UTC)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    return (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))  # clocks differ
        .not_valid_after(now + dt.timedelta(days=DAYS))
    )


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    from cryptography import x509

    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _signs_certificates() -> x509.KeyUsage:
    """What an authority's key is for: since Python 3.13 clients refuse one that does not say so."""
    from cryptography import x509

    others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    unused = dict.fromkeys((*others, "key_agreement", "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **unused)


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _certificate_text(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()
