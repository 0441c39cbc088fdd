"""kafkajs' own tests, against our broker.

They are not in its package: a checkout of its repository is needed. Its tests want brokers on fixed ports of
localhost, which become those of our broker in a copy. Its key store is not used: OpenSSL refuses its
certificate, which is signed by SHA-1, and the tests check nothing of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla import Admin, EmbeddedBroker
from ottla.admin import ScramPassword
from tests.client.certificates import make_certificates
from tests.foreign.results import FAILED, KNOWN, PASSED, SKIPPED, Result
from tools.peer_cache import program

BROKERS = 3
PORTS = {"PLAINTEXT": (9092, 9095, 9098), "SSL": (9093, 9096, 9099), "SASL_SSL": (9094, 9097, 9100)}
USERS = {"test": "testtest", "bob": "bobbob", "alice": "alicealice"}
SCRAM_USER = "testscram"
SCRAM_PASSWORDS = {"SCRAM-SHA-256": "testtestscram=256", "SCRAM-SHA-512": "testtestscram=512"}
FILES = (
    "src/admin/",
    "src/broker/",
    "src/cluster/",
    "src/consumer/",
    "src/network/",
    "src/producer/",
    "src/index.spec.js",
)
"""All but those of its encoders and of its logger, which no broker takes part in."""
TOKEN_FILES = (
    "src/admin/__tests__/connection.spec.js",
    "src/broker/__tests__/connect.spec.js",
    "src/broker/__tests__/disconnect.spec.js",
    "src/broker/__tests__/reauthenticate.spec.js",
    "src/broker/saslAuthenticator/",
    "src/consumer/__tests__/connection.spec.js",
    "src/producer/index.spec.js",
)
NO_TIMEOUT = "members without a rebalance timeout: Kafka 3.9.1 and 4.3.1 drop them before they sync, too"
NULL_TEXT = "it expects null as an error's text, as of Kafka 2.4; 4.3.1 sends ''"
OUTDATED = {
    "Admin alter broker configs": "brokers of one process share their settings; only the first one takes any",
    "Broker > Heartbeat request": NO_TIMEOUT,
    "Broker > OffsetCommit request": NO_TIMEOUT,
    "Broker > OffsetCommit request with metadata": NO_TIMEOUT,
    "Broker > OffsetFetch request": NO_TIMEOUT,
    "Broker > TxnOffsetCommit ignores invalid transaction fields": "as of Kafka 2.4; producers are checked",
    "Broker > alterPartitionReassignments request": "it wants a move that goes on; ours end at once",
    "Broker > describeAcls request": NULL_TEXT,
    "Broker > describeConfigs request": NULL_TEXT,
    "Broker > describeConfigs request without config names returns all config entries": NULL_TEXT,
    "Consumer > Instrumentation Events emits request timeout events": "the broker answers within 1 ms",
    "Consumer recovers from offset out of range": NO_TIMEOUT,
}
RUN_S = 3600


def results(place: Path, checkout: Path) -> Iterator[Result]:
    """Run all: with passwords and ACLs, then with tokens, as kafkajs' own runs are divided."""
    copy = place / "kafkajs"
    left_out = shutil.ignore_patterns(".git", "website", "node_modules")
    shutil.copytree(checkout, copy, symlinks=True, ignore=left_out)
    if (checkout / "node_modules").exists():
        (copy / "node_modules").symlink_to(checkout / "node_modules")
    else:
        command = [program("npm"), "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(command, cwd=copy, check=True, timeout=RUN_S)
    make_certificates(place)
    texts = {path: path.read_text() for path in _files_with_ports(copy)}
    acls = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_PASSWORDS)),
    }
    tokens = {"sasl.enabled.mechanisms": "OAUTHBEARER", "connections.max.reauth.ms": "15000"}
    yield from _run("kafkajs, passwords and ACLs", copy, texts, acls, FILES, {})
    yield from _run("kafkajs, tokens", copy, texts, tokens, TOKEN_FILES, {"OAUTHBEARER_ENABLED": "1"})


def _files_with_ports(copy: Path) -> list[Path]:
    return [copy / "testHelpers" / "index.js", *sorted((copy / "src").rglob("*.spec.js"))]


def _run(
    name: str,
    copy: Path,
    texts: dict[Path, str],
    settings: dict[str, str],
    files: tuple[str, ...],
    more: dict[str, str],
) -> Iterator[Result]:
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    properties = {
        "listeners": ",".join(f"{protocol}://127.0.0.1:0" for protocol in PORTS),
        "advertised.listeners": ",".join(f"{protocol}://localhost:0" for protocol in PORTS),
        "num.partitions": "2",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(copy.parent / "server.pem"),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        **settings,
    }
    with EmbeddedBroker(properties=properties, brokers=BROKERS) as broker:
        if "SCRAM" in settings["sasl.enabled.mechanisms"]:
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                for mechanism, password in SCRAM_PASSWORDS.items():
                    admin.alter_user_scram_credentials(ScramPassword(SCRAM_USER, mechanism, password))
        _set_ports(texts, broker)
        _replace_tools(copy, broker)
        told = copy / "results.json"
        told.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "KAFKA_VERSION": "2.4",
            "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
            "NODE_OPTIONS": "--dns-result-order=ipv4first",
            "NODE_PATH": "",
            **more,
        }
        command = [program("node"), "node_modules/.bin/jest", "--ci", "--forceExit", "--runInBand", "--json"]
        command += ["--reporters=default", f"--outputFile={told}", *files]
        with (copy.parent / f"{name}.log").open("wb") as log:
            subprocess.run(command, cwd=copy, env=environment, stdout=log, stderr=log, timeout=RUN_S)
    yield from outcomes(name, json.loads(told.read_text()))


def _replace_tools(copy: Path, broker: EmbeddedBroker) -> None:
    """Our tool for Kafka's, which the tests run in a container."""
    (copy / "scripts" / "addPartitions.sh").write_text(
        f"#!/bin/sh\nexec {sys.executable} -m ottla kafka-topics --bootstrap-server {broker.bootstrap} "
        '--alter --topic "$TOPIC" --partitions "$PARTITIONS"\n'
    )


def _set_ports(texts: dict[Path, str], broker: EmbeddedBroker) -> None:
    """Write the tests with the ports of this broker."""
    ports = {
        str(theirs): ours.rpartition(":")[2]
        for protocol, known in PORTS.items()
        for theirs, ours in zip(known, broker.bootstrap_at(protocol).split(","), strict=True)
    }
    fixed = re.compile(r"\b(" + "|".join(ports) + r")\b")
    for path, text in texts.items():
        path.write_text(fixed.sub(lambda found: ports[found[1]], text))


def outcomes(run: str, told: Mapping[str, list[dict[str, Any]]]) -> Iterator[Result]:
    """The results of what jest has told."""
    statuses = {"passed": PASSED, "failed": FAILED}
    for file in told["testResults"]:
        for test in file["assertionResults"]:
            title = test["fullName"]
            outcome = statuses.get(test["status"], SKIPPED)
            detail = "\n".join(test["failureMessages"])[:600]
            if outcome == FAILED and title in OUTDATED:
                outcome, detail = KNOWN, OUTDATED[title]
            yield Result(run, title, outcome, detail)
