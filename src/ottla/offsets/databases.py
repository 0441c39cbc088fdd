"""What differs between databases behind Python's DB-API: placeholders, how a transaction begins, cursors.

The statements of the ledger are common to SQLite (3.35 and later), PostgreSQL and DuckDB. What the DB-API
leaves open is decided by the module that a connection comes from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from ottla.model.errors import ConfigError


class Cursor(Protocol):
    """Of DB-API's cursors, what is used here; users may call the rest of theirs."""

    def execute(self, statement: Any, parameters: Any = ..., /) -> Any:
        """Run a statement."""

    def fetchall(self) -> Sequence[Any]:
        """All rows of the last one."""


class DatabaseConnection(Protocol):
    """Of DB-API's connections, what is used here."""

    def cursor(self) -> Any:
        """Something to run statements with."""

    def commit(self) -> Any:
        """End the transaction well."""

    def rollback(self) -> Any:
        """End it as if it had never been."""


PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "format": lambda _: "%s",
    "pyformat": lambda _: "%s",
    "numeric": lambda number: f":{number}",
    "named": lambda number: f":p{number}",
}
"""By DB-API's paramstyle; pyformat modules take plain %s too."""


@dataclass(frozen=True, slots=True)
class Database:
    """A connection with what is known of its module."""

    connection: Any
    paramstyle: str
    begin: Callable[[Any], None]
    is_cursor: bool = False

    def rows(self, cursor: Cursor, statement: str, values: Sequence[object]) -> Sequence[Any]:
        """Run a statement, written with question marks, and return all that it gives."""
        mark, numbers = PLACEHOLDERS[self.paramstyle], count(1)
        pieces = statement.split("?")
        text = pieces[0] + "".join(mark(next(numbers)) + piece for piece in pieces[1:])
        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        cursor.execute(text, named if self.paramstyle == "named" else tuple(values))
        return cursor.fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor, whose work is stored at the end of the block, or not at all."""
        self.begin(self.connection)
        try:
            with self.cursor() as cursor:
                yield cursor
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """Whose statements are part of the connection's transaction."""
        if self.is_cursor:
            yield self.connection
            return
        cursor = self.connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def database_of(connection: DatabaseConnection, paramstyle: str | None = None) -> Database:
    """What to know about a connection. `paramstyle` is asked of its module if it is not given."""
    names = [kind.__module__.split(".")[0].lstrip("_") for kind in type(connection).__mro__]
    modules = [sys.modules[name] for name in names if name in sys.modules]
    found = [str(module.paramstyle) for module in modules if hasattr(module, "paramstyle")]
    style = paramstyle or (found[0] if found else "")
    if style not in PLACEHOLDERS:
        raise ConfigError(
            f"paramstyle={style!r} of {type(connection).__module__}: give one of {', '.join(PLACEHOLDERS)}"
        )
    if "sqlite3" in names:
        return Database(connection, style, _begin_sqlite)
    if "duckdb" in names:
        # Its cursors are further connections, with transactions of their own.
        return Database(connection, style, lambda one: one.begin(), is_cursor=True)
    return Database(connection, style, _check_implicit)


def _begin_sqlite(connection: Any) -> None:
    """At once with the right to write: two that first read and then write would block each other."""
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")


def _check_implicit(connection: Any) -> None:
    """A transaction begins by itself, save where that was switched off."""
    if getattr(connection, "autocommit", False) is True:
        raise ConfigError(
            "autocommit=True: results and offsets would be stored one by one; set it to False for the ledger"
        )
