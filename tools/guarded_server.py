"""A server of someone else for tests: it listens on a free port of 127.0.0.1 and ends with this process.

What cannot be fetched or started raises Unavailable with the reason.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.model.closing import Closing
from ottla.zookeeper import process_guard
from tools.peer_cache import Unavailable

_STOP_S = 5.0


def free_address() -> str:
    """An address that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class GuardedServer(Closing):
    """A process that serves an address when the constructor returns."""

    def __init__(
        self,
        command: Sequence[str],
        address: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        start_s: float = 30.0,
    ) -> None:
        self._log = log
        with log.open("ab") as out:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", process_guard.__file__, str(_STOP_S), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        self._wait_until_it_listens(address, start_s)

    def _wait_until_it_listens(self, address: str, start_s: float) -> None:
        host, port = address.split(":")
        deadline = time.monotonic() + start_s
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                if self._guard.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    said = self._log.read_text(errors="replace")[-500:]
                    raise Unavailable(f"{self._log.stem} did not start: {said}") from None
                time.sleep(0.02)
            else:
                return

    def close(self) -> None:
        """Stop the server."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(_STOP_S + 5)
