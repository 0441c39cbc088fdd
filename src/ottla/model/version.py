"""The version of this package, in a place that every layer may import: brokers are told it."""

from __future__ import annotations

VERSION = "0.1.0"
