"""Kafka's consumer stack for Python and Spark.

These names are public, and so are the modules that the README shows; everything else is private by default.
Importing the package loads no arrays, no compiler and no broker: that comes with its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.model.errors import (
    ConfigError,
    CorruptRecord,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    StorageError,
)
from ottla.model.version import VERSION

if TYPE_CHECKING:
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.producer.producer import Producer

__version__ = VERSION

__all__ = [
    "ConfigError",
    "CorruptRecord",
    "EmbeddedBroker",
    "KafkaError",
    "LocalProtocolError",
    "OttlaError",
    "Producer",
    "RemoteProtocolError",
    "StorageError",
    "__version__",
]


_LOADED_AT_FIRST_USE = {
    "EmbeddedBroker": "ottla.broker.embedded",
    "Producer": "ottla.producer.producer",
}


def __getattr__(name: str) -> object:
    """Load what is heavy when it is asked for."""
    module = _LOADED_AT_FIRST_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
