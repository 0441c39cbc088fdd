"""Forks the Python processes that Spark starts on one machine; their imports are done once.

For the first query of a session Spark starts four processes: to look for data sources, to ask for a schema,
to plan, and the daemon of the tasks. Each would import PySpark, PyArrow and this package, one after the
other. This server imports them while Java starts. `session` starts it, and gives Spark a script for Python
that calls `fork_client`.

The server ends when its standard input does, thus with the process of the session. Its children live on until
Spark ends them: they have the standard streams of their clients.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

BACKLOG = 64


def start(path: Path) -> None:
    """Start a server at this socket, for as long as this process lives."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))  # the socket exists, so clients wait while the server imports
    listener.listen(BACKLOG)
    # What Spark sets for workers has to be set before the imports.
    workers = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "ottla.spark.fork_server", str(listener.fileno())],
        stdin=subprocess.PIPE,
        env={**workers, **os.environ},
        pass_fds=[listener.fileno()],
        start_new_session=True,  # Ctrl-C is for the session
    )
    listener.close()
    assert server.stdin is not None
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # before


def serve(listener: socket.socket) -> None:
    """Fork a process for each client, until the input ends."""
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        client, _ = listener.accept()
        with client, suppress(OSError, ValueError):  # a client that has gone
            _, streams, _, _ = socket.recv_fds(client, 1, 3)
            try:
                with client.makefile("rb") as file:
                    request = json.load(file)
                if os.fork() == 0:
                    listener.close()
                    _run(client, streams, request)
            finally:
                for stream in streams:
                    os.close(stream)


def _run(client: socket.socket, streams: list[int], request: dict[str, Any]) -> NoReturn:
    """Become the process of the client."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The client waits for this process, and Spark for the client.
        os.register_at_fork(after_in_child=client.close)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        python_path = os.environ["PYTHONPATH"].split(os.pathsep)
        sys.path[1:1] = [entry for entry in python_path if entry and entry not in sys.path]
        client.sendall(os.getpid().to_bytes(8, "big"))
        option, module, *arguments = request["arguments"]
        assert option == "-m"
        sys.argv = [module, *arguments]
        with suppress(OSError):  # the name in lists of processes, on Linux
            Path("/proc/self/comm").write_text(sys.argv[-1].removeprefix("pyspark.sql.worker."))
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            client.sendall(bytes([code & 0xFF]))
        os._exit(code & 0xFF)


def main(listener_number: int) -> None:
    """Import, then serve."""
    from ottla.spark.daemon import preload

    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children need not be waited for
    serve(socket.socket(fileno=listener_number))


if __name__ == "__main__":
    main(int(sys.argv[1]))
