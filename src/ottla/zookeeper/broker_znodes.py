"""What brokers write about themselves: registration, controller, controller epoch, cluster id.

Registrations by version (spec §1.2): 1 is 0.8, 2 is 0.9, 3 adds the rack, 4 adds named listeners, 5 (2.7
to 3.9) adds features. All are read by field, so versions above 5 are read as well: top-level `host` and
`port` have never gone away. Written keys stand in the order in which Kafka 0.9.0.1 (versions 1 … 3) and
3.9 (versions 4 and 5) put them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.model.errors import ConfigError
from ottla.model.java_hashes import java_hash
from ottla.zookeeper.scala_order import immutable_order
from ottla.zookeeper.znode_json import (
    INT_MAX,
    NO_TIMESTAMP_MS,
    Fields,
    decode_fields,
    decode_integer,
    decode_value,
    encode_json,
    shown,
)
from ottla.zookeeper.zookeeper_errors import ZnodeError

PLAINTEXT = "PLAINTEXT"
VERSION_0_9 = 2
VERSION_3_9 = 5
_FIRST_NAMED_LISTENERS = 4
_ORDER_3_9 = (
    "features",
    "listener_security_protocol_map",
    "endpoints",
    "rack",
    "jmx_port",
    "port",
    "host",
    "version",
    "timestamp",
)
_ENDPOINT = re.compile(r"([^:/\s]+)://(?:\[([0-9a-fA-F:.%\w]*)\]|([^:/\[\]\s]*)):(-?[0-9]{1,5})")


@dataclass(frozen=True)
class Endpoint:
    """Where a broker listens: `listener` is its name, `protocol` what is spoken there."""

    host: str
    port: int
    listener: str = PLAINTEXT
    protocol: str = PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True)
class BrokerRegistration:
    """The node of one broker. Features are name → (least, most) version."""

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    version: int = VERSION_0_9
    jmx_port: int = -1
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def plaintext(self) -> Endpoint | None:
        """The first endpoint that the classic clients can use."""
        return next((point for point in self.endpoints if point.protocol == PLAINTEXT), None)


@dataclass(frozen=True)
class Controller:
    """Which broker is the controller; `kraft_epoch` is what 3.x adds in version 2."""

    broker_id: int
    timestamp_ms: int = NO_TIMESTAMP_MS
    version: int = 1
    kraft_epoch: int = -1


def encode_broker(registration: BrokerRegistration) -> bytes:
    """Return the node as a Kafka that writes this version would write it."""
    version = registration.version
    if not 1 <= version <= VERSION_3_9:
        raise ConfigError(f"broker registrations have versions 1 … {VERSION_3_9}, not {version}")
    first = registration.plaintext
    if version == 1 and first is None:
        raise ConfigError("a broker registration of version 1 needs a PLAINTEXT endpoint")
    fields: dict[str, object] = {
        "version": version,
        "host": first.host if first else None,
        "port": first.port if first else -1,
        "jmx_port": registration.jmx_port,
        "timestamp": str(registration.timestamp_ms),
    }
    if version > 1:
        fields["endpoints"] = [str(point) for point in registration.endpoints]
    if version > VERSION_0_9 and registration.rack is not None:
        fields["rack"] = registration.rack
    if version >= _FIRST_NAMED_LISTENERS:
        fields["listener_security_protocol_map"] = {
            point.listener: point.protocol for point in registration.endpoints
        }
    if version >= VERSION_3_9:
        fields["features"] = {
            name: {"min_version": least, "max_version": most}
            for name, (least, most) in registration.features.items()
        }
    if version < _FIRST_NAMED_LISTENERS:
        order = immutable_order(fields, java_hash)
    else:
        order = [name for name in _ORDER_3_9 if name in fields]
    return encode_json({name: fields[name] for name in order})


def decode_broker(path: str, data: bytes) -> BrokerRegistration:
    """Decode a registration of any version. Raises ZnodeError."""
    fields = decode_fields(path, data)
    version = fields.version(range(1, INT_MAX + 1))
    if version > 1 and fields.has("endpoints"):
        endpoints = _endpoints(fields)
    elif fields.has("host"):
        endpoints = (Endpoint(fields.text("host"), fields.integer("port", 0, 65535)),)
    else:
        raise ZnodeError(path, "neither 'endpoints' nor 'host' says where the broker listens")
    return BrokerRegistration(
        endpoints=endpoints,
        timestamp_ms=fields.timestamp_ms(),
        version=version,
        jmx_port=fields.integer("jmx_port") if fields.has("jmx_port") else -1,
        rack=fields.text("rack") if fields.has("rack") else None,
        features=_features(fields) if fields.has("features") else {},
    )


def _endpoints(fields: Fields) -> tuple[Endpoint, ...]:
    name = "listener_security_protocol_map"
    protocols = fields.text_map(name) if fields.has(name) else {}
    endpoints = []
    for text in fields.texts("endpoints"):
        match = _ENDPOINT.fullmatch(text)
        if match is None or not -1 <= int(match[4]) <= 65535:
            raise ZnodeError(fields.path, f"endpoint {shown(text)} is not LISTENER://host:port")
        listener = match[1]
        host = match[2] if match[2] is not None else match[3]
        endpoints.append(Endpoint(host, int(match[4]), listener, protocols.get(listener, listener)))
    return tuple(endpoints)


def _features(fields: Fields) -> dict[str, tuple[int, int]]:
    features = fields.nested("features")
    ranges = {name: features.nested(name) for name in features.names()}
    # The oldest features carried a first version level where later ones leave the least version out.
    return {
        name: (
            levels.integer("min_version") if levels.has("min_version") else 0,
            levels.integer("max_version"),
        )
        for name, levels in ranges.items()
    }


def encode_controller(controller: Controller) -> bytes:
    """Encode version 1 (0.8 … 3.3) or 2 (3.4 …)."""
    fields: dict[str, object] = {
        "version": controller.version,
        "brokerid": controller.broker_id,
        "timestamp": str(controller.timestamp_ms),
    }
    if controller.version > 1:
        fields["kraftControllerEpoch"] = controller.kraft_epoch
    return encode_json(fields)


def decode_controller(path: str, data: bytes) -> Controller:
    """Decode JSON, or the bare broker id of the oldest brokers. Raises ZnodeError."""
    value = decode_value(path, data)
    if isinstance(value, int) and not isinstance(value, bool):
        return Controller(decode_integer(path, data, 0, INT_MAX))
    fields = Fields.of(path, value, "the value")
    version = fields.version(range(1, INT_MAX + 1))
    kraft = "kraftControllerEpoch"
    return Controller(
        broker_id=fields.integer("brokerid"),
        timestamp_ms=fields.timestamp_ms(),
        version=version,
        kraft_epoch=fields.integer(kraft) if fields.has(kraft) else -1,
    )


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode decimal text; the first controller writes 1."""
    return str(epoch).encode()


def decode_controller_epoch(path: str, data: bytes) -> int:
    """Decode decimal text. Raises ZnodeError."""
    return decode_integer(path, data, 0, INT_MAX)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode the id. The version is a string here, and only here."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes) -> str:
    """Decode the id. Raises ZnodeError."""
    return decode_fields(path, data).text("id")
