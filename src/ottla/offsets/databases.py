"""The differences between databases behind Python's DB-API: placeholders, the beginning of a transaction,
cursors.

The statements of the ledger work with SQLite (3.35 and later), PostgreSQL and DuckDB. What the DB-API leaves
open depends on the module of the connection.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from ottla.model.errors import ConfigError


class DatabaseCursor(Protocol):
    """The part of a DB-API cursor that is used here."""

    def execute(self, statement: Any, parameters: Any = ..., /) -> Any:
        """Run a statement."""

    def fetchall(self) -> Sequence[Any]:
        """Return all rows of the last statement."""


class DatabaseConnection(Protocol):
    """The part of a DB-API connection that is used here."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def rollback(self) -> Any:
        """Roll the transaction back."""


PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "format": lambda _: "%s",
    "pyformat": lambda _: "%s",
    "numeric": lambda number: f":{number}",
    "named": lambda number: f":p{number}",
}
"""Placeholders by DB-API's paramstyle; pyformat modules accept plain %s too."""


@dataclass(frozen=True, slots=True)
class Database:
    """A connection, with the peculiarities of its module."""

    connection: Any
    paramstyle: str
    begin: Callable[[Any], None]
    is_cursor: bool = False

    def rows(self, cursor: DatabaseCursor, statement: str, values: Sequence[object]) -> Sequence[Any]:
        """Run a statement that is written with question marks, and return its rows."""
        mark, numbers = PLACEHOLDERS[self.paramstyle], count(1)
        pieces = statement.split("?")
        text = pieces[0] + "".join(mark(next(numbers)) + piece for piece in pieces[1:])
        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        cursor.execute(text, named if self.paramstyle == "named" else tuple(values))
        return cursor.fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor. Its work is committed at the end of the block, or rolled back if the block
        raises."""
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
        """Yield a cursor of the connection's transaction."""
        if self.is_cursor:
            yield self.connection
            return
        cursor = self.connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def database_of(connection: DatabaseConnection, paramstyle: str | None = None) -> Database:
    """Describe a connection. Without `paramstyle` the one of the connection's module is used."""
    names = [kind.__module__.split(".")[0].lstrip("_") for kind in type(connection).__mro__]
    modules = [sys.modules[name] for name in names if name in sys.modules]
    styles = [str(module.paramstyle) for module in modules if hasattr(module, "paramstyle")]
    style = paramstyle or (styles[0] if styles else "")
    if style not in PLACEHOLDERS:
        raise ConfigError(
            f"paramstyle={style!r} of {type(connection).__module__}: give one of {', '.join(PLACEHOLDERS)}"
        )
    if "sqlite3" in names:
        return Database(connection, style, _begin_sqlite)
    if "duckdb" in names:
        # Its cursors are further connections, with transactions of their own.
        return Database(connection, style, lambda duckdb: duckdb.begin(), is_cursor=True)
    return Database(connection, style, _check_implicit)


def _begin_sqlite(connection: Any) -> None:
    """Begin with the write lock: two transactions that first read and then write would block each other."""
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")


def _check_implicit(connection: Any) -> None:
    """Check that transactions begin by themselves."""
    if getattr(connection, "autocommit", False) is True:
        raise ConfigError(
            "autocommit=True: results and offsets would be stored one by one; set it to False for the ledger"
        )
