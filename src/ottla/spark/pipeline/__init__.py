"""Pipelines: topics in, tables and topics out, declared once, run online and offline with the same result.

Decided without Spark or a file: `form` and its `sections` (what a TOML file may say), `ranges` (from where to
where), `spans` (which records something holds). What is done to a record: `decoding`, `functions`, `windows`.
Where rows go: `sinks` chooses, `tables` is parquet whose `units` say which records they hold, `aggregates` is
parquet that is updated, `delta` is Delta Lake. What survives a restart: `state`. `run` is a stream that runs,
`offsets` what would be read, `pipeline` puts it together.
"""
