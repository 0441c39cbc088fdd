"""The users of SCRAM: their credentials in the catalog, salted, as Kafka keeps them in its metadata."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ottla.broker.storage.catalog import Catalog
from ottla.security.scram import ALGORITHMS, ScramCredential

KIND = "scram"
_SEPARATOR = "\0"


class ScramUsers:
    """Owned by the broker's loop."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def _kept(self) -> Mapping[str, Any]:
        return self._catalog.entities.get(KIND, {})

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return the credential of a user, or None."""
        kept = self._kept.get(f"{mechanism}{_SEPARATOR}{user}")
        if kept is None:
            return None
        salt, stored, server = (base64.b64decode(kept[name]) for name in ("salt", "stored_key", "server_key"))
        return ScramCredential(salt, stored, server, int(kept["iterations"]))

    def names(self) -> list[str]:
        """Return the users that have a credential, sorted."""
        return sorted({key.partition(_SEPARATOR)[2] for key in self._kept})

    def mechanisms(self, user: str) -> list[str]:
        """Return the mechanisms for which a user has a credential."""
        return [name for name in ALGORITHMS if f"{name}{_SEPARATOR}{user}" in self._kept]

    def change(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Store credentials by (mechanism, user), and delete those that are None. Raises StorageError."""
        self._catalog.set_entities(
            KIND,
            {
                f"{mechanism}{_SEPARATOR}{user}": {} if known is None else _fields(known)
                for (mechanism, user), known in changes.items()
            },
        )


def _fields(known: ScramCredential) -> dict[str, object]:
    return {
        "salt": base64.b64encode(known.salt).decode(),
        "stored_key": base64.b64encode(known.stored_key).decode(),
        "server_key": base64.b64encode(known.server_key).decode(),
        "iterations": known.iterations,
    }
