"""Pipelines: from topics to tables and topics, declared once, run online and offline with the same result.

Pure, without Spark or files: `form` and its `sections` (what a TOML file may contain), `ranges` (from where
to where), `spans` (sets of offsets). Processing: `decoding`, `functions`, `windows`. Output: `sinks`
chooses; `tables` writes parquet in `units` that know their offsets, `aggregates` parquet that is updated,
`delta` Delta Lake. `state` survives a restart. `run` is a running stream, `offsets` says what a run reads,
`pipeline` puts everything together.
"""
