"""Pipelines: from topics to tables and topics, declared once, run online and offline with the same result.

Pure, without Spark or files: `form` with `source_form`, `decode_form`, `sink_form` and their `sections` (what
a TOML file may contain), `ranges` (from where to where), `spans` (sets of offsets). Processing: `reading`,
`decoding`, `functions`, `repeats`, `windows`, put together by `steps`. Output: `sinks`
chooses; `tables` writes parquet in `units` that know their offsets, `aggregates` parquet that is updated,
`delta` Delta Lake. `state` survives a restart. `stream` starts queries,
`batches` is what is done with each batch, `run` is a running stream, `offsets` says what a run reads,
`pipeline` puts everything together.
"""
