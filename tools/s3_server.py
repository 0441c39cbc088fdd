"""A real S3-compatible server for tests: versitygw, built by Go, over a directory.

    with S3Server(directory) as server:
        server.environment        AWS_… variables for whoever is to use it; the bucket BUCKET is there

What cannot be fetched or started raises Unavailable with the reason. It listens on a free port of 127.0.0.1
and ends with this process, however that ends.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from ottla.model.closing import Closing
from ottla.zookeeper import process_guard
from tools.peer_cache import VERSITYGW, Unavailable, go_installed

BUCKET = "tables"
_KEY, _SECRET = "ottla", "ottla-secret"
_START_S, _STOP_S = 30.0, 5.0


class S3Server(Closing):
    """A running server. Its buckets are directories below `directory`."""

    def __init__(self, directory: Path) -> None:
        buckets, metadata = directory / "buckets", directory / "metadata"
        (buckets / BUCKET).mkdir(parents=True, exist_ok=True)
        metadata.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_REGION": "us-east-1",
        }
        command = [str(go_installed(VERSITYGW)), "--access", _KEY, "--secret", _SECRET, "--port", address]
        command += ["--quiet", "posix", "--sidecar", str(metadata), str(buckets)]
        self._log = directory / "server.log"
        with self._log.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", process_guard.__file__, str(_STOP_S), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_listens(address)

    def _wait_until_it_listens(self, address: str) -> None:
        host, port = address.split(":")
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                if self._guard.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    said = self._log.read_text(errors="replace")[-500:]
                    raise Unavailable(f"the S3 server did not start: {said}") from None
                time.sleep(0.02)
            else:
                return

    def close(self) -> None:
        """Stop the server."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(_STOP_S + 5)
