"""TLS of a listener: a context that follows its files, so that renewed certificates need no restart.

Each handshake uses the current context. The files are checked then, at most once a second; if a store cannot
be read, the context stays as it is, and the log says so.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable

from ottla.broker.settings.security_settings import TlsSettings
from ottla.model.errors import ConfigError
from ottla.security.key_stores import load_own, read_store, trust

log = logging.getLogger(__name__)

CHECK_S = 1.0
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return a context for the settings, with what the files have now. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(_VERSIONS[version] for version in tls.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.cipher_suites:
        _set_ciphers(context, tls)
    load_own(context, read_store(tls.key_store), tls.key_store.prefix)
    context.verify_mode = _VERIFY[tls.client_auth]
    if tls.trust_store.is_set:
        trust(context, read_store(tls.trust_store), tls.trust_store.prefix)
    elif context.verify_mode is not ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # the machine's, as Java takes its own
    return context


class FollowedContext:
    """The context to listen with: `context`. `now_s` is the loop's clock. Raises ConfigError.

    Afterwards it belongs to the thread of the handshakes.
    """

    def __init__(self, tls: TlsSettings, now_s: Callable[[], float]) -> None:
        self._tls = tls
        self._now_s = now_s
        self._checked_s = now_s()
        self._stamps = self._file_stamps()
        self._in_force = tls_context(tls)
        self.context = self._in_force
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Give a handshake the context in force."""
        now_s = self._now_s()
        if now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self.reload_if_changed()
        if self._in_force is not self.context:
            connection.context = self._in_force

    def reload_if_changed(self) -> None:
        """Read the stores again if a file has changed."""
        stamps = self._file_stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._in_force = tls_context(self._tls)
        except ConfigError as error:
            log.error("the certificates in force stay, the new ones cannot be used: %s", error)
        else:
            log.info("certificates are read again: %s", self._tls.key_store.location)

    def _file_stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(store.location) for store in (self._tls.key_store, self._tls.trust_store))


def _stamp(location: str) -> tuple[int, int, int] | None:
    if not location:
        return None
    try:
        status = os.stat(location)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _set_ciphers(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Set the cipher suites: Java's names for TLS 1.2 as OpenSSL's. Those of 1.3 are always on."""
    names = [
        suite.removeprefix("TLS_").replace("_WITH", "").replace("AES_", "AES").replace("_", "-")
        for suite in tls.cipher_suites
        if "_WITH_" in suite
    ]
    try:
        if names:
            context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise ConfigError(f"ssl.cipher.suites={','.join(tls.cipher_suites)}: none of them is known") from None
