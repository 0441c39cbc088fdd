"""librdkafka's own tests, against our broker: those of security, and all others.

Each run has a broker with listeners as librdkafka's own cluster has, settings for its test program, and the
tests that need it. The tests count on three brokers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from ottla import EmbeddedBroker
from tests.client.certificates import Certificates, make_certificates
from tests.foreign.results import FAILED, KNOWN, PASSED, SKIPPED, Result
from tests.security.issuer import public_key
from tools.guarded_server import GuardedServer, free_address
from tools.peer_cache import librdkafka_tests

USER, PASSWORD = "ann", "s3cret"
REAUTHENTICATE_MS = 10_000
TOKEN_REAUTHENTICATE_MS = 24_000
"""Tokens last half of it. librdkafka renews a token up to a second after 80 % of its life and logs in again
after 90 %: with shorter tokens it may show the old one, and then has less than a second for the next login,
which Kafka refuses, too."""
RUN_S = 1800
BROKERS = 3
KEY_PASSWORD = "of the key"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
STATES = {"PASSED": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}
OUTDATED = {
    "alert unknown ca: SSL alert number 48": "0097 knows Java's alerts for a client's certificate of an "
    "unknown authority, 40 and 42; OpenSSL sends 48, unknown_ca, as RFC 8446 has it",
    "or _ALL_BROKERS_DOWN error codes, got: Local: Broker transport failure": "librdkafka calls "
    "a certificate that 0097 refuses a broken transport, where the server's answer is there before the first "
    "call of SSL_connect returns: a race that a quick server on the same machine wins",
}
"""Signs in the log of a test that ended before its report, and what they mean."""
Texts = dict[str, str]


@dataclass(frozen=True)
class Setting:
    """What a run has: the listener, settings of the broker and of the clients, and the environment."""

    protocol: str
    broker: Texts = field(default_factory=dict)
    client: Texts = field(default_factory=dict)
    environment: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """Where the runs keep their files; `stack` ends what they start."""

    place: Path
    program: Path
    certificates: Certificates
    stack: ExitStack


def results(place: Path, wanted: str = "") -> Iterator[Result]:
    """Run those whose name has `wanted`. Raises Unavailable where librdkafka cannot be built."""
    program = librdkafka_tests()
    certificates = make_certificates(place)
    for name, (prepare, tests) in RUNS.items():
        if wanted not in name:
            continue
        if tests == OTHERS:
            tests = " ".join(_others(program))
        with ExitStack() as stack:
            bench = Bench(place, program, certificates, stack)
            setting = prepare(bench)
            yield from _run(f"librdkafka, {name}", bench, setting, tests)


def _others(program: Path) -> list[str]:
    """The numbers of the tests that no other run has."""
    taken = " ".join(tests for _, tests in RUNS.values()).split()
    numbers = {path.name[:4] for path in (program / "tests").glob("[0-9][0-9][0-9][0-9]-*.c*")}
    return sorted(numbers.difference(taken))


def _run(name: str, bench: Bench, setting: Setting, tests: str) -> Iterator[Result]:
    """Run the tests, each in a process of its own: one that fails ends the others' work."""
    protocol = setting.protocol
    properties = {
        "listeners": f"{protocol}://127.0.0.1:0",
        "num.partitions": "4",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(bench.certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(bench.certificates.authority),
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": PLAIN_USERS,
        **setting.broker,
    }
    with EmbeddedBroker(properties=properties, brokers=BROKERS) as broker:
        client = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": protocol,
            "ssl.ca.location": str(bench.certificates.authority),
            "broker.address.family": "v4",
            "test.timeout.multiplier": "2",
            **setting.client,
        }
        settings = bench.place / "test.conf"
        settings.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
        for test in tests.split():
            yield from _outcomes(name, bench, test, settings, setting.environment)


def _outcomes(run: str, bench: Bench, test: str, settings: Path, more: Texts) -> Iterator[Result]:
    report = bench.place / "report.json"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "TESTS": test,
        "TEST_REPORT": str(report),
        "TEST_KAFKA_VERSION": "4.0.0",
        "RDKAFKA_TEST_CONF": str(settings),
        "LD_LIBRARY_PATH": f"{bench.program / 'src'}:{bench.program / 'src-cpp'}",
        "KAFKA_PATH": sys.prefix,  # its kafka-acls.sh is ours
        **more,
    }
    tests = bench.program / "tests"
    log = bench.place / f"{run}-{test}.log".replace(" ", "-")
    with log.open("wb") as out:
        try:
            subprocess.run(
                [tests / "test-runner", "-p1", "-K", "-E"],
                cwd=tests,
                env=environment,
                stdout=out,
                stderr=out,
                timeout=RUN_S,
            )
        except subprocess.TimeoutExpired:
            yield Result(run, test, FAILED, f"it did not end in {RUN_S} s; {log}")
            return
    states = json.loads(report.read_text())["tests"] if report.exists() else {}
    for name, told in states.items():
        if name.startswith(test) and told["state"] in STATES:
            outcome = STATES[told["state"]]
            yield Result(run, name, outcome, "" if outcome == PASSED else _last_words(log, name))
    if not any(name.startswith(test) for name in states):
        text = log.read_text(errors="replace")
        known = next((why for sign, why in OUTDATED.items() if sign in text), "")
        parts = f"{text.count(' PASSED: ')} parts passed before; {log}"
        yield Result(run, test, KNOWN if known else FAILED, f"{known or 'no report'}; {parts}")


def _last_words(log: Path, test: str) -> str:
    """The line in which a test says why it failed or was skipped."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if test in line]
    told = [line for line in lines if "FAIL" in line or "SKIP" in line or "WARN" in line]
    return f"{(told or lines or ['no word'])[0].strip()[:300]}; {log}"


# --- what the runs need


def _certificates(bench: Bench) -> Setting:
    files = _certificate_files(bench) | {"SSL_client_auth": "none"}
    return Setting("SSL", {"ssl.client.auth": "none"}, _own_certificate(bench), files)


def _required_certificates(bench: Bench) -> Setting:
    asked = {"ssl.client.auth": "required"}
    return Setting("SSL", asked, _own_certificate(bench), _certificate_files(bench))


def _certificates_and_login(bench: Bench) -> Setting:
    login = _by_password("SASL_SSL", "PLAIN")
    return Setting(
        "SASL_SSL", login.broker, login.client | _own_certificate(bench), _certificate_files(bench)
    )


def _own_certificate(bench: Bench) -> Texts:
    return {
        "ssl.certificate.location": str(bench.certificates.client.with_suffix(".crt")),
        "ssl.key.location": str(bench.certificates.locked_key),
        "ssl.key.password": bench.certificates.password,
    }


def _certificate_files(bench: Bench) -> Texts:
    """The client's key and certificate in all formats, by the names that librdkafka's own cluster gives."""
    place, password = bench.place, bench.certificates.password
    several = place / "authorities.pem"
    several.write_text(bench.certificates.stranger.read_text() + bench.certificates.authority.read_text())
    for command in (
        "x509 -in client.crt -outform DER -out client.der",
        "x509 -in authority.pem -outform DER -out authority.der",
        f"pkcs8 -topk8 -in client.key -passout pass:{password} -outform DER -out locked.der",
        "pkcs12 -export -in client.crt -inkey client.key -certfile authority.pem "
        f"-passout pass:{password} -out client.p12",
    ):
        subprocess.run(["openssl", *command.split()], cwd=place, check=True, capture_output=True, timeout=60)
    files = {
        "pkcs": "client.p12",
        "pub_der": "client.der",
        "pub_pem": "client.crt",
        "priv_der": "locked.der",
        "priv_pem": "locked.key",
        "ca_der": "authority.der",
        "ca_pem": "authority.pem",
        "all_cas_pem": several.name,
    }
    named = {f"SSL_{name}": str(place / file) for name, file in files.items()}
    return named | {"SSL_password": password, "SSL_client_auth": "required"}


def _acls(_: Bench) -> Setting:
    return Setting(
        "PLAINTEXT", {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    )


def _by_password(protocol: str, mechanism: str) -> Setting:
    broker = {"sasl.enabled.mechanisms": mechanism, "connections.max.reauth.ms": str(REAUTHENTICATE_MS)}
    client = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return Setting(protocol, broker, client)


def _plain(_: Bench) -> Setting:
    return _by_password("SASL_SSL", "PLAIN")


def _unsigned_tokens(_: Bench) -> Setting:
    broker = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    broker |= {"connections.max.reauth.ms": str(TOKEN_REAUTHENTICATE_MS)}
    client = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "scope=requiredScope principal=admin",
    }
    return Setting("SASL_PLAINTEXT", broker, client)


def _issued_tokens(bench: Bench) -> Setting:
    """Tokens of the issuer that librdkafka's own cluster has."""
    key = rsa.generate_private_key(65537, 2048)
    (bench.place / "assertion-public.json").write_text(json.dumps(public_key(key)))
    for name, lock in (("", NoEncryption()), ("-locked", BestAvailableEncryption(KEY_PASSWORD.encode()))):
        _write_key(bench.place / f"assertion{name}.pem", key, lock)
    address = free_address()
    server = "from trivup.apps.OauthbearerOIDCApp import OauthbearerOIDCHttpServer as Server; import sys; "
    server += "Server().run_http_server(int(sys.argv[1]), sys.argv[2])"
    bench.stack.enter_context(
        GuardedServer(
            [
                sys.executable,
                "-c",
                server,
                address.rpartition(":")[2],
                str(bench.place / "assertion-public.json"),
            ],
            address,
            bench.place / "issuer.log",
            {**os.environ, "PYTHONPATH": str(bench.program / "python")},
        )
    )
    url = f"http://{address}/retrieve"
    broker = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        "sasl.oauthbearer.jwks.endpoint.url": f"http://{address}/keys",
        "sasl.oauthbearer.expected.audience": "api://default",
    }
    client = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.client.id": "123",
        "sasl.oauthbearer.client.secret": "abc",
        "sasl.oauthbearer.scope": "test",
        "sasl.oauthbearer.extensions": "ExtensionworkloadIdentity=develC348S,Extensioncluster=lkc123",
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    environment = {
        "VALID_OIDC_URL": url,
        "INVALID_OIDC_URL": f"{url}/badformat",
        "EXPIRED_TOKEN_OIDC_URL": f"{url}/expire",
        "OAUTHBEARER_CLIENT_PRIVATE_KEY": str(bench.place / "assertion.pem"),
        "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED": str(bench.place / "assertion-locked.pem"),
        "OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": KEY_PASSWORD,
    }
    return Setting("SASL_PLAINTEXT", broker, client, environment)


def _write_key(path: Path, key: rsa.RSAPrivateKey, lock: KeySerializationEncryption) -> None:
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))


OTHERS = "others"
RUNS: dict[str, tuple[Callable[[Bench], Setting], str]] = {
    "certificates": (_certificates, "0097 0133 0134"),
    "required certificates": (_required_certificates, "0097"),
    "certificates and PLAIN": (_certificates_and_login, "0097"),
    "ACLs": (_acls, "0115 0119"),
    "PLAIN": (_plain, "0128 0135 0142"),
    "tokens without a signature": (_unsigned_tokens, "0142"),
    "tokens of an issuer": (_issued_tokens, "0126"),
    "without security": (lambda _: Setting("PLAINTEXT"), OTHERS),
}
"""What each run needs, and its tests."""
