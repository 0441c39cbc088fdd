"""The flags of Kafka's tools, a module a tool, named as the one that does its work.

They are apart because telling them must be quick: help and completion load nothing else.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from ottla.cli.kafka.flags import Usage


def usage_of(tool_module: str) -> Usage | None:
    """The usage of the tool of a module; None for one that tells its flags by itself."""
    name = f"{__name__}.{tool_module.rpartition('.')[2]}"
    if find_spec(name) is None:
        return None
    usage: Usage = import_module(name).USAGE
    return usage
