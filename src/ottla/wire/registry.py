"""Every API by its key, for a server that reads the key of each request from the wire.

The modules of `ottla.wire.api` are the list: adding an API means adding its file there. They are imported
on the first lookup, because a client names the types it needs and never pays for the others.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType

import ottla.wire.api
from ottla.model.errors import RemoteProtocolError
from ottla.wire.schema import Api, Request


def api(key: int) -> Api:
    """Return the API of `key`. Raises RemoteProtocolError for an unknown key."""
    try:
        return apis()[key]
    except KeyError:
        raise RemoteProtocolError(f"unknown API key {key}") from None


@cache
def apis() -> Mapping[int, Api]:
    """Return all APIs, in the order of their keys."""
    declared_apis = sorted((api for module in modules() for api in declared(module)), key=lambda api: api.key)
    by_key = {api.key: api for api in declared_apis}
    if len(by_key) != len(declared_apis):
        raise TypeError(f"two modules declare one API key: {[(api.key, api.name) for api in declared_apis]}")
    return MappingProxyType(by_key)


def modules() -> Iterator[ModuleType]:
    """The modules that declare APIs."""
    package = ottla.wire.api
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(info.name)


def declared(module: ModuleType) -> list[Api]:
    """The APIs that `module` itself declares."""
    kinds = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Request)
    ]
    return [kind.API for kind in kinds if kind.__module__ == module.__name__]
