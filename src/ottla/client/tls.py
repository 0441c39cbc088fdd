"""TLS with the standard library, PEM files and key stores: what is trusted, our own, errors with remedies."""

from __future__ import annotations

import ssl

from ottla.client.client_config import SecurityConfig
from ottla.model.errors import AuthenticationFailed, BrokerUnreachable, ConfigError, OttlaError
from ottla.security.key_stores import load_own, read_store, trust


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """Return a new context for each connection, so that renewed certificates are used. Raises ConfigError."""
    if security.trust_store is not None:
        return _with_stores(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), security)
    try:
        context = ssl.create_default_context(cafile=security.ca_location or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ssl.ca.location={security.ca_location}: {error}; it must be a PEM file of certificates"
        ) from error
    # Since Python 3.13 the default refuses authorities without key usage. No other client of Kafka does.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return _with_stores(context, security)


def _with_stores(context: ssl.SSLContext, security: SecurityConfig) -> ssl.SSLContext:
    """Load the trusted certificates and our own certificate into a context."""
    context.check_hostname = security.checks_host_name
    if security.trust_store is not None:
        trust(context, read_store(security.trust_store), security.trust_store.prefix)
    if security.key_store is not None:
        load_own(context, read_store(security.key_store), security.key_store.prefix)
    if security.certificate_location:
        key = security.key_location or security.certificate_location
        try:
            # A callable, since OpenSSL would ask the terminal for a password that is not given.
            context.load_cert_chain(security.certificate_location, key, lambda: security.key_password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"ssl.certificate.location={security.certificate_location}, ssl.key.location={key}: {error}; "
                "both must be PEM files that belong together, and ssl.key.password that of the key"
            ) from error
    return context


def handshake_failure(peer: str, error: OSError) -> OttlaError:
    """Return the error for a handshake that failed, with a remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"{peer}: its certificate is not to be trusted: {error.verify_message}. Set ssl.ca.location to "
            "the authority that signed it; where only the host's name differs, call the broker by one that "
            "is in the certificate, or set ssl.endpoint.identification.algorithm=none"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        alert = alert_failure(peer, error)
        if alert is not None:
            return alert
        return AuthenticationFailed(
            f"{peer}: no TLS came about: {_reason(error)}. Is this the port of a TLS listener? "
            "Check security.protocol on both sides"
        )
    return BrokerUnreachable(
        f"{peer}: the connection ended in the TLS handshake ({error}). If this goes on, the port may not be "
        "that of a TLS listener: check security.protocol on both sides"
    )


_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a certificate, and we have none",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority that has signed ours",
    "TLSV1_ALERT_DECRYPT_ERROR": "its authority has not signed ours, or our key is another one",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "ours has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "ours is revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it takes ours for wrong",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept ours",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it cannot use one of our kind",
}
"""What brokers say about our certificate, by OpenSSL's names; Java brokers mostly send
CERTIFICATE_UNKNOWN.
"""


def alert_failure(peer: str, error: ssl.SSLError) -> AuthenticationFailed | None:
    """Return the error if the peer refused our certificate, which TLS 1.3 reports after the handshake; else
    None.
    """
    reason = _reason(error)
    if "ALERT" not in reason.upper():
        return None
    return AuthenticationFailed(
        f"{peer}: the broker refused TLS with us, probably our certificate: {_ALERTS.get(reason, reason)}. "
        "It may ask for one (ssl.certificate.location, ssl.key.location, or ssl.keystore.location) that an "
        "authority of its trust store has signed"
    )


def _reason(error: ssl.SSLError) -> str:
    return str(error.reason or error)
