"""The process that Spark starts instead of Python; the fork server runs the real one: `fork_client.py SOCKET
-m module argument…`

It gives the server its arguments, environment, directory and standard streams, waits for the end of the
process and ends with the same code. A SIGTERM is passed on. Without a server it becomes that process itself.

Spark waits for its start, so it runs without `site` and imports little.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import NoReturn

_STANDARD_STREAMS = (0, 1, 2)
_ZIP = "/pyspark.zip"


def main(path: str, arguments: list[str]) -> NoReturn:
    """Have the server run the process, or run it here."""
    # Spark puts pyspark.zip in front, which would be imported without compiled bytecode: a second for each
    # new process. The installed package is the same code.
    python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in python_path if not entry.endswith(_ZIP))
    with socket.socket(socket.AF_UNIX) as server:
        process = _started(server, path, arguments)
        if process:
            signal.signal(signal.SIGTERM, lambda number, _: os.kill(process, number))
            code = server.recv(1)
            sys.exit(code[0] if code else 1)
    os.execv(sys.executable, [sys.executable, *arguments])


def _started(server: socket.socket, path: str, arguments: list[str]) -> int:
    """Return the id of the process; 0 if there is no server."""
    request = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
    try:
        server.connect(path)
        socket.send_fds(server, [b"\0"], _STANDARD_STREAMS)
        server.sendall(json.dumps(request).encode())
        server.shutdown(socket.SHUT_WR)
        return int.from_bytes(server.recv(8), "big")
    except OSError:
        return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
