"""Finds Java and ZooKeeper's jars on this machine; the errors name the remedy."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from ottla.zookeeper.zookeeper_errors import ServerFailed

JAVA_MAJOR_MIN = 17
"""The oldest Java that the Spark 4 jars were built for."""

JAVA_REMEDY = f"install Java {JAVA_MAJOR_MIN} or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME"

JARS_VARIABLE = "OTTLA_SPARK_JARS"
_VERSION_TIMEOUT_S = 30
_SERVER_JARS = (
    *("zookeeper", "zookeeper-jute", "metrics-core", "snappy-java", "commons-io"),
    *("slf4j-api", "logback-classic", "logback-core", "log4j-api", "log4j-core", "log4j-slf4j*-impl"),
    *("netty-buffer", "netty-codec", "netty-codec-base", "netty-common", "netty-handler", "netty-resolver"),
    *("netty-transport", "netty-transport-classes-epoll", "netty-transport-native-unix-common"),
    *("netty-transport-native-epoll", "netty-tcnative-classes"),
)
"""The jars that a server loads, of Spark 3 and 4 or of ZooKeeper itself."""


def find_java() -> str | None:
    """Return the path of Java, of JAVA_HOME or PATH; it may be too old. None if there is none."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    return str(candidate) if candidate and candidate.exists() else shutil.which("java")


def java_command() -> str:
    """Return the path of a Java that is new enough, of JAVA_HOME or PATH. Raises ServerFailed."""
    java = find_java()
    if java is None:
        raise ServerFailed(f"ZooKeeper runs on Java and there is none here: {JAVA_REMEDY}")
    major = _major_version(java)
    if major < JAVA_MAJOR_MIN:
        raise ServerFailed(f"{java} is Java {major or 'of an unknown version'}: {JAVA_REMEDY}")
    return java


def _major_version(java: str) -> int:
    try:
        version = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?([0-9]+)', version.stderr + version.stdout)
    return int(match[1]) if match else 0


def zookeeper_jars(jars_dir: Path | None = None) -> Path:
    """Return the directory of ZooKeeper's jars: `jars_dir`, OTTLA_SPARK_JARS, or PySpark's. Raises
    ServerFailed."""
    named = jars_dir or (Path(os.environ[JARS_VARIABLE]) if os.environ.get(JARS_VARIABLE) else None)
    jars = named or _pyspark_jars()
    if jars is None:
        raise ServerFailed(
            "ZooKeeper's jars come with PySpark, which is not installed: pip install 'ottla[spark]' "
            f"(or name a directory of jars in {JARS_VARIABLE})"
        )
    if not any(jars.glob("zookeeper-[0-9]*.jar")):
        raise ServerFailed(f"{jars} holds no zookeeper-*.jar: name the jars directory of a Spark 3 or 4")
    return jars


def class_path(jars: Path) -> str:
    """Return Java's class path of a ZooKeeper server.

    Spark's directory has 250 jars. Opening all of them takes longer than the rest of the start.
    """
    needed = sorted(path for name in _SERVER_JARS for path in jars.glob(f"{name}-[0-9]*.jar"))
    return os.pathsep.join(map(str, needed))


def _pyspark_jars() -> Path | None:
    # The package is looked up, not imported: importing PySpark takes a second and is not needed.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "jars"
