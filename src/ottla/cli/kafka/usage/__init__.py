"""The flags of Kafka's tools: one module for each tool, with the name of the module that does its work.

They have modules of their own so that help and completion are quick: these load nothing else.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from ottla.cli.kafka.flags import Usage


def usage_of(tool_module: str) -> Usage | None:
    """The usage of a tool's module; None for a tool that declares its flags itself."""
    name = f"{__name__}.{tool_module.rpartition('.')[2]}"
    if find_spec(name) is None:
        return None
    usage: Usage = import_module(name).USAGE
    return usage
