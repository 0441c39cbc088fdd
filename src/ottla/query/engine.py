"""A DuckDB connection that reads only what it is given: no files, no extensions, bounded memory and time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ottla.model.closing import Closing
from ottla.model.errors import ConfigError, OttlaError, RequestTimedOut
from ottla.query.record_view import duckdb_module
from ottla.query.statements import Tree

MEMORY_LIMIT = "1GB"
_INTERRUPTED_EVERY_S = 0.05
_SETTINGS = (
    "set TimeZone = 'UTC'",
    "set python_enable_replacements = false",
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set enable_external_access = false",
)


class Engine(Closing):
    """One connection to a database in memory, for one thread; `interrupt` may come from any."""

    def __init__(self, *, memory_limit: str = MEMORY_LIMIT, threads: int | None = None) -> None:
        self._duckdb = duckdb_module()
        self._connection = self._duckdb.connect(":memory:")
        try:
            self._set("memory_limit", memory_limit)
            self._set("threads", str(threads or 1))
            for setting in _SETTINGS:
                self._connection.execute(setting)
            self._connection.execute("set lock_configuration = true")
        except BaseException:
            self._connection.close()
            raise

    def _set(self, name: str, value: str) -> None:
        text = value.replace("'", "''")
        try:
            self._connection.execute(f"set {name} = '{text}'")
        except self._duckdb.Error as error:
            raise ConfigError(f"{name}={value!r:.100}: {_first_line(error)}") from error

    def tree(self, statement: str, shown: str = "") -> Tree:
        """The parsed statement. Raises ConfigError unless it is one SELECT.

        `shown` is what the user wrote of it, for the error.
        """
        answer = self._fetched("select json_serialize_sql(?::varchar)", [self.with_offset_quoted(statement)])
        tree: Tree = json.loads(answer)
        if tree.get("error"):
            reason = tree.get("error_message", "this is not SQL")
            raise ConfigError(f"{shown or statement!r:.200}: {reason}")
        if len(tree["statements"]) != 1:
            raise ConfigError(f"{statement!r:.200}: give one SELECT")
        return tree

    def with_offset_quoted(self, statement: str) -> str:
        """Quote OFFSET where it is the column of records: it is a keyword of SQL."""
        try:
            tokens = self._duckdb.tokenize(statement)
        except self._duckdb.Error:
            return statement
        kinds = [kind for _, kind in tokens]
        pieces, last = [], 0
        for number, (at, kind) in enumerate(tokens):
            is_word = statement[at : at + 6].lower() == "offset" and kind == self._duckdb.token_type.keyword
            follower = kinds[number + 1] if number + 1 < len(tokens) else None
            if is_word and follower != self._duckdb.token_type.numeric_const:
                pieces += [statement[last:at], f'"{statement[at : at + 6]}"']
                last = at + 6
        return "".join([*pieces, statement[last:]])

    def value(self, expression: Tree) -> object:
        """The value of a constant expression; None if it has none."""
        return self._evaluated(expression, "")

    def time_ms(self, expression: Tree) -> int | None:
        """Return the time that a constant expression means; None if it means none."""
        value = self._evaluated(expression, "::timestamptz")
        return value if isinstance(value, int) else None

    def _evaluated(self, expression: Tree, cast: str) -> object:
        tree = self.tree("select 1")
        tree["statements"][0]["node"]["select_list"] = [expression]
        try:
            text = self._fetched("select json_deserialize_sql(?::json)", [json.dumps(tree)])
            constant = text.strip().removesuffix(";").strip()
            return self._fetched(
                f"select epoch_ms(({constant}){cast})" if cast else f"select ({constant})", []
            )
        except self._duckdb.Error:
            return None

    def _fetched(self, statement: str, values: list[str]) -> Any:
        rows = self._connection.execute(statement, values).fetchall()
        return rows[0][0] if rows else None

    def register(self, name: str, arrow: object) -> None:
        """Make a table, a batch or a stream known by a name, in place of an earlier one."""
        self._connection.register(name, arrow)

    def execute(self, statement: str) -> None:
        """Run a statement of our own."""
        with self._errors(statement):
            self._connection.execute(statement).fetchall()

    def reader(self, statement: str, rows: int, shown: str = "") -> pa.RecordBatchReader:
        """The rows of a SELECT as a stream of batches of at most `rows`; `shown` as for `tree`."""
        with self._errors(shown or statement):
            return self._connection.sql(statement).to_arrow_reader(rows)

    @contextmanager
    def _errors(self, statement: str) -> Iterator[None]:
        try:
            yield
        except self._duckdb.Error as error:
            raise self.translated(error, statement) from error

    def translated(self, error: Exception, statement: str) -> OttlaError:
        """Return DuckDB's error as ours: what is wrong with the statement, or that it took too long."""
        if isinstance(error, self._duckdb.InterruptException):
            return RequestTimedOut(f"{statement!r:.200}: stopped before its end")
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OttlaError):
            cause = cause.__cause__ or cause.__context__
        return cause or ConfigError(f"{statement!r:.200}: {_first_line(error)}")

    @property
    def error_types(self) -> tuple[type[Exception], ...]:
        """The errors that reading a result can raise."""
        return (self._duckdb.Error, pa.ArrowException)

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
        """Interrupt what runs in the block after `seconds` seconds."""
        ended = threading.Event()

        def watch() -> None:
            is_over = ended.wait(seconds)
            while not is_over:
                self.interrupt()  # repeatedly: an interrupt between two steps has no effect
                is_over = ended.wait(_INTERRUPTED_EVERY_S)

        watcher = threading.Thread(target=watch, name="query-limit", daemon=True)
        if seconds is not None:
            watcher.start()
        try:
            yield
        finally:
            ended.set()
            if seconds is not None:
                watcher.join()

    def interrupt(self) -> None:
        """Stop what runs, from any thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
