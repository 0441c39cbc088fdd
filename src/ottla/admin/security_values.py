"""Values about users and quotas, as users give and get them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.security.scram import ITERATIONS_MIN

DEFAULT_ENTITY = ""
"""The name of the entity whose quotas apply to all that have none of their own."""


@dataclass(frozen=True, slots=True)
class ScramPassword:
    """A new password of a user for SCRAM-SHA-256 or SCRAM-SHA-512. It is salted before it is sent.

    >>> from ottla.admin import ScramPassword
    >>> ScramPassword("ann", "SCRAM-SHA-256", "s3cret")
    ScramPassword(user='ann', mechanism='SCRAM-SHA-256', iterations=4096)
    """

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN


@dataclass(frozen=True, slots=True)
class ScramRemoval:
    """Takes a user's password for a mechanism away.

    >>> from ottla.admin import ScramRemoval
    >>> ScramRemoval("ann", "SCRAM-SHA-256").user
    'ann'
    """

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The clients that quotas are for: a user, a client id, both together, or an address. None: not given.

    The name "" (`DEFAULT_ENTITY`) is for all that have no quota of their own.

    >>> from ottla.admin import DEFAULT_ENTITY, QuotaEntity
    >>> QuotaEntity(user="ann", client_id=DEFAULT_ENTITY)
    QuotaEntity(user='ann', client_id='', ip=None)
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The given types, with the brokers' names for them, and their names."""
        names = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in names.items() if name is not None}
