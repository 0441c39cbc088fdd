"""Where Java and ZooKeeper's jars are found on this machine, and what to say when they are not."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from ottla.zookeeper.errors import ServerFailed

JAVA_MAJOR_MIN = 17
"""The oldest Java that the Spark 4 jars were built for."""

JARS_VARIABLE = "OTTLA_SPARK_JARS"
_VERSION_TIMEOUT_S = 30


def java_command() -> str:
    """Path of a Java that is new enough: JAVA_HOME's, else the one on PATH; ServerFailed."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which("java")
    remedy = f"install Java {JAVA_MAJOR_MIN} or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
    if found is None:
        raise ServerFailed(f"ZooKeeper runs on Java and there is none here: {remedy}")
    major = _major_version(found)
    if major < JAVA_MAJOR_MIN:
        raise ServerFailed(f"{found} is Java {major or 'of an unknown version'}: {remedy}")
    return found


def _major_version(java: str) -> int:
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?([0-9]+)', told.stderr + told.stdout)
    return int(match[1]) if match else 0


def zookeeper_jars(jars_dir: Path | None = None) -> Path:
    """The directory with ZooKeeper's jars: given, OTTLA_SPARK_JARS, or that of PySpark; ServerFailed."""
    named = jars_dir or (Path(os.environ[JARS_VARIABLE]) if os.environ.get(JARS_VARIABLE) else None)
    found = named or _pyspark_jars()
    if found is None:
        raise ServerFailed(
            "ZooKeeper's jars come with PySpark, which is not installed: pip install pyspark "
            f"(or name a directory of jars in {JARS_VARIABLE})"
        )
    if not any(found.glob("zookeeper-[0-9]*.jar")):
        raise ServerFailed(f"{found} holds no zookeeper-*.jar: name the jars directory of a Spark 3 or 4")
    return found


def _pyspark_jars() -> Path | None:
    # The package is looked up, not imported: importing PySpark takes a second and is not needed.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "jars"
