"""Security for a broker on one machine: certificates, users and ACLs, made when it starts.

    EmbeddedBroker(security=True)
    EmbeddedBroker(security=BrokerSecurity(users=("admin", "app"), acls=("app READ topic orders",)))

The files are in a directory that only its owner may read: `ca.pem` and its key, `server.pem`, `USER.pem` with
each user's key and certificate, and `users.json` with the passwords that were made here.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.settings.listeners import LOOPBACK, bracketed
from ottla.broker.settings.security_table import AUTHORIZERS
from ottla.model.acls import (
    ANY_USER,
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError
from ottla.security.client_login import ClientLogin, plain_users_text
from ottla.security.local_authority import LocalAuthority
from ottla.security.private_files import make_private_directory, write_private
from ottla.security.scram import ALGORITHMS, ITERATIONS_MIN, ScramCredential, credential, salted_password
from ottla.security.security_protocol import SecurityProtocol

PASSWORDS = "users.json"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MECHANISMS = ("PLAIN", *ALGORITHMS)
_RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.CLUSTER}
_RESOURCES["transactional-id"] = ResourceType.TRANSACTIONAL_ID
_OPERATIONS = {name: number for number, name in OPERATIONS.items() if name != "ANY"}
_SALT_BYTES, _PASSWORD_BYTES = 24, 18


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """What a broker is to be secured with.

        >>> from ottla import BrokerSecurity, EmbeddedBroker
        >>> security = BrokerSecurity(users=("admin", "app"), acls=("app READ,WRITE topic orders*",))
        >>> with EmbeddedBroker(security=security) as broker:
        ...     broker.client_settings("app")["security.protocol"]
        'SASL_SSL'

    users            names, or names with their passwords; a password that is not given is made. The first
                     user may do everything.
    protocols        the listeners, each named after its protocol. SSL asks for a certificate of a user.
    acls             who may do what, as "app READ,WRITE topic orders", "app READ group app-*" (a prefix),
                     "* DESCRIBE cluster". Without them (None) whoever logs in may do everything.
    host             where to listen
    advertised_host  the name under which clients reach it; without it, `host`
    directory        where keys and passwords are kept; without it, `security` in the data directory

    Raises ConfigError.
    """

    users: Sequence[str] | Mapping[str, str] = ("admin", "client")
    protocols: Sequence[str] = (SecurityProtocol.SASL_SSL, SecurityProtocol.SSL)
    acls: Sequence[str] | None = None
    host: str = LOOPBACK
    advertised_host: str = ""
    directory: str | Path | None = None

    def __repr__(self) -> str:
        return f"BrokerSecurity(users={list(self.users)}, protocols={[str(each) for each in self.protocols]})"

    def __post_init__(self) -> None:
        if not self.users or isinstance(self.users, str):
            raise ConfigError("security: users must be a list of at least one name")
        for user in self.users:
            if not _USER.fullmatch(user):
                raise ConfigError(
                    f"security: user {user!r}: a name has letters, digits, '.', '_' and '-', at most 64"
                )
        if isinstance(self.users, Mapping) and not all(self.users.values()):
            raise ConfigError("security: the password of a user is empty; give names alone to have them made")
        for protocol in self.protocols or ("",):
            if protocol not in SecurityProtocol.__members__ or protocol == SecurityProtocol.PLAINTEXT:
                raise ConfigError(
                    f"security: protocol {str(protocol)!r}: it must be SSL, SASL_PLAINTEXT or SASL_SSL"
                )
        self.rules()

    def rules(self) -> list[Acl]:
        """Return the ACLs. Raises ConfigError for one that cannot be read."""
        return [acl for text in self.acls or () for acl in _rules(text, list(self.users))]


class LocalSecurity:
    """The files, settings and users of a broker. Raises ConfigError, or StorageError for files."""

    def __init__(self, wanted: BrokerSecurity, data_dir: Path) -> None:
        self.wanted = wanted
        self._directory = Path(wanted.directory or data_dir / "security").resolve()
        try:
            self._make_files()
        except OSError as error:
            raise ConfigError(f"security: {self._directory}: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<LocalSecurity in {self._directory}>"

    @property
    def directory(self) -> Path:
        """Where keys and passwords are."""
        return self._directory

    def _make_files(self) -> None:
        make_private_directory(self._directory)
        self._authority = LocalAuthority(self._directory)
        hosts = [self.wanted.advertised_host, self.wanted.host, LOOPBACK, "localhost"]
        server = self._authority.certified("server", filter(None, hosts))
        write_private(self._directory / "server.pem", server)
        for user in self.wanted.users:
            if not self._certificate(user).exists():
                write_private(self._certificate(user), self._authority.certified(user))
        self._passwords = self._read_passwords()

    def _read_passwords(self) -> dict[str, str]:
        path = self._directory / PASSWORDS
        try:
            known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        except ValueError:
            raise ConfigError(f"security: {path} cannot be read; remove it, and new ones are made") from None
        users = self.wanted.users
        given = dict(users) if isinstance(users, Mapping) else {}
        made = {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in users if user not in given | known}
        if made:
            write_private(path, json.dumps(known | made, indent=1) + "\n")
        return {user: (known | made | given)[user] for user in users}

    def _certificate(self, user: str) -> Path:
        return self._directory / f"{user}.pem"

    def properties(self, port: int, broker_count: int) -> dict[str, str]:
        """Return the broker's settings. The listeners' ports are in a row, from `port` on; 0: free ones."""
        wanted = self.wanted
        listeners, advertised = [], []
        for number, protocol in enumerate(wanted.protocols):
            taken = port + number * broker_count if port else 0
            listeners.append(f"{protocol}://{bracketed(wanted.host)}:{taken}")
            advertised.append(f"{protocol}://{bracketed(wanted.advertised_host)}:{taken}")
        properties = {
            "listeners": ",".join(listeners),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.path),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "super.users": f"User:{next(iter(wanted.users))}",
        }
        if wanted.advertised_host:
            properties["advertised.listeners"] = ",".join(advertised)
        for protocol in wanted.protocols:
            name = f"listener.name.{protocol.lower()}.plain.sasl.jaas.config"
            if SecurityProtocol(protocol).has_sasl:
                properties[name] = plain_users_text(self._passwords)
        if wanted.acls is not None:
            properties["authorizer.class.name"] = AUTHORIZERS[1]
        return properties

    def install(self, users: ScramUsers, authorizer: Authorizer | None) -> None:
        """Store the users of SCRAM and the ACLs, on the broker's loop. Raises StorageError."""
        changes: dict[tuple[str, str], ScramCredential | None] = {}
        for mechanism, algorithm in ALGORITHMS.items():
            for user, password in self._passwords.items():
                known = users.find(mechanism, user)
                salt = known.salt if known else os.urandom(_SALT_BYTES)
                iterations = known.iterations if known else ITERATIONS_MIN
                salted = salted_password(algorithm, password, salt, iterations)
                made = credential(algorithm, salted, salt, iterations)
                if made != known:
                    changes[mechanism, user] = made
        if changes:
            users.change(changes)
        if authorizer is not None and self.wanted.acls:
            authorizer.create(self.wanted.rules())

    def login(self, bootstrap: str, protocol: str, user: str | None, mechanism: str) -> ClientLogin:
        """Return what a client needs at a listener. Raises ConfigError for an unknown user or mechanism."""
        names = list(self._passwords)
        user = names[-1] if user is None else user
        if user not in names:
            raise ConfigError(f"user {user!r} is not known{hint(user, names)}")
        if mechanism not in _MECHANISMS:
            raise ConfigError(f"mechanism {mechanism!r}: it must be one of {', '.join(_MECHANISMS)}")
        return ClientLogin(
            bootstrap,
            protocol,
            mechanism,
            user,
            self._passwords[user],
            self._authority.path,
            self._certificate(user),
        )


def _rules(text: str, users: Sequence[str]) -> list[Acl]:
    """Return the ACLs of one text: USER OPERATION,... RESOURCE NAME."""
    words = text.split()
    form = f"security: acl {text!r}: it must be USER OPERATION[,OPERATION] RESOURCE NAME, as"
    form += " 'app READ topic orders'"
    if len(words) == 3 and words[2] == "cluster":
        words.append(CLUSTER_NAME)
    if len(words) != 4:
        raise ConfigError(form)
    user, operations, resource, name = words
    if user not in (*users, WILDCARD):
        raise ConfigError(f"security: acl {text!r}: user {user!r} is not among users{hint(user, users)}")
    if resource not in _RESOURCES:
        raise ConfigError(f"{form}; a resource is one of {', '.join(_RESOURCES)}")
    is_prefix = name.endswith(WILDCARD) and name != WILDCARD
    numbers = []
    for operation in operations.upper().replace("-", "_").split(","):
        if operation not in _OPERATIONS:
            raise ConfigError(f"{form}; {operation} is no operation{hint(operation, list(_OPERATIONS))}")
        numbers.append(_OPERATIONS[operation])
    return [
        Acl(
            _RESOURCES[resource],
            name[:-1] if is_prefix else name,
            PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
            ANY_USER if user == WILDCARD else f"User:{user}",
            WILDCARD,
            number,
            Permission.ALLOW,
        )
        for number in numbers
    ]
