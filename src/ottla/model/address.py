"""Where a broker listens: a host and a port, as people and Kafka write them."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.model.errors import ConfigError

# "[::1]:9092", "kafka-1.example:9092", and what people paste from listeners: "PLAINTEXT://kafka-1:9092".
_IPV6 = r"(?=[^]]*:[^]]*:)[0-9a-fA-F:.]+(?:%[\w.-]+)?"
_TEXT = rf"(?:[A-Za-z0-9_]+://)?(?:\[({_IPV6})\]|([^\s:/\[\]]+)):([0-9]{{1,5}})/?"
PORT_MAX = 65535


class Address(NamedTuple):
    """Compares and hashes by value; `str` gives what can be parsed again."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse HOST:PORT or [IPV6]:PORT. Raises ConfigError."""
    match = re.fullmatch(_TEXT, text.strip())
    if match is None or not 0 < int(match[3]) <= PORT_MAX:
        raise ConfigError(f"{text!r} is no address of a broker: write HOST:PORT, as in kafka-1.example:9092")
    return Address(match[1] or match[2], int(match[3]))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse addresses separated by commas, without duplicates. Raises ConfigError, also if there is none."""
    addresses = dict.fromkeys(parse_address(part) for part in text.split(",") if part.strip())
    if not addresses:
        raise ConfigError("no address of a broker is given: write HOST:PORT,HOST:PORT")
    return tuple(addresses)
