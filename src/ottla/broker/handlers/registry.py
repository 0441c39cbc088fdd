"""The list of handlers: one for each other module of this package, so adding an API means adding its file."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import ottla.broker.handlers
from ottla.broker.serving.handler import Handler


@cache
def handlers() -> Mapping[int, Handler]:
    """Return all handlers by API key, in the order of the keys. ApiVersions advertises them."""
    declared = sorted(_declared(), key=lambda handler: handler.request.API.key)
    by_key = {handler.request.API.key: handler for handler in declared}
    if len(by_key) != len(declared):
        raise TypeError(f"two modules serve one API key: {[handler.request.API for handler in declared]}")
    return MappingProxyType(by_key)


def _declared() -> Iterator[Handler]:
    package = ottla.broker.handlers
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if info.name != __name__:
            yield import_module(info.name).HANDLER
