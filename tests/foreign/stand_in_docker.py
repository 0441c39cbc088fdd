"""The module `docker` for aiokafka's tests, which start Kafka and run its tools in containers by it.

`containers.run` starts an embedded broker with the ports that the tests want; what they run inside of it are
Kafka's command-line tools, which ours replace.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla import EmbeddedBroker

__all__ = ["from_env", "models"]

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = 'user_admin="admin" user_test="test" user_test2="test2"'
PORTS = {
    "PLAINTEXT": "ADVERTISED_PORT",
    "SSL": "ADVERTISED_SSL_PORT",
    "SASL_PLAINTEXT": "ADVERTISED_SASL_PLAINTEXT_PORT",
    "SASL_SSL": "ADVERTISED_SASL_SSL_PORT",
}
CERTIFICATES = Path("tests/ssl_cert")
"""`aiokafka_suite` has made them."""


class Container:
    """A broker, with Kafka's tools."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def exec_run(self, command: str | Sequence[str], **_: Any) -> tuple[int, bytes]:
        program, *words = shlex.split(command) if isinstance(command, str) else command
        for flag in ("--authorizer-properties", "--zookeeper"):
            if flag in words:
                at = words.index(flag)
                words[at : at + 2] = ["--bootstrap-server", self._broker.bootstrap]
        # A user's passwords one by one: Kafka 4 does not take two in a request, as ZooKeeper did.
        if "--add-config" in words:
            at = words.index("--add-config") + 1
            for change in words[at].split(","):
                words[at] = change
                code, output = self._run(program, words)
                if code:
                    break
            return code, output
        return self._run(program, words)

    def _run(self, program: str, words: Sequence[str]) -> tuple[int, bytes]:
        command = [sys.executable, "-m", "ottla", Path(program).name, *words]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return run.returncode, run.stdout

    def stop(self) -> None:
        self._broker.close()


class _Containers:
    def run(self, environment: Mapping[str, object], **_: Any) -> Container:
        listeners = ",".join(f"{name}://127.0.0.1:{environment[port]}" for name, port in PORTS.items())
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};"
        properties = {
            "listeners": listeners,
            "num.partitions": str(environment["NUM_PARTITIONS"]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(CERTIFICATES / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(CERTIFICATES / "ca.crt"),
            "ssl.client.auth": "required",
            "listener.name.sasl_ssl.ssl.client.auth": "none",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": plain
                for name in ("sasl_plaintext", "sasl_ssl")
            },
            "authorizer.class.name": AUTHORIZER,
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:admin;User:ANONYMOUS",
        }
        return Container(EmbeddedBroker(properties=properties).start())


def from_env() -> SimpleNamespace:
    return SimpleNamespace(containers=_Containers(), images=SimpleNamespace(pull=print), close=lambda: None)


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
