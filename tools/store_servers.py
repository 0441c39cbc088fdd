"""Servers of tables for tests, on free ports of 127.0.0.1: object stores, HDFS, and a catalog of Iceberg.

    with S3Server(directory) as server:
        server.environment        variables for whoever is to use it; the bucket BUCKET is there

What cannot be fetched or started raises Unavailable with the reason. A server ends with this process, however
that ends.
"""

from __future__ import annotations

import base64
import hmac
import os
import sys
import urllib.request
from email.utils import formatdate
from pathlib import Path

from tools import gcs_front
from tools.guarded_server import GuardedServer, free_address
from tools.peer_cache import (
    AZURITE,
    FAKE_GCS,
    HADOOP,
    ICEBERG_REST,
    VERSITYGW,
    go_installed,
    java_program,
    maven_libs,
    npm_package,
    program,
)

BUCKET = "tables"
_KEY, _SECRET = "ottla", "ottla-secret"
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_JAVA = Path(__file__).with_name("java")
_JAVA_START_S = 90.0


class S3Server(GuardedServer):
    """versitygw, built by Go: an S3-compatible server. Its buckets are directories below `directory`."""

    def __init__(self, directory: Path) -> None:
        buckets, metadata = directory / "buckets", directory / "metadata"
        (buckets / BUCKET).mkdir(parents=True, exist_ok=True)
        metadata.mkdir(exist_ok=True)
        address = free_address()
        self.environment = {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_REGION": "us-east-1",
        }
        command = [str(go_installed(VERSITYGW)), "--access", _KEY, "--secret", _SECRET, "--port", address]
        command += ["--quiet", "posix", "--sidecar", str(metadata), str(buckets)]
        super().__init__(command, address, directory / "versitygw.log")


class HdfsServer(GuardedServer):
    """A name node and a data node of Hadoop, in one process."""

    def __init__(self, directory: Path) -> None:
        address, ready = free_address(), free_address()
        libs = maven_libs(HADOOP)
        classes = java_program(_JAVA / "HdfsCluster.java", libs)
        self.url = f"hdfs://{address}"
        command = [
            *_java(classes, libs),
            "HdfsCluster",
            str(directory / "data"),
            _port(address),
            _port(ready),
        ]
        super().__init__(command, ready, directory / "hdfs.log", start_s=_JAVA_START_S)


def _java(classes: Path, libs: Path) -> list[str]:
    path = f"{classes}{os.pathsep}{libs}{os.sep}*"
    return [program("java"), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path]


def _port(address: str) -> str:
    return address.partition(":")[2]


class AzureServer(GuardedServer):
    """Azurite, of npm: Microsoft's own emulator of Azure's blobs. The container BUCKET is there."""

    def __init__(self, directory: Path) -> None:
        address = free_address()
        script = npm_package(AZURITE) / "node_modules/azurite/dist/src/blob/main.js"
        command = [program("node"), str(script), "--blobHost", "127.0.0.1", "--blobPort", _port(address)]
        command += ["--location", str(directory), "--silent", "--skipApiVersionCheck"]
        self.environment = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://{address}",
        }
        super().__init__(command, address, directory / "azurite.log")
        self._create_container(address)

    @staticmethod
    def _create_container(address: str) -> None:
        """Put the container, signed with the key that every emulator has."""
        account = "devstoreaccount1"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
        resource = f"/{account}/{account}/{BUCKET}\nrestype:container"
        digest = hmac.digest(base64.b64decode(_AZURE_KEY), "\n".join([*lines, resource]).encode(), "sha256")
        headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
        url = f"http://{address}/{account}/{BUCKET}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers={**headers, "Content-Length": "0"})
        urllib.request.urlopen(request, timeout=10).close()


class GcsServer(GuardedServer):
    """fake-gcs-server, built by Go, with the interface of XML in front. The bucket BUCKET is there."""

    def __init__(self, directory: Path) -> None:
        server, address = free_address(), free_address()
        (directory / "data" / BUCKET).mkdir(parents=True)
        command = [
            str(go_installed(FAKE_GCS)),
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            _port(server),
        ]
        command += [
            "-backend",
            "memory",
            "-data",
            str(directory / "data"),
            "-external-url",
            f"http://{address}",
        ]
        self.environment = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        log = directory / "fake-gcs-server.log"
        self._objects = GuardedServer([*command, "-log-level", "error"], server, log)
        front = [sys.executable, "-I", gcs_front.__file__, _port(address), server]
        super().__init__(front, address, directory / "gcs-front.log")

    def close(self) -> None:
        """Stop both."""
        super().close()
        self._objects.close()


class IcebergCatalogServer(GuardedServer):
    """A server of Iceberg's REST protocol, by Iceberg's own classes; tables are below `directory`."""

    def __init__(self, directory: Path) -> None:
        address = free_address()
        libs = maven_libs(ICEBERG_REST)
        classes = java_program(_JAVA / "IcebergCatalog.java", libs)
        self.url = f"http://{address}"
        command = [*_java(classes, libs), "IcebergCatalog", f"file://{directory}/warehouse", _port(address)]
        super().__init__(command, address, directory / "iceberg.log", start_s=_JAVA_START_S)
