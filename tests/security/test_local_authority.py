"""The authority of one machine: its certificates are trusted by clients of every Python."""

from __future__ import annotations

import ssl
from pathlib import Path

from ottla.security.local_authority import LocalAuthority


def test_strict_clients_trust_what_it_signs(tmp_path: Path) -> None:
    """Since Python 3.13 they are strict unless told otherwise."""
    authority = LocalAuthority(tmp_path)
    server_file = tmp_path / "server.pem"
    server_file.write_text(authority.certified("broker", ["127.0.0.1"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    strict = ssl.create_default_context(cafile=str(authority.path))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = strict.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    assert client.getpeercert()["subject"] == ((("commonName", "broker"),),)  # type: ignore[index]
