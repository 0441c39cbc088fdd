"""`ottla broker start`: a Kafka broker in the foreground, until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import named_values
from ottla.cli.output import log_to_stderr
from ottla.model.errors import ConfigError

if TYPE_CHECKING:
    from ottla.broker.settings.broker_config import BrokerConfig

LOAD_AFTER_S = 1.0
"""When a broker that serves loads what nobody has asked for yet: later it might find other files there."""

YOUNG_OBJECTS = 10_000
"""Objects that wait for the garbage collector: requests that wait for their write are no garbage."""


def parser() -> argparse.ArgumentParser:
    """`broker start` and its options."""
    parser = argparse.ArgumentParser(prog="ottla broker", description="Run a Kafka broker.")
    commands = parser.add_subparsers(required=True, metavar="command")
    start = commands.add_parser(
        "start",
        help="start a broker and serve until it is interrupted",
        description="Start a Kafka broker on 127.0.0.1. It keeps one copy of the data: no replication.",
    )
    start.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    start.add_argument("--port", type=int, help="port to listen on; 0 takes a free one (default 9092)")
    start.add_argument("--data-dir", help="directory of the logs; created if it is missing")
    start.add_argument("--brokers", type=int, default=1, help="brokers over the same data, on ports in a row")
    start.add_argument("--metrics-port", type=int, help="serve Prometheus /metrics on this port")
    start.add_argument("--config", metavar="FILE", help="a server.properties file; options win over it")
    start.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a property, by Kafka's name"
    )
    start.add_argument("--verbose", action="store_true", help="log more")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM."""
    options = parser().parse_args(arguments)
    log_to_stderr(verbose=options.verbose)
    # A broker decodes too little for more. NumPy itself is loaded when it is needed, which is seldom.
    os.environ.setdefault("OTTLA_KERNELS", "numpy")
    gc.disable()  # what is loaded stays: to look for garbage in it takes as long as loading thousands of logs
    try:
        from ottla.broker.service import new_loop

        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_serve(config_from(options), options.brokers))
    finally:
        gc.enable()


def config_from(options: argparse.Namespace) -> BrokerConfig:
    """The broker's configuration: options win over --set, --set over the file, the file over the defaults."""
    from ottla.broker.settings.broker_config import LOCAL_DEFAULTS, BrokerConfig
    from ottla.broker.settings.listeners import bracketed
    from ottla.model.java_properties import read_properties

    properties = LOCAL_DEFAULTS | (read_properties(options.config) if options.config else {})
    properties |= named_values("--set", options.set)
    if options.data_dir:
        properties.pop("log.dirs", None)
        properties["log.dir"] = options.data_dir
    if not ({"log.dir", "log.dirs"} & properties.keys()):
        raise ConfigError("where shall the data be? Give --data-dir, or log.dirs in --config")
    if options.metrics_port is not None:
        properties["ottla.metrics.port"] = str(options.metrics_port)
    config = BrokerConfig.from_properties(properties)
    if options.port is None and options.host is None:
        return config
    host = options.host or config.host
    port = config.port if options.port is None else options.port
    properties["listeners"] = f"PLAINTEXT://{bracketed(host)}:{port}"
    return BrokerConfig.from_properties(properties)


async def _serve(config: BrokerConfig, broker_count: int) -> int:
    from ottla.broker.service import BrokerService

    def load_rest() -> None:
        service.cluster.runtime.slices.add(service.load_rest()).add_done_callback(lambda _: gc.freeze())

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    service = BrokerService(config, broker_count)
    await service.start()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()
    for name in config.ignored:
        print(f"ottla: {name} has no meaning for this broker and is ignored", file=sys.stderr)  # noqa: T201
    print(f"listening on {service.bootstrap}", flush=True)  # noqa: T201
    loading = loop.call_later(LOAD_AFTER_S, load_rest)
    await stopped.wait()
    loading.cancel()
    await service.stop()
    return 0
