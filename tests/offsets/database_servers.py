"""Databases for the ledger by address: sqlite:PATH, duckdb:PATH, postgresql:DSN; and a PostgreSQL server."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KINDS = ("sqlite", "duckdb", "postgresql")
START_S = 60.0


class NotHere(Exception):
    """This machine has no such database."""


def connect(address: str) -> Any:
    kind, _, place = address.partition(":")
    if kind == "sqlite":
        return sqlite3.connect(place, timeout=60)
    return importlib.import_module({"duckdb": "duckdb", "postgresql": "psycopg"}[kind]).connect(place)


@contextmanager
def database(kind: str, directory: Path) -> Iterator[str]:
    """The address of an empty one. Raises NotHere with the reason."""
    if kind == "postgresql":
        with postgresql(directory) as dsn:
            yield f"postgresql:{dsn}"
        return
    if kind == "duckdb" and importlib.util.find_spec("duckdb") is None:
        raise NotHere("the module duckdb is not installed")
    yield f"{kind}:{directory / 'results.db'}"


@contextmanager
def postgresql(directory: Path) -> Iterator[str]:
    programs = {name: shutil.which(name) for name in ("initdb", "postgres")}
    if importlib.util.find_spec("psycopg") is None:
        raise NotHere("the module psycopg is not installed")
    if not all(programs.values()):
        raise NotHere(
            f"no {' or '.join(name for name, path in programs.items() if path is None)} on the path"
        )
    data = directory / "postgresql"
    data.mkdir()
    user = None
    if os.geteuid() == 0:  # it refuses to run as root, and pytest's directories are closed to others
        user = "nobody"
        shutil.chown(data, user)
        for parent in (directory, *directory.parents[:3]):  # with pytest-xdist they are one deeper
            parent.chmod(parent.stat().st_mode | 0o011)
    initial = ["-A", "trust", "-U", "ottla", "--no-sync", "--locale=C", "-E", "UTF8", "-D", str(data)]
    made = subprocess.run(
        [str(programs["initdb"]), *initial],
        capture_output=True,
        text=True,
        user=user,
        cwd="/",
        check=False,
    )
    if made.returncode:
        raise NotHere(f"initdb failed: {made.stderr}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", "", "-D", str(data)]
    with open(data / "server.log", "wb") as log:
        server = subprocess.Popen(
            [str(programs["postgres"]), *options], stdout=log, stderr=log, user=user, cwd="/"
        )
    dsn = f"host=127.0.0.1 port={port} user=ottla dbname=postgres"
    try:
        await_server(server, dsn, data / "server.log")
        yield dsn
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def await_server(server: subprocess.Popen[bytes], dsn: str, log: Path) -> None:
    psycopg = importlib.import_module("psycopg")
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise NotHere(f"postgres did not start: {error}\n{log.read_text()}") from error
            time.sleep(0.05)
        else:
            return
