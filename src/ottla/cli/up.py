"""`ottla up`: runs ZooKeeper and a broker that registers in it, until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.connection_options import add_schemas_option, named_values
from ottla.cli.output import FORMATS, TABLE, Cell, OutputRows, Parser, print_line, print_rows, run_command
from ottla.cli.stop_signals import StopSignals
from ottla.model.errors import ConfigError
from ottla.security.client_login import properties_text, spark_text
from ottla.security.private_files import write_private

if TYPE_CHECKING:
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.broker.security.local_security import BrokerSecurity
    from ottla.zookeeper.server import ZooKeeperServer

PORT, ZOOKEEPER_PORT, CONSOLE_PORT = 9092, 2181, 9080


def parser() -> Parser:
    """`up` and its options."""
    parser = Parser(
        prog="ottla up",
        description="Run ZooKeeper and a Kafka broker on 127.0.0.1: a cluster for development.",
    )
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"the broker's port; 0 takes a free one ({PORT})"
    )
    parser.add_argument(
        "--zookeeper-port",
        type=int,
        default=ZOOKEEPER_PORT,
        help=f"ZooKeeper's port; 0 takes a free one ({ZOOKEEPER_PORT})",
    )
    parser.add_argument("--data-dir", required=True, help="directory of all data; created if it is missing")
    parser.add_argument(
        "--brokers", type=int, default=1, help="brokers over the same data, on ports in a row"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a property of the broker, by Kafka's name",
    )
    parser.add_argument(
        "--console",
        type=int,
        nargs="?",
        const=CONSOLE_PORT,
        metavar="PORT",
        help=f"the console too ({CONSOLE_PORT})",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS and logins: makes certificates and users, and prints what clients need",
    )
    parser.add_argument(
        "--user",
        action="append",
        metavar="NAME",
        help="with --secure: a user; the first may do everything (admin, client)",
    )
    parser.add_argument(
        "--acl",
        action="append",
        metavar="'USER OPERATION,... RESOURCE NAME'",
        help="with --secure: what a user may do, as 'client READ topic orders-*' (without: everything)",
    )
    add_schemas_option(parser)
    parser.add_argument("--without-zookeeper", action="store_true", help="only the broker; needs no Java")
    parser.add_argument(
        "--format", choices=FORMATS, default=TABLE, help="table for people; json and tsv for programs"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; returns 0."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    os.environ.setdefault("OTTLA_KERNELS", "numpy")  # a broker decodes too little for more
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.zookeeper.server import ZooKeeperServer
    from ottla.zookeeper.zookeeper_errors import ServerFailed

    data_dir = Path(options.data_dir)
    properties = named_values("--set", options.set)
    security = _security(options, data_dir)
    with ExitStack() as opened:
        stopped = opened.enter_context(StopSignals())
        zookeeper: ZooKeeperServer | None = None
        rows: list[tuple[Cell, ...]] = []
        if not options.without_zookeeper:
            try:
                zookeeper = opened.enter_context(
                    ZooKeeperServer(data_dir / "zookeeper", port=options.zookeeper_port)
                )
            except ServerFailed as error:
                raise ServerFailed(f"{error}; or leave ZooKeeper out: --without-zookeeper") from error
            properties["zookeeper.connect"] = zookeeper.connect
            rows.append(("zookeeper", zookeeper.connect))
        broker = opened.enter_context(
            EmbeddedBroker(
                port=options.port,
                data_dir=data_dir / "kafka",
                brokers=options.brokers,
                properties=properties,
                security=security or False,
            )
        )
        rows += [("broker", broker.bootstrap)] if security is None else _secured_rows(broker, data_dir)
        if options.console is not None:
            rows.append(("console", _console(opened, options, broker, zookeeper)))
        _print_addresses(rows, options.format)
        if security is not None and options.format == TABLE:
            _print_settings(broker)
        while not stopped.wait():
            if zookeeper is not None and not zookeeper.running:
                raise ServerFailed(f"ZooKeeper ended by itself; its log is {zookeeper.log_path}")


def _security(options: argparse.Namespace, data_dir: Path) -> BrokerSecurity | None:
    """What --secure, --user and --acl ask for. Raises ConfigError."""
    from ottla.broker.security.local_security import BrokerSecurity

    if not options.secure:
        if options.user or options.acl:
            raise ConfigError("--user and --acl need --secure")
        return None
    users = {} if options.user is None else {"users": options.user}
    return BrokerSecurity(acls=options.acl, directory=data_dir / "security", **users)


def _secured_rows(broker: EmbeddedBroker, data_dir: Path) -> list[tuple[Cell, ...]]:
    """The listeners, and files with the settings of a client, which only their owner may read."""
    rows: list[tuple[Cell, ...]] = [(name, broker.bootstrap_at(name)) for name in broker.listeners]
    for form in ("java", "librdkafka"):
        path = data_dir / "security" / f"{form}.properties"
        write_private(path, properties_text(broker.client_settings(form=form)))
        rows.append((f"settings for {form}", str(path)))
    return rows


def _print_settings(broker: EmbeddedBroker) -> None:
    """Print what clients need, to be pasted."""
    print_line(f"\n# Java\n{properties_text(broker.client_settings(form='java'))}")
    print_line(f"# librdkafka\n{properties_text(broker.client_settings(form='librdkafka'))}")
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in broker.client_settings().items())
    print_line(f"# Python: ottla and confluent-kafka\nsettings = {{\n{lines}}}\n")
    print_line(f"# Spark\n{spark_text(broker.client_settings(form='spark'))}")


def _console(
    opened: ExitStack, options: argparse.Namespace, broker: EmbeddedBroker, zookeeper: ZooKeeperServer | None
) -> str:
    """Start the console; returns its address."""
    from ottla.console.server import ConsoleServer

    properties = broker.client_settings(options.user[0] if options.user else "admin")
    if zookeeper is not None:
        properties["zookeeper.connect"] = zookeeper.connect
    history = Path(options.data_dir) / "console-history.json"
    console = opened.enter_context(
        ConsoleServer(properties, port=options.console, history=history, schemas=options.schemas)
    )
    console.start()
    return console.url


def _print_addresses(rows: list[tuple[Cell, ...]], form: str) -> None:
    """Print the addresses once everything answers."""
    if form == TABLE:
        for name, address in rows:
            print_line(f"{name} {address}")
    else:
        print_rows(OutputRows(("server", "address"), rows), form)
