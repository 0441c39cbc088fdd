"""kafka-python's own integration tests, against our broker.

They are in its source distribution, without the module that starts servers: their broker is an outside one.
Tests of TLS and SASL start servers of their own, and are left out; tests/security has those.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla import EmbeddedBroker
from tests.foreign.results import Result, of_pytest
from tools.peer_cache import source_distribution

PACKAGE = "kafka-python==3.0.12"
KAFKA_VERSION = "4.3.0"
FILES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
SETTINGS = {
    "num.partitions": "4",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    "group.min.session.timeout.ms": "3000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
SERVICE = '''"""Servers that these tests would start; theirs is an outside one."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        pass

    stop = start = dump_logs


SpawnedService = ExternalService
'''
OUTDATED: dict[str, str] = {}
RUN_S = 1_800


def results(place: Path) -> Iterator[Result]:
    """Run all that an outside broker can be used for. Raises Unavailable where the package cannot be had."""
    sources = source_distribution(PACKAGE)
    test = place / "kafka-python" / "test"
    shutil.copytree(sources / "test", test)
    (test / "__init__.py").touch()
    (test / "service.py").write_text(SERVICE)
    report = place / "kafka-python.xml"
    with EmbeddedBroker(properties=SETTINGS) as broker:
        environment = {
            **os.environ,
            "KAFKA_URI": f"kafka://{broker.bootstrap}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_ROOT": str(place),  # a directory: nothing is started from it
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["--timeout=120", *(f"test/integration/{name}" for name in FILES)]
        with (place / "kafka-python.log").open("wb") as log:
            subprocess.run(command, cwd=test.parent, env=environment, stdout=log, stderr=log, timeout=RUN_S)
    yield from of_pytest("kafka-python", report.read_text(), OUTDATED)
