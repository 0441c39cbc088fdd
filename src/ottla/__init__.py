"""Kafka's consumer stack for Python and Spark.

Public names only; everything else is private by default. Names are loaded on first use, so that
``import ottla`` costs nothing.
"""

from ottla.model.errors import (
    ConfigError,
    CorruptRecord,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
)

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "CorruptRecord",
    "KafkaError",
    "LocalProtocolError",
    "OttlaError",
    "RemoteProtocolError",
    "__version__",
]
