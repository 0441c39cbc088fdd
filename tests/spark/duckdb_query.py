"""A query of a DuckDB with its extensions for Iceberg and Delta, which are packages: the rows as JSON.

PYTHONPATH=PACKAGES python duckdb_query.py SQL
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import duckdb


def main(sql: str) -> None:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for name in ("duckdb_extension_avro", "duckdb_extension_iceberg", "duckdb_extension_delta"):
            (extension,) = Path(str(import_module(name).__file__)).parent.rglob("*.duckdb_extension")
            connection.execute(f"load '{extension}'")
        sys.stdout.write(json.dumps(connection.sql(sql).fetchall()))


if __name__ == "__main__":
    main(sys.argv[1])
