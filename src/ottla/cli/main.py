"""`ottla …`: one subcommand a module, each with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ottla.cli import broker, zookeeper
from ottla.model.errors import OttlaError

FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit code. An error that we know is one line, not a stack trace."""
    parser = argparse.ArgumentParser(prog="ottla", description="Kafka's consumer stack for Python and Spark")
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for module in (broker, zookeeper):
        module.add_parser(subparsers)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except OttlaError as error:
        print(f"ottla: {error}", file=sys.stderr)  # noqa: T201
        return FAILED
    return code
