"""listeners and advertised.listeners → where to listen, and the addresses that clients get.

listeners=INSIDE://:9092,OUTSIDE://:9093,CONTROLLER://:9094     controller.listener.names=CONTROLLER
listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT
    → INSIDE on 127.0.0.1:9092 in the clear, OUTSIDE on 127.0.0.1:9093 with TLS and SASL, no CONTROLLER
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.security_settings import (
    ListenerValues,
    SaslSettings,
    TlsSettings,
    sasl_settings,
    tls_settings,
)
from ottla.model.errors import ConfigError
from ottla.security.security_protocol import SecurityProtocol

LOOPBACK = "127.0.0.1"
WILDCARDS = frozenset({"0.0.0.0", "::"})  # to recognise, not to bind
PORT = 9092
PLAINTEXT = "PLAINTEXT"
_LISTENER = re.compile(r"([^:]+)://(\[[0-9A-Fa-f:.%]*\]|[^:\[\]/]*):([0-9]{1,5})")


class ListedAddress(NamedTuple):
    """One entry of a list of listeners. `host` is as written, without the brackets of IPv6."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as it is written before a port."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen, how, and the address that clients get; "" and 0 stand for what is bound."""

    host: str = LOOPBACK
    port: int = PORT
    advertised_host: str = ""
    advertised_port: int = 0
    name: str = PLAINTEXT
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def is_open(self) -> bool:
        """Whether other machines may reach it, and nobody has to log in."""
        has_login = self.sasl is not None or (self.tls is not None and self.tls.client_auth == "required")
        return not has_login and not _is_loopback(self.host)

    def check(self) -> None:
        """Raise ConfigError if clients could not connect."""
        for name in ("port", "advertised_port"):
            BROKER_SETTINGS[name.replace("_", ".")].check_range(getattr(self, name))
        if (self.advertised_host or self.host) in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners: clients cannot connect to {self.advertised_host or self.host}; "
                "say under which name or address they reach this machine"
            )


def check_open(listener: Listener, *, is_allowed: bool) -> None:
    """Raise ConfigError for a listener without a login that other machines reach, unless that is allowed."""
    if listener.is_open and not is_allowed:
        where = ListedAddress(listener.name, listener.host, listener.port)
        raise ConfigError(
            f"listeners={where}: any client that reaches this address could read and write everything "
            "without a login. Use SASL_SSL (BrokerSecurity or `ottla up --secure` make all that it needs), "
            "listen on 127.0.0.1, or set ottla.allow.open.listeners=true"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_listeners(properties: Mapping[str, str]) -> tuple[Listener, ...]:
    """Return the listeners for clients, in their order. Raises ConfigError."""
    bound = _listed(properties, "listeners")
    advertised = {entry.name: entry for entry in _listed(properties, "advertised.listeners") or ()}
    if bound is None:
        bound = [ListedAddress(PLAINTEXT, _text(properties, "host.name"), _number(properties, "port", PORT))]
    for entry in advertised.values():
        if entry.name not in {listener.name for listener in bound}:
            listed = ",".join(map(str, bound))
            raise ConfigError(f"advertised.listeners={entry}: its name must be one of listeners={listed}")
    if not advertised:
        old_form = (_text(properties, "advertised.host.name"), _number(properties, "advertised.port", 0))
        advertised = {bound[0].name: ListedAddress(bound[0].name, *old_form)}
    nothing = ListedAddress("", "", 0)
    return tuple(_listener(properties, entry, advertised.get(entry.name, nothing)) for entry in bound)


def _listener(properties: Mapping[str, str], bound: ListedAddress, advertised: ListedAddress) -> Listener:
    protocol = _protocol(properties, bound)
    values = ListenerValues(properties, bound.name)
    return Listener(
        bound.host or LOOPBACK,
        bound.port,
        advertised.host,
        advertised.port,
        bound.name,
        protocol,
        tls_settings(values) if protocol.has_tls else None,
        sasl_settings(values) if protocol.has_sasl else None,
    )


def parse_listeners(name: str, text: str) -> list[ListedAddress]:
    """Return the entries of a list of listeners. Raises ConfigError."""
    listeners = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match[3]) > 65535:
            raise ConfigError(
                f"{name}={entry}: it must be PROTOCOL://host:port with a port up to 65535, as PLAINTEXT://127.0.0.1:9092"
            )
        listeners.append(ListedAddress(match[1].upper(), match[2].strip("[]"), int(match[3])))
    return listeners


def _listed(properties: Mapping[str, str], name: str) -> list[ListedAddress] | None:
    """Return the client listeners of a property, or None if the property is not set."""
    text = properties.get(name, "").strip()
    if not text:
        return None
    others = {_text(properties, "control.plane.listener.name").upper()}
    others.update(part.strip().upper() for part in _text(properties, "controller.listener.names").split(","))
    listeners = [listener for listener in parse_listeners(name, text) if listener.name not in others]
    names = [listener.name for listener in listeners]
    if not listeners:
        raise ConfigError(f"{name}={text}: no listener for clients")
    if len(set(names)) < len(names):
        raise ConfigError(f"{name}={text}: each listener needs a name of its own")
    addresses = [listener[1:] for listener in listeners if listener.port]
    if name == "listeners" and len(set(addresses)) < len(addresses):
        raise ConfigError(f"{name}={text}: each listener needs a port of its own")
    return listeners


def _protocol(properties: Mapping[str, str], listener: ListedAddress) -> SecurityProtocol:
    setting = BROKER_SETTINGS["listener.security.protocol.map"]
    pairs = properties.get(setting.name, str(setting.default)).upper().split(",")
    protocols = {
        name.strip(): protocol.strip() for name, _, protocol in (pair.partition(":") for pair in pairs)
    }
    protocol = protocols.get(listener.name, "not known")
    if protocol not in SecurityProtocol.__members__:
        raise ConfigError(
            f"listeners={listener}: its protocol is {protocol}; listener.security.protocol.map must have "
            f"{listener.name}:PROTOCOL, with one of {', '.join(SecurityProtocol)}"
        )
    return SecurityProtocol(protocol)


def _text(properties: Mapping[str, str], name: str) -> str:
    return properties.get(name, "").strip()


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    return BROKER_SETTINGS[name].parse(properties[name]) if name in properties else default
