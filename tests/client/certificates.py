"""Certificates for a test, made by the openssl program: an authority, a server on 127.0.0.1, a client."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    """PEM files; `server` and `client` hold a key and its certificate, `locked` a key with a password."""

    authority: Path
    stranger: Path  # another authority, which has signed nothing
    server: Path
    client: Path
    client_key: Path
    locked_key: Path
    password: str


def make_certificates(place: Path) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    for name in ("authority", "stranger"):
        _run(place, *f"req -x509 -nodes -days 2 -subj /CN={name} -out {name}.pem".split(), *_key(name))
    for name, more in (("server", "-addext subjectAltName=IP:127.0.0.1"), ("client", "")):
        _run(place, *f"req -nodes -subj /CN={name} -out {name}.csr {more}".split(), *_key(name))
        signing = f"x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial"
        _run(place, *f"{signing} -days 2 -copy_extensions copyall -out {name}.crt".split())
        (place / f"{name}.pem").write_text(
            (place / f"{name}.key").read_text() + (place / f"{name}.crt").read_text()
        )
    _run(place, *["pkcs8", "-topk8", "-in", "client.key", "-out", "locked.key", "-passout", "pass:s3cret"])
    return Certificates(
        authority=place / "authority.pem",
        stranger=place / "stranger.pem",
        server=place / "server.pem",
        client=place / "client.pem",
        client_key=place / "client.key",
        locked_key=place / "locked.key",
        password="s3cret",
    )


def _key(name: str) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", f"{name}.key"]


def _run(place: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=place, check=True, capture_output=True, timeout=60)
