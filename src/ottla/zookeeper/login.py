"""A user's login at ZooKeeper, and who may change the znodes that a session creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, PASSWORD, TEXT, Property

ZOOKEEPER_LOGIN_PROPERTIES: tuple[Property, ...] = (
    Property("zookeeper.digest.username", TEXT, "", "The user at ZooKeeper (digest)."),
    Property("zookeeper.digest.password", PASSWORD, "", "The user's password."),
    Property(
        "zookeeper.sasl.username",
        TEXT,
        "",
        "The user at ZooKeeper (SASL, DIGEST-MD5): that of Java's DigestLoginModule.",
    ),
    Property("zookeeper.sasl.password", PASSWORD, "", "The password of that user."),
    Property(
        "zookeeper.set.acl",
        BOOLEAN,
        default=False,
        doc="Whether only this user may change the znodes that are created; all may read them.",
    ),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """By default there is no login, and all clients may change the created nodes. The repr has no password.

    With `has_sasl` the login is a conversation before the session (DIGEST-MD5), else the password is shown.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    sets_acl: bool = False
    has_sasl: bool = False

    def __post_init__(self) -> None:
        kind = "sasl" if self.has_sasl else "digest"
        if bool(self.username) != bool(self.password):
            raise ConfigError(f"zookeeper.{kind}.username and zookeeper.{kind}.password: give both, or none")
        if self.sets_acl and not self.username:
            raise ConfigError(
                "zookeeper.set.acl needs a user: give zookeeper.digest.username or zookeeper.sasl.username"
            )
        if self.has_sasl and find_spec("puresasl") is None:
            raise ConfigError("zookeeper.sasl.username needs pure-sasl: pip install 'ottla[security]'")


def zookeeper_login(values: Mapping[str, Any]) -> ZooKeeperLogin:
    """Return what parsed settings mean. Raises ConfigError."""
    kinds = {
        kind: (values[f"zookeeper_{kind}_username"], values[f"zookeeper_{kind}_password"])
        for kind in ("digest", "sasl")
    }
    if any(kinds["digest"]) and any(kinds["sasl"]):
        raise ConfigError("zookeeper.digest.username and zookeeper.sasl.username: give one of them")
    has_sasl = any(kinds["sasl"])
    username, password = kinds["sasl" if has_sasl else "digest"]
    return ZooKeeperLogin(username, password, values["zookeeper_set_acl"], has_sasl)
