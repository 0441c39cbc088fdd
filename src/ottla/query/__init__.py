"""Search and SQL over topics: records as Arrow, filtered while they are read.

`scan` reads a topic (or the files of a local broker) and keeps what is wanted; `sql` runs a SELECT over
topics, groups and lag by DuckDB, which is an extra. Pure: `needles` (bytes in columns), `statements` (what a
WHERE says about records), `json_fields` (typed columns of JSON values).
"""

from ottla.query.scan import Scan, scan
from ottla.query.sql import sql

__all__ = ["Scan", "scan", "sql"]
