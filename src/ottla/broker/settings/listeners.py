"""listeners and advertised.listeners → the host and port to bind, and those that clients get.

    listeners=PLAINTEXT://:9092,CONTROLLER://:9093     controller.listener.names=CONTROLLER
    → 127.0.0.1:9092; the controller's listener is left out

Names may be chosen (`EXTERNAL://…` with listener.security.protocol.map=EXTERNAL:PLAINTEXT). Anything but
PLAINTEXT is refused: a listener that should have been encrypted must not be served in the clear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.model.errors import ConfigError

LOOPBACK = "127.0.0.1"
WILDCARDS = frozenset({"0.0.0.0", "::"})  # to recognise, not to bind
PORT = 9092
_LISTENER = re.compile(r"([^:]+)://(\[[0-9A-Fa-f:.%]*\]|[^:\[\]/]*):([0-9]{1,5})")


class Listener(NamedTuple):
    """One entry of a list of listeners. `host` is as written, without the brackets of IPv6."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as it is written before a port."""
    return f"[{host}]" if ":" in host else host


class Endpoints(NamedTuple):
    """Where to listen, and the address that clients get; "" and 0 stand for what is bound."""

    host: str = LOOPBACK
    port: int = PORT
    advertised_host: str = ""
    advertised_port: int = 0


def endpoints(properties: Mapping[str, str]) -> Endpoints:
    """Return what the properties about listeners mean. Raises ConfigError."""
    bound = _only(properties, "listeners")
    advertised = _only(properties, "advertised.listeners")
    if bound is None:
        bound = Listener("PLAINTEXT", _text(properties, "host.name"), _number(properties, "port", PORT))
    elif advertised and advertised.name != bound.name:
        raise ConfigError(f"advertised.listeners={advertised}: its name must be that of listeners={bound}")
    if advertised is None:
        advertised = Listener(
            "PLAINTEXT",
            _text(properties, "advertised.host.name"),
            _number(properties, "advertised.port", 0),
        )
    return Endpoints(bound.host or LOOPBACK, bound.port, advertised.host, advertised.port)


def parse_listeners(name: str, text: str) -> list[Listener]:
    """Return the entries of a list of listeners. Raises ConfigError."""
    listeners = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match[3]) > 65535:
            raise ConfigError(
                f"{name}={entry}: it must be PROTOCOL://host:port, as PLAINTEXT://127.0.0.1:9092"
            )
        listeners.append(Listener(match[1].upper(), match[2].strip("[]"), int(match[3])))
    return listeners


def _only(properties: Mapping[str, str], name: str) -> Listener | None:
    """Return the client listener of a property, or None if the property is not set."""
    text = properties.get(name, "").strip()
    if not text:
        return None
    others = {_text(properties, "control.plane.listener.name").upper()}
    others.update(part.strip().upper() for part in _text(properties, "controller.listener.names").split(","))
    listeners = [listener for listener in parse_listeners(name, text) if listener.name not in others]
    if len(listeners) != 1:
        raise ConfigError(
            f"{name}={text}: {len(listeners)} listeners for clients; this broker has exactly one"
        )
    protocol = _protocols(properties).get(listeners[0].name, "not known")
    if protocol != "PLAINTEXT":
        raise ConfigError(
            f"{name}={listeners[0]}: its protocol is {protocol}, but this broker has only PLAINTEXT; "
            "security (TLS, SASL) comes later"
        )
    return listeners[0]


def _protocols(properties: Mapping[str, str]) -> dict[str, str]:
    setting = BROKER_SETTINGS["listener.security.protocol.map"]
    pairs = properties.get(setting.name, str(setting.default)).upper().split(",")
    return {name.strip(): protocol.strip() for name, _, protocol in (pair.partition(":") for pair in pairs)}


def _text(properties: Mapping[str, str], name: str) -> str:
    return properties.get(name, "").strip()


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    return BROKER_SETTINGS[name].parse(properties[name]) if name in properties else default
