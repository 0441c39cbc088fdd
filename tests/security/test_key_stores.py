"""Key stores as Java's keytool and openssl make them: PEM, PKCS12, JKS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ottla.model.errors import ConfigError
from ottla.security.key_stores import KeyMaterial, StoreSettings, load_own, read_store, trust
from tests.client.certificates import Certificates, make_certificates

PASSWORD = "changeit"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stores(certificates: Certificates) -> dict[str, Path]:
    """The server's key and the authority, in Java's two kinds of stores."""
    if shutil.which("keytool") is None:
        pytest.skip("there is no keytool here")
    place = certificates.server.parent
    pkcs12, trusted = place / "server.p12", place / "trusted.p12"
    _run(
        "openssl",
        "pkcs12",
        "-export",
        "-in",
        certificates.server,
        "-out",
        pkcs12,
        "-passout",
        f"pass:{PASSWORD}",
    )
    _keytool("-importcert", "-file", certificates.authority, "-keystore", trusted, "-storetype", "PKCS12")
    jks, trusted_jks = place / "server.jks", place / "trusted.jks"
    source = ("-srckeystore", pkcs12, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD)
    _run(
        "keytool", "-importkeystore", *source, "-destkeystore", jks, *_jks("-deststoretype", "-deststorepass")
    )
    _keytool("-importcert", "-file", certificates.authority, "-keystore", trusted_jks, "-storetype", "JKS")
    return {"PKCS12": pkcs12, "JKS": jks, "PKCS12 trust": trusted, "JKS trust": trusted_jks}


def _jks(kind: str, password: str) -> tuple[str, ...]:
    return (kind, "JKS", password, PASSWORD)


def _keytool(*arguments: object) -> None:
    _run("keytool", *arguments, "-noprompt", "-storepass", PASSWORD)


def _run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=120)


def _loads(material: KeyMaterial) -> None:
    load_own(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), material, "here")


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_javas_stores_have_the_key_and_the_trusted_certificates(kind: str, stores: dict[str, Path]) -> None:
    own = read_store(StoreSettings("ssl.keystore", kind, str(stores[kind]), PASSWORD))
    _loads(own)
    trusted = read_store(StoreSettings("ssl.truststore", kind, str(stores[f"{kind} trust"]), PASSWORD))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, trusted, "here")
    assert [dict(part[0] for part in one["subject"])["commonName"] for one in context.get_ca_certs()] == [
        "authority"
    ]


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_wrong_password_is_named_and_not_repeated(kind: str, stores: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"ssl.keystore.location=.*password is wrong") as refused:
        read_store(StoreSettings("ssl.keystore", kind, str(stores[kind]), "not this"))
    assert "not this" not in str(refused.value)


def test_the_kind_of_a_store_is_seen_from_its_bytes_as_in_java(stores: dict[str, Path]) -> None:
    _loads(read_store(StoreSettings("ssl.keystore", "PKCS12", str(stores["JKS"]), PASSWORD)))


@pytest.mark.parametrize("size", [0, 3, 11, 40, 200, -30])
def test_a_jks_store_that_was_cut_is_refused(size: int, stores: dict[str, Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut.jks"
    cut.write_bytes(stores["JKS"].read_bytes()[:size])
    with pytest.raises(ConfigError, match=r"ssl.keystore.location"):
        read_store(StoreSettings("ssl.keystore", "JKS", str(cut), PASSWORD))


def test_pem_is_a_file_or_texts(certificates: Certificates) -> None:
    text = certificates.server.read_text()
    _loads(read_store(StoreSettings("ssl.keystore", "PEM", str(certificates.server))))
    _loads(read_store(StoreSettings("ssl.keystore", "PEM", key=text, certificates=text)))


def test_a_locked_key_needs_its_password(certificates: Certificates) -> None:
    key, chain = certificates.locked_key.read_text(), certificates.client.read_text()
    settings = StoreSettings("ssl.keystore", "PEM", key=key, certificates=chain, key_password="s3cret")
    _loads(read_store(settings))
    with pytest.raises(ConfigError, match=r"ssl.key.password must be that of the key"):
        _loads(
            read_store(StoreSettings("ssl.keystore", "PEM", key=key, certificates=chain, key_password="no"))
        )
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (StoreSettings("ssl.keystore", "BKS", "x"), "ssl.keystore.type=BKS: it must be PEM, PKCS12, JKS"),
        (
            StoreSettings("ssl.keystore", "JKS", "/nowhere/x.jks"),
            "ssl.keystore.location=/nowhere/x.jks: No such",
        ),
        (StoreSettings("ssl.keystore", "JKS"), "the file of the store is not given"),
        (
            StoreSettings("ssl.keystore", "PEM", certificates="nothing"),
            "ssl.keystore: it has no PEM certificate",
        ),
    ],
)
def test_refusals_name_the_setting(settings: StoreSettings, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_store(settings)
