"""aiokafka's own tests, against our broker. They are not in its package: a checkout is needed.

Its tests start Kafka by Docker; `stand_in_docker` takes its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.client.certificates import make_certificates
from tests.foreign import stand_in_docker
from tests.foreign.results import Result, of_pytest

IMAGE = "aiolibs/kafka:2.13_2.8.1"
NEEDS_A_BROKER = "KafkaIntegrationTestCase"
"""A class in the files of tests that use one."""
KERBEROS = "it logs in to the Kerberos server of its container; tests/security has one of its own"
OUTDATED = {
    "test_admin_client_sasl_plaintext_gssapi": KERBEROS,
    "test_sasl_plaintext_gssapi": KERBEROS,
}
RUN_S = 3_600


def results(place: Path, checkout: Path) -> Iterator[Result]:
    """Run all of them with the installed aiokafka."""
    copy = place / "aiokafka-tests"
    for name in ("tests", "docker/scripts"):
        shutil.copytree(checkout / name, copy / name)
    shutil.copy(stand_in_docker.__file__, copy / "docker.py")
    certificates = copy / "tests" / "ssl_cert"
    certificates.mkdir()
    shutil.copy(make_certificates(certificates).authority, certificates / "ca.crt")
    report = place / "aiokafka.xml"
    root = Path(__file__).parents[2]
    files = sorted((copy / "tests").glob("test_*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:ottla"]
    command += ["-o", "asyncio_mode=auto", "--timeout=180", f"--junitxml={report}"]
    command += ["--docker-image", IMAGE, "--no-pull"]
    command += [str(path.relative_to(copy)) for path in files if NEEDS_A_BROKER in path.read_text()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(root)])}
    with (place / "aiokafka.log").open("wb") as log:
        subprocess.run(command, cwd=copy, env=environment, stdout=log, stderr=log, timeout=RUN_S)
    yield from of_pytest("aiokafka", report.read_text(), OUTDATED)
