"""A user's login at ZooKeeper, and who may change the znodes that a session creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, PASSWORD, TEXT, Property

ZOOKEEPER_LOGIN_PROPERTIES: tuple[Property, ...] = (
    Property("zookeeper.digest.username", TEXT, "", "The user at ZooKeeper (digest)."),
    Property("zookeeper.digest.password", PASSWORD, "", "The user's password."),
    Property(
        "zookeeper.set.acl",
        BOOLEAN,
        default=False,
        doc="Whether only this user may change the znodes that are created; all may read them.",
    ),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """By default nobody logs in, and everybody may change what is created. The repr has no password."""

    username: str = ""
    password: str = field(default="", repr=False)
    sets_acl: bool = False

    def __post_init__(self) -> None:
        if bool(self.username) != bool(self.password):
            raise ConfigError("zookeeper.digest.username and zookeeper.digest.password: give both, or none")
        if self.sets_acl and not self.username:
            raise ConfigError("zookeeper.set.acl needs a user: give zookeeper.digest.username")


def zookeeper_login(values: Mapping[str, Any]) -> ZooKeeperLogin:
    """Return what parsed settings mean. Raises ConfigError."""
    return ZooKeeperLogin(
        values["zookeeper_digest_username"], values["zookeeper_digest_password"], values["zookeeper_set_acl"]
    )
