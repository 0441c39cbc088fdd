"""kafka-mirror-maker: copies topics of one cluster into another, with the flags of Kafka 0.8.2 to 3.x.

A message handler or rebalance listener is given as MODULE:NAME of a function or class. A class is
instantiated with the text of --message.handler.args or --rebalance.listener.args, if given.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ottla.cli.kafka.flags import Flag, Options, Value, WrongFlags, number, switch
from ottla.cli.kafka.jopt_help import Row, help_text
from ottla.cli.kafka.settings import file_properties, profile_properties
from ottla.cli.kafka.tool import Tool, ToolRefused, run_tool, show
from ottla.model.errors import ConfigError

ABOUT = "Continuously copy data between two Kafka clusters."
SHOWN = (
    Row("consumer.config", "config file", "Embedded consumer config for consuming from the source cluster."),
    Row("producer.config", "config file", "Embedded producer config."),
    Row("num.streams", "Integer: Number of threads", "Number of consumption streams.", "1"),
    Row("whitelist", "Java regex (String)", "Whitelist of topics to mirror."),
    Row(
        "blacklist",
        "Java regex (String)",
        "Blacklist of topics to mirror. Only old consumer supports blacklist.",
    ),
    Row(
        "offset.commit.interval.ms",
        "Integer: offset commit interval in millisecond",
        "Offset commit interval in ms",
        "60000",
    ),
    Row(
        "consumer.rebalance.listener",
        "A custom rebalance listener of type ConsumerRebalanceListener",
        "The consumer rebalance listener to use for mirror maker consumer.",
    ),
    Row(
        "rebalance.listener.args",
        "Arguments passed to custom rebalance listener constructor as a string.",
        "Arguments used by custom rebalance listener for mirror maker consumer",
    ),
    Row(
        "message.handler",
        "A custom message handler of type MirrorMakerMessageHandler",
        "Message handler which will process every record in-between consumer and producer.",
    ),
    Row(
        "message.handler.args",
        "Arguments passed to message handler constructor.",
        "Arguments used by custom rebalance listener for mirror maker consumer",
    ),
    Row(
        "abort.on.send.failure",
        "Stop the entire mirror maker when a send failure occurs",
        "Configure the mirror maker to exit on a failed send.",
        "true",
    ),
    Row("new.consumer", "", "Use new consumer in mirror maker."),
    Row("help", "", "Print this message."),
)
"""What Kafka 0.9 shows."""
FLAGS = (
    *(
        Flag(row.name, row.doc, Value.NEEDED if row.value else Value.NONE, row.value.startswith("Integer"))
        for row in SHOWN
    ),
    Flag("include", "--whitelist, under its new name."),
    number("num.producers", "Without meaning: there is one producer."),
    number("queue.size", "Without meaning: buffer.memory of the producer limits what waits."),
    switch("new.producer", "Without meaning: there is one kind of producer."),
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(arguments: Sequence[str]) -> int:
    """Mirror until SIGINT or SIGTERM."""
    if not arguments:
        show(f"{ABOUT}\n{help_text(SHOWN)}", is_error=True)
        raise SystemExit(1)
    if {"--help", "-help"} & set(arguments):
        show(help_text(SHOWN))
        raise SystemExit(0)
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    from ottla.cli.kafka.producer_file import is_sync, understood
    from ottla.consumer.classic import Blacklist, Whitelist
    from ottla.mirror import Mirror, MirrorPlacement, same_partition

    for name in ("consumer.config", "producer.config"):
        if not options.has(name):
            raise ToolRefused(f'Missing required argument "[{name}]"\n{help_text(SHOWN)}')
    lists = options.any_of("whitelist", "include", "blacklist")
    if len(lists) != 1:
        show("Exactly one of whitelist or blacklist is required.")
        return 1
    logging.basicConfig(stream=sys.stderr, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    consumer = _consumer(options)
    producer = file_properties(options.value("producer.config"))
    if lists == ["blacklist"] and "zookeeper.connect" not in consumer:
        raise ToolRefused(
            "blacklist can not be used when using new consumer in mirror maker. Use whitelist instead."
        )
    handler = _made(options, "message.handler", "message.handler.args", "handle")
    is_same = handler is same_partition
    mirror = Mirror(
        consumer,
        {**profile_properties(), **understood(producer)},
        (Blacklist if lists == ["blacklist"] else Whitelist)(options.text(lists[0])),
        streams=options.whole("num.streams", 1),
        placement=MirrorPlacement.SAME if is_same else MirrorPlacement.BY_KEY,
        handler=None if is_same else handler,
        listener=_made(options, "consumer.rebalance.listener", "rebalance.listener.args"),
        offset_commit_interval=options.whole("offset.commit.interval.ms", 60_000) / 1000,
        aborts_on_failure=_is_true(options, "abort.on.send.failure"),
        follows_topics=False,
        waits_for_each=is_sync(producer),
    )
    with stopped_by_signals(mirror.stop):
        mirror.run()
    return 0


def _consumer(options: Options) -> dict[str, str]:
    given = {**profile_properties(), **file_properties(options.value("consumer.config"))}
    given.setdefault("auto.offset.reset", "largest")
    if options.has("new.consumer"):
        given.pop("zookeeper.connect", None)
    return given


def _is_true(options: Options, name: str) -> bool:
    text = options.text(name, "true").lower()
    if text not in ("true", "false"):
        raise WrongFlags(f"Cannot parse argument '{text}' of option {name}")
    return text == "true"


def _made(options: Options, name: str, arguments: str, method: str = "") -> Any:
    """Return the object that a flag names; None without the flag."""
    if not options.has(name):
        return None
    handler = named(options.text(name))
    if options.has(arguments):
        handler = handler(options.text(arguments))
    elif isinstance(handler, type):
        handler = handler()
    return getattr(handler, method, handler) if method else handler


def named(text: str) -> Any:
    """Import MODULE:NAME. Raises ConfigError."""
    module, separator, attribute = text.partition(":")
    if not separator:
        raise ConfigError(f"{text!r} is no MODULE:NAME of Python; Java classes cannot be loaded here")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{text!r} cannot be loaded: {error}") from error


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGINT and SIGTERM inside the block; a second signal ends the process at once."""

    def stopped(*_: object) -> None:
        for which in _SIGNALS:
            signal.signal(which, signal.SIG_DFL)
        stop()

    before = {which: signal.signal(which, stopped) for which in _SIGNALS}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


TOOL = Tool("kafka-mirror-maker", ABOUT, FLAGS, _act)
