"""`ottla console`: topics, messages and groups in a browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.connection_options import add_schemas_option, properties_of
from ottla.cli.output import Parser, new_parser, print_line, run_command
from ottla.cli.stop_signals import StopSignals

HOST, PORT = "127.0.0.1", 9080


def parser() -> Parser:
    """`console` and its options."""
    parser = new_parser("console", "Show a cluster in a browser, until it is interrupted.")
    parser.add_argument("--host", default=HOST, help=f"address to listen on ({HOST}); others want a token")
    parser.add_argument("--port", type=int, default=PORT, help=f"port; 0 takes a free one ({PORT})")
    parser.add_argument("--token", help="what to log in with; by default $OTTLA_CONSOLE_TOKEN, or a new one")
    parser.add_argument("--read-only", action="store_true", help="pages only: nothing can be changed")
    parser.add_argument("--history", metavar="FILE", help="keep lag and throughput in this small file")
    add_schemas_option(parser)
    parser.add_argument(
        "--pipeline",
        action="append",
        default=[],
        metavar="FILE",
        help="show a pipeline: its TOML, or checkpoint",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; returns 0."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    from ottla.console.server import ConsoleServer

    with (
        StopSignals() as stopped,
        ConsoleServer(
            properties_of(options),
            host=options.host,
            port=options.port,
            token=options.token or os.environ.get("OTTLA_CONSOLE_TOKEN") or None,
            is_read_only=options.read_only,
            history=Path(options.history) if options.history else None,
            pipelines=options.pipeline,
            schemas=options.schemas,
        ) as console,
    ):
        console.start()
        print_line(f"console {console.url}")
        if console.token is not None:
            print_line(f"token {console.token}")
        while not stopped.wait():
            pass
