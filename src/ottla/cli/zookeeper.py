"""`ottla zookeeper start`: runs a real ZooKeeper server until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.stop_signals import StopSignals
from ottla.zookeeper.zookeeper_errors import ServerFailed

PORT = 2181


def parser() -> argparse.ArgumentParser:
    """`zookeeper start` and its options."""
    parser = argparse.ArgumentParser(prog="ottla zookeeper", description="Run a ZooKeeper server.")
    commands = parser.add_subparsers(required=True, metavar="command")
    start = commands.add_parser(
        "start",
        help="start a server and serve until it is interrupted",
        description="Start Apache ZooKeeper on 127.0.0.1, from the jars that PySpark ships. It needs Java.",
    )
    start.add_argument("--port", type=int, default=PORT, help=f"port; 0 takes a free one (default {PORT})")
    start.add_argument("--data-dir", required=True, help="directory of the database and its log")
    start.add_argument("--jars", metavar="DIR", help="ZooKeeper's jars (default: PySpark's)")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; returns 0."""
    options = parser().parse_args(arguments)
    from ottla.zookeeper.server import ZooKeeperServer

    jars_dir = Path(options.jars) if options.jars else None
    # The signals first: one that comes during the start ends the server right after it.
    with (
        StopSignals() as stopped,
        ZooKeeperServer(Path(options.data_dir), port=options.port, jars_dir=jars_dir) as server,
    ):
        print(f"listening on {server.connect}", flush=True)  # noqa: T201
        while server.running:
            if stopped.wait():
                return 0
    raise ServerFailed(f"ZooKeeper ended by itself; its log is {server.log_path}")
