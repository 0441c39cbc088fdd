"""`ottla COMMAND …`: one module for each command, imported when it is called.

A command's module has `run(arguments) -> exit code`. The tables below are all that `ottla --help` needs: it
imports no arrays, no sockets and no Spark.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.version import VERSION

FAILED = 1
MISUSED = 2


class Command(NamedTuple):
    """The module of a command, and its line in the help."""

    module: str
    summary: str


FOR_PEOPLE = {
    "up": Command("ottla.cli.up", "run ZooKeeper and a Kafka broker"),
    "acls": Command("ottla.cli.acls", "list, add and remove rules about who may do what"),
    "bench": Command("ottla.cli.bench", "measure how fast a cluster takes records, and gives them back"),
    "broker": Command("ottla.cli.broker", "run a Kafka broker"),
    "completion": Command("ottla.cli.completion", "print a script that completes commands in your shell"),
    "console": Command("ottla.cli.console", "show a cluster in a browser"),
    "consume": Command("ottla.cli.consume", "print records of a topic"),
    "doctor": Command("ottla.cli.doctor", "check what cannot be reached, and why"),
    "groups": Command("ottla.cli.groups", "list, describe and delete groups of every kind"),
    "land": Command("ottla.cli.land", "write topics into parquet, Delta or Iceberg, without Spark"),
    "lag": Command("ottla.cli.lag", "show how far groups are behind"),
    "log": Command("ottla.cli.log", "check and repair the data directory of a stopped broker"),
    "mirror": Command("ottla.cli.mirror", "copy topics into another cluster, and move groups there"),
    "offsets": Command("ottla.cli.offsets", "move groups between ZooKeeper and Kafka, or to a file and back"),
    "pipeline": Command("ottla.cli.pipeline", "write topics into tables and topics, on Spark"),
    "produce": Command("ottla.cli.produce", "send lines into a topic"),
    "reset": Command("ottla.cli.reset", "set the positions of a group"),
    "search": Command("ottla.cli.search", "print the records of a topic that are looked for"),
    "sql": Command("ottla.cli.sql", "run a SELECT over topics, groups and lag"),
    "topics": Command("ottla.cli.topics", "list, describe, create and delete topics"),
    "transactions": Command("ottla.cli.transactions", "list transactions; find and abort those that hang"),
    "zookeeper": Command("ottla.cli.zookeeper", "run a ZooKeeper server"),
}
KAFKAS_TOOLS = {
    "kafka-acls": Command("ottla.cli.kafka.acls", "who may do what"),
    "kafka-broker-api-versions": Command(
        "ottla.cli.kafka.broker_api_versions", "which calls brokers answer, in which versions"
    ),
    "kafka-configs": Command("ottla.cli.kafka.configs", "settings of topics, brokers, groups and clients"),
    "kafka-console-consumer": Command("ottla.cli.kafka.console_consumer", "records of a topic, a line each"),
    "kafka-console-producer": Command(
        "ottla.cli.kafka.console_producer", "lines into a topic, a record each"
    ),
    "kafka-consumer-groups": Command(
        "ottla.cli.kafka.consumer_groups", "list, describe, move, delete groups"
    ),
    "kafka-consumer-offset-checker": Command("ottla.cli.kafka.offset_checker", "the lag of a classic group"),
    "kafka-consumer-perf-test": Command(
        "ottla.cli.kafka.consumer_perf_test", "how many records a second a topic gives"
    ),
    "kafka-delete-records": Command("ottla.cli.kafka.delete_records", "delete what lies before an offset"),
    "kafka-dump-log": Command("ottla.cli.kafka.dump_log", "what is in the files of a partition"),
    "kafka-get-offsets": Command("ottla.cli.kafka.get_offsets", "where logs begin and end"),
    "kafka-groups": Command("ottla.cli.kafka.groups", "groups of all types"),
    "kafka-mirror-maker": Command("ottla.cli.kafka.mirror_maker", "copy topics into another cluster"),
    "kafka-producer-perf-test": Command(
        "ottla.cli.kafka.producer_perf_test", "how many records a second a topic takes"
    ),
    "kafka-run-class": Command("ottla.cli.kafka.run_class", "a tool by its Java class"),
    "kafka-share-groups": Command(
        "ottla.cli.kafka.share_groups", "list, describe, move, delete share groups"
    ),
    "kafka-topics": Command("ottla.cli.kafka.topics", "make, list, describe, grow and delete topics"),
    "kafka-transactions": Command("ottla.cli.kafka.transactions", "transactions, and those that hang"),
    "kafka-verifiable-consumer": Command(
        "ottla.cli.kafka.verifiable_consumer", "a member of a group, and what happens to it, as JSON"
    ),
    "kafka-verifiable-producer": Command(
        "ottla.cli.kafka.verifiable_producer", "numbers into a topic, and what becomes of them, as JSON"
    ),
    "zookeeper-shell": Command("ottla.cli.kafka.zookeeper_shell", "look at znodes, and change them"),
}
COMMANDS = FOR_PEOPLE | KAFKAS_TOOLS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    An expected error is printed as one line, not as a stack trace. SIGTERM closes everything, as Ctrl-C does.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _ended_by_sigterm():
            code = _run(words)
        sys.stdout.flush()
    except OttlaError as error:
        _say(f"ottla: {error}", is_error=True)
        return FAILED
    except BrokenPipeError:
        # The reader of our output has ended, as `head` does. Python's last flush must not fail because of
        # that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a full disk, a directory that may not be written
        _say(f"ottla: {error}", is_error=True)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


def main_as_tool() -> int:
    """Run the Kafka tool whose name this program was called by."""
    return main([Path(sys.argv[0]).name.removesuffix(".exe"), *sys.argv[1:]])


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Leave the block by SystemExit when SIGTERM comes: clients are closed, and temporary topics deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(words: list[str]) -> int:
    name = words[0] if words else ""
    if name in ("", "-h", "--help", "help"):
        _say(help_text(), is_error=not name)
        return 0 if name else MISUSED
    if name in ("-V", "--version"):
        _say(f"ottla {VERSION}")
        return 0
    command = COMMANDS.get(name.removesuffix(".sh"))
    if command is None:
        _say(f"ottla: there is no command {name!r}{_nearest(name)}; see ottla --help", is_error=True)
        return MISUSED
    if command in KAFKAS_TOOLS.values():
        _help_quickly(command, words[1:])
    code: int = import_module(command.module).run(words[1:])
    return code


def _help_quickly(command: Command, words: list[str]) -> None:
    """Print a tool's help without importing the tool, and raise SystemExit, if only help is requested."""
    from ottla.cli.kafka.tool import show_help
    from ottla.cli.kafka.usage import usage_of

    usage = usage_of(command.module)
    if usage is not None:
        show_help(usage, words)


def help_text() -> str:
    """The help text: all commands, one per line."""
    lines = ["usage: ottla COMMAND …", "", "Kafka's consumer stack for Python and Spark.", ""]
    width = max(map(len, COMMANDS)) + 2
    for title, commands in (("commands:", FOR_PEOPLE), ("Kafka's tools, with their flags:", KAFKAS_TOOLS)):
        lines += [title, *(f"  {name:{width}}{command.summary}" for name, command in commands.items()), ""]
    return "\n".join([*lines, "`ottla COMMAND --help` shows the options of a command."])


def _nearest(name: str) -> str:
    from ottla.model.did_you_mean import did_you_mean

    near = did_you_mean(name.removesuffix(".sh"), COMMANDS)
    return "" if near is None else f", but there is {near!r}"


def _say(text: str, *, is_error: bool = False) -> None:
    print(text, file=sys.stderr if is_error else sys.stdout)
