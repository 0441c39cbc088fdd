"""The flags of kafka-dump-log."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("files", "Files, separated by commas: .log, .index, .timeindex, .txnindex, .snapshot."),
    switch("print-data-log", "Print keys and values too."),
    Flag("deep-iteration", "Print the records of batches.", Value.OPTIONAL),
    switch("offsets-decoder", "Keys and values are those of __consumer_offsets."),
    switch("transaction-log-decoder", "Keys and values are those of __transaction_state."),
    switch("index-sanity-check", "For an index, print only whether a broker would accept it."),
    switch("verify-index-only", "For an index, print only mismatches with the log."),
    number("max-message-size", "Ignored: entries of any size are read."),
    number("max-bytes", "Read at most this many bytes of a log."),
    Flag("value-decoder-class", "Ignored: values are text.", Value.OPTIONAL),
    Flag("key-decoder-class", "Ignored: keys are text.", Value.OPTIONAL),
    switch("skip-record-metadata", "With --print-data-log, only keys and values."),
)
USAGE = Usage(
    "kafka-dump-log",
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging.",
    FLAGS,
)
