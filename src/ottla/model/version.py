"""The version of this package. Every layer may import it; clients send it to brokers."""

from __future__ import annotations

VERSION = "0.1.0"
