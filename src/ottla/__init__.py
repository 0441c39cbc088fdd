"""Kafka's consumer stack for Python and Spark.

These names are public, and so are the modules that the README shows; everything else is private by default.
Importing the package loads no arrays and no compiler.
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
