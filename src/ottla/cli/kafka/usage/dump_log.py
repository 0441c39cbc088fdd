"""The flags of kafka-dump-log."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("files", "Files, with commas: .log, .index, .timeindex."),
    switch("print-data-log", "Print keys and values too."),
    Flag("deep-iteration", "Print the records of batches.", Value.OPTIONAL),
    switch("offsets-decoder", "Keys and values are those of __consumer_offsets."),
    switch("index-sanity-check", "Of an index, tell only whether a broker would take it as it is."),
    switch("verify-index-only", "Of an index, tell only where it does not fit the log."),
    number("max-message-size", "Ignored: entries are as large as they are."),
    number("max-bytes", "Read so many bytes of a log at most."),
    Flag("value-decoder-class", "Ignored: values are text.", Value.OPTIONAL),
    Flag("key-decoder-class", "Ignored: keys are text.", Value.OPTIONAL),
    switch("skip-record-metadata", "With --print-data-log, only keys and values."),
)
USAGE = Usage(
    "kafka-dump-log",
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging.",
    FLAGS,
)
